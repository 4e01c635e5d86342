//! Reconnecting SotW clients get deletions that they missed, from any node.

use super::sotw::{ACK, NOTHING, Script};
use super::*;
use crate::model::mesh::Dialect;

/// Reconnects to another node, with the version that the client accepted last.
fn back(before: &Script, dialect: Dialect, change: impl FnOnce(&mut FakeView)) -> Script {
    let mut view = before.view.clone();
    change(&mut view);
    let mut script = Script::of(dialect, view);
    script.last.clone_from(&before.last);
    script
}

#[test]
fn a_deletion_while_it_was_away_reaches_a_client() {
    for dialect in Dialect::ALL {
        for kind in ResourceType::ALL {
            let mut before = Script::of(dialect, two_services());
            before.begin(kind, "s/a s/b");
            before.answer(kind, "s/a s/b", ACK);
            let label = kind.label();
            let mut after = back(&before, dialect, |view| view.remove(kind, "s/b"));
            // Listeners and clusters are sent completely, so a missing one counts as deleted. For other types the
            // response names it.
            assert_eq!(after.begin(kind, "s/a s/b"), [format!("{label} s/a=1 ?s/b")], "{dialect:?}");
            assert_eq!(after.answer(kind, "s/a s/b", ACK), NOTHING, "and once");
            let mut after = back(&before, dialect, |view| {
                view.remove(kind, "s/a");
                view.remove(kind, "s/b");
            });
            assert_eq!(after.begin(kind, "s/a s/b"), [format!("{label} ?s/a ?s/b")], "{dialect:?}: nothing is left");
        }
    }
}

#[test]
fn a_deletion_while_it_was_away_is_missing_among_all() {
    for kind in [CDS, LDS] {
        let mut before = Script::envoy();
        before.begin(kind, "");
        before.answer(kind, "", ACK);
        let mut after = back(&before, Dialect::Envoy, |view| view.remove(kind, "s/b"));
        assert_eq!(after.begin(kind, ""), [format!("{} s/a=1", kind.label())]);
        let mut after = back(&before, Dialect::Envoy, |view| {
            view.remove(kind, "s/a");
            view.remove(kind, "s/b");
        });
        assert_eq!(after.begin(kind, ""), [kind.label()], "all there is, and that is nothing");
    }
}
