//! Survey of a state, by reading all of it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use super::seed_file;
use crate::catalog::nodes::Cluster;
use crate::catalog::rekey::notification_id_of;
use crate::catalog::{Row, Table};
use crate::format::codec;
use crate::format::header::StateHeader;
use crate::raft::progress::{PROGRESS_KEY, Progress};
use crate::store::{self, Contents, FileKind, RowSink};

/// Size of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableSize {
    pub rows: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

/// Summary of the rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    pub(super) progress: Progress,
    pub(super) cluster: Option<Cluster>,
    pub(super) newest_notification_id: u32,
    /// All tables by label, including empty ones.
    pub(super) tables: BTreeMap<&'static str, TableSize>,
}

impl Survey {
    pub(super) fn new() -> Self {
        let tables = Table::ALL.iter().map(|table| (table.label(), TableSize::default())).collect();
        Survey { tables, ..Survey::default() }
    }

    pub(super) fn take(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        if key == PROGRESS_KEY {
            self.progress = codec::from_bytes(value)?;
            return Ok(());
        }
        let table = Table::of_key(key).map_err(damaged)?;
        if table == Table::Cluster {
            self.cluster = Some(Cluster::read(value).map_err(damaged)?);
        }
        let notification_id = notification_id_of(key, value).map_err(damaged)?;
        self.newest_notification_id = self.newest_notification_id.max(notification_id);
        let size = self.tables.entry(table.label()).or_default();
        size.rows += 1;
        size.bytes += (key.len() + value.len()) as u64;
        Ok(())
    }
}

fn damaged(error: crate::catalog::Corrupt) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

/// A backup, a snapshot or a seed file, read completely.
pub(super) struct SurveyedFile {
    pub(super) contents: Contents,
    pub(super) header: StateHeader,
    pub(super) survey: Survey,
}

pub(super) fn survey_file(path: &Path) -> anyhow::Result<SurveyedFile> {
    let file = survey(path, |sink| store::read_file(path, sink))?;
    anyhow::ensure!(
        file.header.format == file.header.level.digest(),
        "{} was written by an unreleased build of thuban (version {}, level {}), whose formats this one does not read: \
         run `thuban export` with that build, and `thuban apply` with this one on an empty directory",
        path.display(),
        if file.header.version.is_empty() { "unknown" } else { &file.header.version },
        file.header.level
    );
    Ok(file)
}

/// Surveys the file that `read` reads completely.
pub(super) fn survey<R>(path: &Path, read: R) -> anyhow::Result<SurveyedFile>
where
    R: FnOnce(&mut RowSink<'_>) -> io::Result<Contents>,
{
    let mut survey = Survey::new();
    let contents = read(&mut |key, value| survey.take(key, value))?;
    let header: StateHeader = match contents.kind {
        FileKind::Reborn => seed_file::header_of(path, &contents)?.state,
        FileKind::State => {
            codec::from_bytes(&contents.header).with_context(|| format!("the header of {}", path.display()))?
        }
    };
    anyhow::ensure!(
        header.last_log_id == survey.progress.last_applied,
        "{}: its header and its rows are of different states",
        path.display()
    );
    Ok(SurveyedFile { contents, header, survey })
}
