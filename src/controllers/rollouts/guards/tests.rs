//! Results of guards by counts.

use super::*;
use crate::catalog::history::Thing;
use crate::model::config_file::ConfigKey;
use crate::model::rollout::{RolloutPlan, StagedRollout};
use crate::model::time::Timestamp;

fn broken(text: &str) -> Measured {
    Measured::Broken(text.to_owned())
}

fn nobody(text: &str) -> Measured {
    Measured::Missing { why: text.to_owned(), is_fault: false }
}

#[test]
fn only_who_has_the_release_is_asked_whether_it_could_be_applied() {
    let judge = |part, all, max| of_refusals(PartOfAll { part, all }, max, false, None);
    assert_eq!(judge(1, 3, 33.33), Measured::Kept, "as many as there may be");
    assert_eq!(judge(1, 3, 33.0), broken("refused: 33.33 % (1 of 3 clients), at most 33 %"));
    assert_eq!(judge(0, 0, 0.0), nobody("refused: no client has the release"));
}

#[test]
fn a_default_guard_that_measures_nobody_passes_and_says_so() {
    let judge = |unsure| of_refusals(PartOfAll::default(), 1.0, true, unsure);
    let text = "refused: no client has the release, the default guard passes";
    assert_eq!(judge(None), Measured::Unmeasured(text.to_owned()));
    let silent = Measured::fault("refused: node 2 does not answer".to_owned());
    assert_eq!(judge(Some("node 2 does not answer")), silent, "it may have a client");
    let both = judge(None).and(of_health(&HashMap::new(), [(7, true)].into_iter(), 10.0, true, None));
    let text = format!("{text}; health: no instance is on a host with the release, the default guard passes");
    assert_eq!(both, Measured::Unmeasured(text));
}

#[test]
fn a_guard_is_broken_by_those_that_answer_and_kept_by_all_alone() {
    let judge = |part| of_refusals(PartOfAll { part, all: 100 }, 1.0, false, Some("node 2 does not answer"));
    assert_eq!(judge(50), broken("refused: 50 % (50 of 100 clients), at most 1 %"));
    assert_eq!(judge(0), Measured::fault("refused: node 2 does not answer".to_owned()));
}

#[test]
fn health_is_compared_with_that_of_the_release_before() {
    let (has, other) = (HostState { has: true, has_other: false }, HostState { has: false, has_other: true });
    let hosts: HashMap<u64, HostState> = [(1, has), (2, has), (3, other), (4, other)].into();
    let judge = |instances: &[(u64, bool)], max| of_health(&hosts, instances.iter().copied(), max, false, None);
    let same = [(1, true), (2, false), (3, true), (4, false), (9, false)];
    assert_eq!(judge(&same, 0.0), Measured::Kept);
    let worse = [(1, false), (2, false), (3, true), (4, false)];
    assert_eq!(judge(&worse, 50.0), Measured::Kept);
    let text = "health: 100 % unhealthy (2 of 2 instances) against 50 %, at most 10 % worse";
    assert_eq!(judge(&worse, 10.0), broken(text));
    assert_eq!(judge(&[(1, true)], 0.0), Measured::Kept, "nobody has the one before");
    let text = "health: 100 % unhealthy (1 of 1 instances) against 0 %, at most 10 % worse";
    assert_eq!(judge(&[(1, false)], 10.0), broken(text));
    assert_eq!(judge(&[(3, true)], 0.0), nobody("health: no instance is on a host with the release"));
}

#[test]
fn one_sample_beyond_the_limit_is_enough() {
    let judge = |samples: &[f64], above, below| of_samples(Ok(samples.to_vec()), (above, below));
    assert_eq!(judge(&[0.1, 0.2], Some(0.2), None), Measured::Kept);
    assert_eq!(judge(&[0.1, 0.3], Some(0.2), None), broken("prometheus: 0.3, at most 0.2"));
    assert_eq!(judge(&[5.0, 3.0], None, Some(4.0)), broken("prometheus: 3, at least 4"));
    assert!(matches!(judge(&[], Some(1.0), None), Measured::Missing { is_fault: true, .. }));
    assert!(matches!(of_samples(Err("no".to_owned()), (None, None)), Measured::Missing { .. }));
}

#[test]
fn one_that_is_broken_counts_before_one_that_is_missing() {
    let all = [Measured::Kept, nobody("a"), Measured::fault("b".to_owned()), broken("c")];
    assert_eq!(all.iter().cloned().fold(Measured::Kept, Measured::and), broken("c"));
    assert_eq!(all[..3].iter().cloned().fold(Measured::Kept, Measured::and), nobody("a"));
}

#[test]
fn a_member_that_is_silent_or_began_in_the_step_leaves_doubt() {
    let json = r#"{"by":"CLIENT_IP","steps":[{"percent":5,"hold_s":3600},{"percent":50,"hold_s":5},{"percent":100}]}"#;
    let plan: RolloutPlan = serde_json::from_str(json).expect("a plan");
    let rollout = StagedRollout::begin(plan, Timestamp(1_000_000), false);
    let thing = Thing::File(ConfigKey::new("n", "g", "f"));
    let live = |step| LiveRollout {
        thing: thing.clone(),
        release_name: "r".into(),
        release_id: "1".into(),
        rule_revision: String::new(),
        version: 2,
        rollout: StagedRollout { step, ..rollout.clone() },
    };
    let clients = |up_ms| ClusterHolders { up_ms: vec![(1, 9_000_000), (2, up_ms)], ..ClusterHolders::default() };
    let doubt = |step, up_ms, now| clients(up_ms).unsure(now, &live(step)).is_some();
    assert!(!doubt(1, 30_000, 1_020_000), "it was up before the step began");
    assert!(doubt(1, 30_000, 1_040_000) && !doubt(1, 60_000, 1_100_000), "for a minute");
    assert!(doubt(2, 4_000, 1_040_000) && !doubt(2, 5_000, 1_040_000), "or for as long as the step holds");
    let silent = ClusterHolders { silent: vec![3], ..clients(9_000_000) };
    assert_eq!(silent.unsure(1_020_000, &live(1)).as_deref(), Some("node 3 does not answer"));
    let (waits, kept) = (Measured::fault("node 3 does not answer".to_owned()), Measured::Kept);
    assert_eq!((silent.all_answered(), clients(0).all_answered()), (waits, kept), "guards of every kind wait");
    let cut = ClusterHolders { cut: vec![2], ..clients(9_000_000) };
    assert!(cut.unsure(1_020_000, &live(1)).is_some());
}
