//! Arguments of the commands that work while no node runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use thuban_ctl::OutputFormat;

use super::faults::Faults;
use crate::model::access::ADMIN;
use crate::offline::recover::Recover;
use crate::offline::restore::Restore;

/// Arguments of `thuban restore`.
#[derive(Args, Clone, Debug)]
pub struct RestoreArgs {
    /// On the first node, the backup; on the others, the file that the first restore left there
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,

    /// Directory to create; may exist if it is empty
    #[arg(long, env = "THUBAN_DATA_DIR", value_name = "DIR")]
    pub data_dir: PathBuf,

    /// Id of the member that will use the directory
    #[arg(long, env = "THUBAN_NODE_ID")]
    pub node_id: u64,

    /// Members of the new cluster, with a backup: 1=host:8190,2=host:8190,3=host:8190
    #[arg(long, env = "THUBAN_INITIAL_CLUSTER", value_name = "LIST")]
    pub initial_cluster: Option<String>,

    /// File to write for the other nodes [default: FILE.reborn next to the backup]
    #[arg(long, value_name = "FILE")]
    pub reborn_out: Option<PathBuf>,
}

impl RestoreArgs {
    pub fn check(self) -> Result<Restore, Vec<String>> {
        let RestoreArgs { from, data_dir, node_id, initial_cluster, reborn_out } = self;
        let mut faults = Faults::default();
        if node_id == 0 {
            faults.add("--node-id has to be above 0");
        }
        let initial_cluster = initial_cluster.map(|list| faults.initial_cluster(&list, node_id));
        if initial_cluster.as_ref().is_some_and(BTreeMap::is_empty) && faults.0.is_empty() {
            faults.add("--initial-cluster has to name the members of the new cluster");
        }
        let order = Restore { from, data_dir, node_id, initial_cluster, reborn_out };
        if faults.0.is_empty() { Ok(order) } else { Err(faults.0) }
    }
}

/// Arguments of `thuban recover`.
#[derive(Args, Clone, Debug)]
pub struct RecoverArgs {
    /// Data directory of the stopped node
    #[arg(long, env = "THUBAN_DATA_DIR", value_name = "DIR")]
    pub data_dir: PathBuf,

    /// Id of the stopped node
    #[arg(long, env = "THUBAN_NODE_ID")]
    pub node_id: u64,

    /// Members of the new cluster, including this node [default: this node alone]
    #[arg(long, value_name = "LIST")]
    pub initial_cluster: Option<String>,

    /// File to write for the other members [default: DIR.reborn next to the directory]
    #[arg(long, value_name = "FILE")]
    pub reborn_out: Option<PathBuf>,

    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
}

impl RecoverArgs {
    pub fn check(self) -> Result<Recover, Vec<String>> {
        let RecoverArgs { data_dir, node_id, initial_cluster, reborn_out, yes: _ } = self;
        let mut faults = Faults::default();
        let list = initial_cluster.unwrap_or_default();
        let order = Recover { data_dir, node_id, initial_cluster: faults.initial_cluster(&list, node_id), reborn_out };
        if faults.0.is_empty() { Ok(order) } else { Err(faults.0) }
    }
}

/// Arguments of `thuban inspect`.
#[derive(Args, Clone, Debug)]
pub struct InspectArgs {
    /// A data directory of a stopped node, a backup, or a snapshot
    pub path: PathBuf,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    pub output: OutputFormat,
}

/// Arguments of `thuban reset-password`.
#[derive(Args, Clone, Debug)]
pub struct ResetPasswordArgs {
    /// Data directory of a stopped node, any member of the cluster
    #[arg(long, env = "THUBAN_DATA_DIR", value_name = "DIR")]
    pub data_dir: PathBuf,

    /// User whose password is reset
    #[arg(long, value_name = "USER", default_value = ADMIN)]
    pub name: String,

    /// File with the new password, `-` for standard input [default: prompt]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_a_restore_has_to_name_the_node() {
        let check = |node_id: u64, list: &str| {
            let (from, data_dir) = (PathBuf::from("f"), PathBuf::from("d"));
            let initial_cluster = Some(list.to_owned());
            RestoreArgs { from, data_dir, node_id, initial_cluster, reborn_out: None }.check()
        };
        for (node_id, list, words) in [
            (0, "1=a:1", "above 0"),
            (1, "", "name the members"),
            (1, " , ", "name the members"),
            (4, "1=a:1,2=b:1", "does not name this node"),
            (1, "1=a:1,1=b:1", "twice"),
            (1, "1=a", "expected ID=HOST:PORT"),
        ] {
            let faults = check(node_id, list).expect_err(list);
            assert!(faults.iter().any(|fault| fault.contains(words)), "{list}: {faults:?}");
        }
        assert_eq!(check(2, "1=a:1, 2=b:1").expect("right").initial_cluster.map(|list| list.len()), Some(2));
    }
}
