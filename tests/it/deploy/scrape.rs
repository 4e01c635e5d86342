//! Metrics of nodes: the series, and the labels that each has.

use std::collections::{BTreeMap, BTreeSet};

use crate::harness::Cluster;

#[derive(Debug, Default)]
pub(super) struct Scrape {
    /// Labels by series; of a histogram there are three series, one of which has `le`.
    series: BTreeMap<String, BTreeSet<String>>,
    /// All lines but their values.
    pub(super) lines: BTreeSet<String>,
}

impl Scrape {
    /// Scrapes all nodes: some series exist only on the leader.
    pub(super) async fn of(cluster: &Cluster) -> Scrape {
        let mut scrape = Scrape::default();
        for id in cluster.ids() {
            let (status, text) = cluster.api(id).health("/metrics").await.expect("metrics are answered");
            assert_eq!(status, 200, "node {id}");
            text.lines().filter(|line| !line.starts_with('#')).for_each(|line| scrape.take(line));
        }
        scrape
    }

    fn take(&mut self, line: &str) {
        let (series, _) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value in {line:?}"));
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.strip_suffix('}').unwrap_or_else(|| panic!("open labels in {line:?}"));
        // Values have no quotation mark of their own: they are codes, templates and ids.
        let pairs = labels.split("\",").filter(|pair| !pair.is_empty());
        let names = pairs.map(|pair| pair.split('=').next().unwrap_or_default().to_owned());
        self.series.entry(name.to_owned()).or_default().extend(names);
        self.lines.insert(series.to_owned());
    }

    pub(super) fn labels_of(&self, series: &str) -> Option<&BTreeSet<String>> {
        self.series.get(series)
    }

    pub(super) fn series(&self) -> impl Iterator<Item = &str> {
        self.series.keys().map(String::as_str)
    }
}
