//! The command line on real nodes: documents, releases, contexts, and how commands end.

mod documents;
mod instances;
mod pipeline;
mod pipes;
mod places;
mod prompts;
mod providers;
mod rollouts;
mod sealed;
mod under_way;
mod webhooks;
mod words;

use std::path::{Path, PathBuf};

use crate::harness::{Cluster, Done, run};

/// A cluster with the words to speak to it.
struct Desk {
    cluster: Cluster,
    endpoints: String,
}

impl Desk {
    async fn start(size: u64) -> Desk {
        Desk::of(Cluster::start(size).await)
    }

    fn of(cluster: Cluster) -> Desk {
        let endpoints: Vec<_> = cluster.ids().iter().map(|id| format!("http://{}", cluster.ports(*id).api)).collect();
        Desk { endpoints: endpoints.join(","), cluster }
    }

    async fn run(&self, arguments: &[&str], input: &str) -> Done {
        run(&self.endpoints, self.cluster.token(), arguments, input).await
    }

    /// A line as it is typed: words with blanks between them.
    async fn line(&self, line: &str) -> Done {
        self.run(&line.split_whitespace().collect::<Vec<_>>(), "").await
    }

    /// A file below the cluster's directory.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.cluster.file(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, text).expect("written");
        path
    }
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("a path is text")
}
