//! Backups: the whole state as one file, while writes go on.

use std::io;

use bytes::Bytes;
use futures_util::Stream;

use super::{Caller, Operations};
use crate::format::header::StateHeader;
use crate::model::code::{Code, Refusal};

impl Operations {
    /// Starts a backup. Returns its file name and its chunks in order; the stream ends with an error if the backup
    /// fails. The audit trail records the backup.
    pub async fn backup(
        &self,
        caller: &Caller,
    ) -> Result<(String, impl Stream<Item = io::Result<Bytes>> + Send + use<>), Refusal> {
        let backup = self.node.member().backup().await;
        let code = backup.as_ref().map_or_else(|refusal| refusal.code, |_| Code::ExecuteSuccess);
        self.note_done(caller, "backup", "cluster", "", code);
        let backup = backup?;
        tracing::info!(by = caller.name, "backup started");
        Ok((file_name(&backup.header), backup.chunks))
    }
}

/// Builds the file name from the first 8 characters of the cluster id, and the log index.
fn file_name(header: &StateHeader) -> String {
    let cluster = header.cluster_id.as_deref().unwrap_or_default();
    let index = header.last_log_id.map_or(0, |id| id.index);
    format!("thuban-{}-{index}.backup", cluster.get(..8).unwrap_or(cluster))
}
