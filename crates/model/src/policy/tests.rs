use proptest::prelude::*;
use proptest::sample::subsequence;

use super::freeze::Day;
use super::*;
use crate::model::config_file::ConfigKey;
use crate::model::time::Timestamp;
use crate::model::wire::Words;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
}

/// Returns the end of a freeze, if it holds at a time.
fn until_of(freeze: &Freeze, time: Timestamp) -> Option<Timestamp> {
    let calendar = Calendar::of(std::slice::from_ref(freeze));
    Calendar::free_from(&[&calendar], time).filter(|_| calendar.holds(time))
}

fn once(from: &str, until: &str, offset: &str) -> Freeze {
    Freeze { from: from.into(), until: until.into(), offset: offset.into(), ..Freeze::default() }
}

fn weekly(days: &[&str], from: &str, until: &str, offset: &str) -> Freeze {
    let freeze = serde_json::json!({"days": days, "from": from, "until": until, "offset": offset});
    serde_json::from_value(freeze).expect("a freeze")
}

#[test]
fn weekly_freezes_hold_from_their_beginning_to_their_end() {
    let evening = weekly(&["FRI"], "16:00", "08:00", "+08:00");
    let rows = [
        // 27 November 2026 is a Friday; 16:00 at +08:00 is 08:00 UTC.
        (&evening, "2026-11-27T07:59:59Z", None),
        (&evening, "2026-11-27T08:00:00Z", Some("2026-11-28T00:00:00Z")),
        (&evening, "2026-11-27T23:59:59Z", Some("2026-11-28T00:00:00Z")),
        (&evening, "2026-11-28T00:00:00Z", None),
        (&evening, "2026-11-26T10:00:00Z", None),
    ];
    for (freeze, time, until) in rows {
        assert_eq!(until_of(freeze, at(time)), until.map(at), "{time}");
    }
    let west = weekly(&["SUN"], "00:00", "24:00", "-05:00");
    assert_eq!(until_of(&west, at("2026-11-29T05:00:00Z")), Some(at("2026-11-30T05:00:00Z")));
    assert_eq!(until_of(&west, at("2026-11-29T04:59:59Z")), None);
    let whole_day = weekly(&["MON"], "09:00", "09:00", "");
    assert_eq!(until_of(&whole_day, at("2026-12-01T08:59:00Z")), Some(at("2026-12-01T09:00:00Z")), "a day long");
}

#[test]
fn freezes_of_moments_hold_between_them() {
    let freeze = Freeze {
        from: "2026-12-24T00:00:00+01:00".into(),
        until: "2026-12-27T00:00:00+01:00".into(),
        ..Freeze::default()
    };
    assert!(freeze.check().is_ok());
    assert_eq!(until_of(&freeze, at("2026-12-23T22:59:59Z")), None);
    assert_eq!(until_of(&freeze, at("2026-12-23T23:00:00Z")), Some(at("2026-12-26T23:00:00Z")));
    assert_eq!(until_of(&freeze, at("2026-12-26T23:00:00Z")), None);
}

#[test]
fn freezes_that_mean_nothing_are_refused() {
    for (freeze, why) in [
        (Freeze::default(), "no time"),
        (
            Freeze { from: "2026-12-24T00:00:00Z".into(), until: "2026-12-24T00:00:00Z".into(), ..Freeze::default() },
            "after",
        ),
        (weekly(&["FRI"], "25:00", "08:00", ""), "time of day"),
        (weekly(&["FRI"], "16:60", "08:00", ""), "time of day"),
        (weekly(&["FRI"], "16:00", "8:00", ""), "time of day"),
        (weekly(&["FRI"], "16:00", "08:00", "8"), "offset"),
        (weekly(&["FRI"], "16:00", "08:00", "+24:00"), "offset"),
        (once("2026-12-24 00:00:00", "2026-12-27 00:00:00", "+08:00"), "offset"),
        (once("2026-12-24T00:00:00Z", "2026-12-27T00:00:00Z", "garbage"), "offset"),
    ] {
        let refusal = freeze.check().expect_err(why);
        assert!(refusal.detail.contains(why), "{refusal:?}");
        assert_eq!(until_of(&freeze, at("2026-11-27T10:00:00Z")), None);
    }
    assert!(serde_json::from_str::<Freeze>(r#"{"days":["FREITAG"]}"#).is_err());
}

#[test]
fn a_policy_judges_what_its_patterns_kinds_and_gates_name() {
    let routing = PolicyKind::Rule(Family::Routing);
    let policy = |namespace: &str, names: &[&str], kinds: &[PolicyKind]| Policy {
        namespace: namespace.into(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        kinds: kinds.to_vec(),
        ..Policy::new("p")
    };
    let rows = [
        (policy("*", &["*"], &[]), PolicyKind::ConfigFile, "prod", "pay/app.yml", true),
        (policy("prod", &["pay"], &[]), PolicyKind::ConfigFile, "prod", "pay/app.yml", true),
        (policy("prod", &["pay"], &[]), PolicyKind::ConfigFile, "prod", "payment/app.yml", false),
        (policy("prod", &["pay/*"], &[]), PolicyKind::ConfigFile, "prod", "pay/app.yml", true),
        (policy("prod", &["pay/app.yml"], &[]), PolicyKind::ConfigFile, "prod", "pay/other.yml", false),
        (policy("prod", &["pay"], &[]), routing, "prod", "pay", true),
        (policy("prod", &["pay"], &[]), routing, "prod", "pay/app", false),
        (policy("prod", &["x", "pa*"], &[]), routing, "prod", "pay", true),
        (policy("prod", &["*"], &[PolicyKind::ConfigFile]), routing, "prod", "pay", false),
        (policy("prod*", &["*"], &[routing]), routing, "prod2", "pay", true),
        (policy("prod", &["*"], &[]), routing, "test", "pay", false),
    ];
    let place = |kind: PolicyKind, namespace: &str, name: &str| match name.split_once('/') {
        Some((group, file)) if kind == PolicyKind::ConfigFile => Place::File(ConfigKey::new(namespace, group, file)),
        _ => Place::Rule { namespace: namespace.into(), name: name.into() },
    };
    for (policy, kind, namespace, name, is_judged) in rows {
        let place = place(kind, namespace, name);
        assert_eq!(policy.gates(Gate::Publish, kind, &place), is_judged, "{policy:?} {kind} {name}");
        assert!(!policy.gates(Gate::Rollback, kind, &place) && !policy.gates(Gate::Stop, kind, &place));
    }
}

#[test]
fn drafts_are_checked() {
    let read = |json: &str| serde_json::from_str::<PolicyDraft>(json).expect("a draft");
    for (json, why) in [
        (r#"{}"#, "name"),
        (r#"{"name":"p","namespace":"a*b"}"#, "namespace"),
        (r#"{"name":"p","names":[]}"#, "names"),
        (r#"{"name":"p","names":["a*b"]}"#, "names"),
        (r#"{"name":"p","approvals":6}"#, "approvals"),
        (r#"{"name":"p","gates":[]}"#, "gates"),
        (r#"{"name":"p","freezes":[{"from":"x","until":"y"}]}"#, "freezes"),
    ] {
        let refusal = read(json).check().expect_err(json);
        assert!(refusal.info().contains(why), "{json}: {refusal:?}");
    }
    let whole = read(r#"{"name":"p","kinds":["configfile","routing"],"gates":["stop"],"approvals":0}"#);
    assert!(whole.check().is_ok());
    assert!(serde_json::from_str::<PolicyDraft>(r#"{"name":"p","kinds":["service"]}"#).is_err());
}

/// Returns begin and end of the weekly freeze at a minute, by scanning every minute of the days before.
fn naive(days: &[Day], from: i64, until: i64, minute: i64) -> Option<i64> {
    let until = if until > from { until } else { until + 1440 };
    let begins = (minute - 2880..=minute).filter(|begin| begin.rem_euclid(1440) == from);
    let named = begins.filter(|begin| {
        let weekday = (begin.div_euclid(1440) + 3).rem_euclid(7);
        days.iter().any(|day| *day as i64 == weekday)
    });
    named.map(|begin| begin - from + until).filter(|end| minute < *end).max()
}

fn clock(minutes: i64) -> String {
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

proptest! {
    #![proptest_config(crate::test_seed::cases(256))]

    #[test]
    fn weekly_freezes_hold_as_a_calendar_says(
        days in subsequence(Day::ALL.iter().map(|(day, _)| *day).collect::<Vec<_>>(), 1..=7),
        from in 0_i64..1440,
        until in 0_i64..=1440,
        offset in -1439_i64..1440,
        minute in 1_000_000_i64..40_000_000,
    ) {
        let sign = if offset < 0 { '-' } else { '+' };
        let offset_text = format!("{sign}{}", clock(offset.abs()));
        let (from_text, until_text) = (clock(from), clock(until));
        let freeze = Freeze {
            days: days.clone(), from: from_text, until: until_text, offset: offset_text, ..Freeze::default()
        };
        prop_assert_eq!(freeze.check().map_err(|refusal| refusal.detail), Ok(()));
        let ms = |minute: i64| Timestamp(u64::try_from(minute * 60_000).expect("after 1970"));
        let holds = |minute: i64| naive(&days, from, until, minute + offset).map(|end| end - offset);
        prop_assert_eq!(Calendar::of(std::slice::from_ref(&freeze)).holds(ms(minute)), holds(minute).is_some());
        // A freeze that continues into its next occurrence all week has no end.
        let ends = std::iter::successors(holds(minute), |end| holds(*end)).take(15);
        let last = ends.last().filter(|end| holds(*end).is_none());
        prop_assert_eq!(until_of(&freeze, ms(minute)), last.map(ms));
    }

    #[test]
    fn no_text_and_no_time_brings_a_freeze_down(
        from in ".{0,8}", until in "[0-9:+TZ-]{0,20}", offset in "[+-][0-9:]{0,6}", is_weekly: bool, time: u64,
    ) {
        let days = if is_weekly { Day::ALL.iter().map(|(day, _)| *day).collect() } else { Vec::new() };
        let freeze = Freeze { days: days.clone(), from, until, offset, ..Freeze::default() };
        let _ = (freeze.check(), until_of(&freeze, Timestamp(time)));
        let always = Freeze { days, from: "00:00".into(), until: "24:00".into(), ..Freeze::default() };
        let _ = until_of(&always, Timestamp(time));
    }
}

#[test]
fn freezes_of_several_policies_end_where_none_holds() {
    let calendar = |freezes: &[Freeze]| Calendar::of(freezes);
    let days = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];
    let [day, night] = [weekly(&days, "06:00", "20:00", ""), weekly(&days, "20:00", "06:00", "")];
    let (day, night) = (calendar(&[day]), calendar(&[night]));
    let noon = at("2026-11-27T12:00:00Z");
    assert_eq!(Calendar::free_from(&[&day], noon), Some(at("2026-11-27T20:00:00Z")));
    assert_eq!(Calendar::free_from(&[&day, &night], noon), None, "there is no such moment");
    let eve = calendar(&[once("2026-11-27T19:00:00Z", "2026-11-28T03:30:10Z", "")]);
    assert_eq!(Calendar::free_from(&[&day, &eve], noon), Some(at("2026-11-28T03:30:10Z")));
    assert_eq!(Calendar::free_from(&[&eve], noon), Some(noon), "none holds");
    // More consecutive freezes than are examined.
    let hour = |hour: u64, policy: u64| Freeze {
        from: Timestamp(hour * 3_600_000).text(),
        until: Timestamp((hour + policy) * 3_600_000).text(),
        ..Freeze::default()
    };
    let odd: Vec<_> = (0..200).step_by(2).map(|at| hour(at, 1)).collect();
    let even: Vec<_> = (1..200).step_by(2).map(|at| hour(at, 1)).collect();
    let (odd, even) = (calendar(&odd), calendar(&even));
    assert_eq!(Calendar::free_from(&[&odd, &even], Timestamp(0)), None);
    assert_eq!(Calendar::free_from(&[&odd, &even], Timestamp(190 * 3_600_000)), Some(Timestamp(200 * 3_600_000)));
}

#[test]
fn the_comment_is_that_of_a_freeze_that_holds() {
    let told = |freeze: Freeze, comment: &str| Freeze { comment: comment.into(), ..freeze };
    let calendar = Calendar::of(&[
        told(once("2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z", ""), "later"),
        weekly(&["FRI"], "00:00", "24:00", ""),
        told(weekly(&["FRI"], "12:00", "08:00", "+08:00"), "evening"),
    ]);
    let comment = |text: &str| calendar.comment_at(at(text)).to_owned();
    assert_eq!(comment("2026-11-27T03:59:59Z"), "");
    assert_eq!(comment("2026-11-27T04:00:00Z"), "evening");
    assert_eq!(comment("2026-11-27T23:59:59Z"), "evening");
    assert_eq!(comment("2026-11-28T00:00:00Z"), "");
}

#[test]
fn the_next_freeze_is_the_earliest_that_begins_later() {
    let at = |text: &str| Timestamp::parse(text).expect("a time");
    let once = |from: &str, until: &str| Freeze { from: from.into(), until: until.into(), ..Freeze::default() };
    let friday = Freeze { days: vec![Day::Friday], from: "16:00".into(), until: "08:00".into(), ..Freeze::default() };
    let christmas = once("2026-12-24T00:00:00Z", "2026-12-27T00:00:00Z");
    let both = Calendar::of(&[friday.clone(), christmas.clone()]);
    // 2026-12-18 and 2026-12-25 are Fridays.
    for (time, next) in [
        ("2026-12-18T15:59:30Z", "2026-12-18T16:00:00Z"),
        ("2026-12-18T16:00:00Z", "2026-12-24T00:00:00Z"),
        ("2026-12-24T00:00:00Z", "2026-12-25T16:00:00Z"),
        ("2026-12-30T00:00:00Z", "2027-01-01T16:00:00Z"),
    ] {
        assert_eq!(both.next_begin(at(time)), Some(at(next)), "{time}");
    }
    let alone = Calendar::of(&[christmas]);
    assert_eq!(alone.next_begin(at("2026-12-24T00:00:00Z")), None, "it holds already");
    let all_days: Vec<Day> = Day::ALL.iter().map(|(day, _)| *day).collect();
    let always = Freeze { days: all_days, from: "00:00".into(), until: "00:00".into(), ..Freeze::default() };
    assert_eq!(Calendar::of(&[always]).next_begin(at("2026-12-24T00:00:00Z")), None, "it never begins again");
}
