//! A catalog with its rows, for tests and fuzzing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::model::access::Founder;
use crate::model::config_file::{ConfigFileDraft, ConfigPublish, ConfigReleaseDraft};
use crate::model::config_lookup::{ClientLabels, Released};

/// A catalog, and what a store would contain of it.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Bench {
    pub catalog: Catalog,
    pub rows: BTreeMap<Vec<u8>, Vec<u8>>,
    pub index: u64,
}

impl Bench {
    /// Returns a cluster with its administrator.
    pub fn founded() -> Bench {
        let mut bench = Bench::default();
        let admin = Founder::administrator("u", "h", Timestamp(0));
        bench.codes(Command::Bootstrap { cluster_id: "c".into(), admin, level: Level::FIRST });
        bench
    }

    pub fn ctx(&self, index: u64) -> Ctx {
        let seed = u128::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        Ctx::new(index, Timestamp(1_000_000 + index * 1000), seed, RequestId(u128::from(index)), "tester")
    }

    pub fn apply(&mut self, command: Command) -> Applied {
        self.index += 1;
        self.pass_time();
        let ctx = self.ctx(self.index);
        self.apply_as(&ctx, command)
    }

    /// Advances the time to the next entry by ticks, as the leader does; a single long step would be doubted.
    pub fn pass_time(&mut self) {
        const STEP: u64 = time::STEP_MAX_MS / 1000;
        if self.catalog.clock() < self.ctx(0).time {
            return;
        }
        let mut index = (self.catalog.clock().0 - self.ctx(0).time.0) / 1000 + STEP;
        while index < self.index {
            let ctx = self.ctx(index);
            self.apply_as(&ctx, Command::Time(time::TimeChange::Tick));
            index += STEP;
        }
    }

    /// Advances the time to a moment by ticks, each half as long as the longest undoubted step.
    pub fn pass_time_until(&mut self, until_ms: u64) {
        const STEP_MS: u64 = time::STEP_MAX_MS / 2;
        while self.catalog.clock().0 + STEP_MS < until_ms {
            self.index += 1;
            let at = self.catalog.clock().plus_ms(STEP_MS);
            let ctx = Ctx::new(self.index, at, [0; 16], RequestId(u128::from(self.index)), "tester");
            self.apply_as(&ctx, Command::Time(time::TimeChange::Tick));
        }
    }

    /// Applies a command to the catalog and to a copy, and checks that the results are equal.
    pub fn apply_as(&mut self, ctx: &Ctx, command: Command) -> Applied {
        let again = self.catalog.clone().apply(ctx, command.clone());
        let applied = self.catalog.apply(ctx, command);
        assert_eq!(applied, again, "apply is a function of the log");
        // As in a node, contents are read from rows of this entry or earlier ones.
        for content in applied.unread.iter().chain(&again.unread) {
            let key = configs::contents::row_key(content.digest());
            let of_key = |edit: &&Edit| edit.key == key && edit.value.is_some();
            let written = applied.edits.iter().rfind(of_key).and_then(|edit| edit.value.as_ref());
            let row = written.or_else(|| self.rows.get(&key)).expect("what is read was written");
            content.give(configs::contents::text_of_row(row).expect("a content"));
        }
        for Edit { key, value } in &applied.edits {
            match value {
                Some(value) => self.rows.insert(key.clone(), value.clone()),
                None => self.rows.remove(key),
            };
        }
        applied
    }

    /// Publishes a config file of the group `app`, and returns the release that clients without labels get.
    pub fn publish_content(&mut self, name: &str, content: &str) -> Arc<Released> {
        let [namespace, group, name] = ["default", "app", name].map(str::to_owned);
        let release = ConfigReleaseDraft {
            namespace: namespace.clone(),
            group: group.clone(),
            file_name: name.clone(),
            ..ConfigReleaseDraft::default()
        };
        let content = Some(content.to_owned());
        let draft = ConfigFileDraft { namespace, group, name: name.clone(), content, ..ConfigFileDraft::default() };
        self.codes(Command::ConfigCreateAndPublish(vec![ConfigPublish { file: draft, release, md5: None }]));
        let found = self.catalog.configs.find("default", "app", &name, &ClientLabels::default());
        found.expect("published").clone()
    }

    pub fn codes(&mut self, command: Command) -> Vec<u32> {
        self.apply(command).outcomes.iter().map(|outcome| outcome.code.number()).collect()
    }

    /// Returns the catalog that a start would load from the rows.
    pub fn reloaded(&self) -> Catalog {
        let mut catalog = Catalog::default();
        for (key, value) in &self.rows {
            catalog.load(key, value).expect("a row that apply made");
        }
        catalog.check_loaded().expect("what the rows name is there");
        catalog
    }
}
