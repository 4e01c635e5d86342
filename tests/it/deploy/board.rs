//! The board for Grafana, as a file: what Grafana would import, and the queries in it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::text;

const COLUMNS: u64 = 24;

/// A query of a panel, and the labels that its legend shows.
pub(super) struct Query {
    pub(super) panel: String,
    pub(super) text: String,
    pub(super) shown: Vec<String>,
}

fn board() -> Value {
    serde_json::from_str(&text("deploy/grafana/thuban.json")).expect("the board is JSON")
}

fn panels(board: &Value) -> &Vec<Value> {
    board["panels"].as_array().expect("a board has panels")
}

fn variables(board: &Value) -> &Vec<Value> {
    board["templating"]["list"].as_array().expect("a board has variables")
}

/// The labels in braces of a legend.
pub(super) fn shown_by(legend: &str, prefix: &str) -> Vec<String> {
    let parts = legend.split("{{").skip(1).filter_map(|part| part.split("}}").next());
    let words = parts.filter_map(|part| part.split_whitespace().next()?.strip_prefix(prefix));
    words.map(str::to_owned).collect()
}

/// Every query, those of variables included.
pub(super) fn queries() -> Vec<Query> {
    let board = board();
    let mut queries = Vec::new();
    for panel in panels(&board) {
        let title = panel["title"].as_str().expect("a panel has a title");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let text = target["expr"].as_str().expect("a target has a query").to_owned();
            let shown = shown_by(target["legendFormat"].as_str().expect("a target has a legend"), "");
            queries.push(Query { panel: title.to_owned(), text, shown });
        }
    }
    for variable in variables(&board).iter().filter(|variable| variable["type"] == "query") {
        let text = variable["definition"].as_str().expect("a variable has a query");
        let inner = text.strip_prefix("label_values(").and_then(|text| text.strip_suffix(')'));
        let (series, label) = inner.and_then(|text| text.rsplit_once(", ")).expect("values of a label");
        let panel = format!("the variable {}", variable["name"]);
        queries.push(Query { panel, text: series.to_owned(), shown: vec![label.to_owned()] });
    }
    queries
}

#[test]
fn every_panel_asks_the_data_source_that_is_chosen() {
    let board = board();
    let variables = variables(&board);
    let source = variables.iter().find(|variable| variable["type"] == "datasource").expect("it can be chosen");
    assert_eq!((&source["name"], &source["query"]), (&"datasource".into(), &"prometheus".into()));
    let asked: Vec<&Value> = panels(&board).iter().filter(|panel| panel["type"] != "row").collect();
    assert!(asked.len() > 30, "{} panels", asked.len());
    for panel in asked {
        let targets = panel["targets"].as_array().expect("a panel has targets");
        assert!(!targets.is_empty(), "{} asks for nothing", panel["title"]);
        for place in targets.iter().chain([panel]) {
            assert_eq!(place["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        }
        let refs: BTreeSet<_> = targets.iter().map(|target| target["refId"].as_str()).collect();
        assert_eq!(refs.len(), targets.len(), "{}: two targets have one name", panel["title"]);
    }
    // All queries are of the nodes that are chosen.
    for query in queries().iter().filter(|query| !query.text.contains("ALERTS") && !query.panel.contains("variable")) {
        let selectors = query.text.matches("thuban_").count() + query.text.matches("process_").count();
        let chosen = query.text.matches(r#"{job=~"$job", instance=~"$instance""#).count();
        assert!(chosen >= selectors.max(1), "{}: {}", query.panel, query.text);
    }
}

#[test]
fn no_panel_covers_another() {
    let board = board();
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in panels(&board) {
        let title = &panel["title"];
        assert!(panel["id"].as_u64().is_some_and(|id| id > 0 && ids.insert(id)), "{title} has the id of another");
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap_or_else(|| panic!("{title} has no {key}"));
        let (x, y, width, height) = (place("x"), place("y"), place("w"), place("h"));
        assert!(width > 0 && height > 0 && x + width <= COLUMNS, "{title} does not fit");
        for cell in (x..x + width).flat_map(|x| (y..y + height).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "{title} covers another at {cell:?}");
        }
    }
}
