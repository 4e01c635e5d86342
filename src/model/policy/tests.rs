use super::*;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
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
        assert_eq!(freeze.until(at(time)), until.map(at), "{time}");
    }
    let west = weekly(&["SUN"], "00:00", "24:00", "-05:00");
    assert_eq!(west.until(at("2026-11-29T05:00:00Z")), Some(at("2026-11-30T05:00:00Z")));
    assert_eq!(west.until(at("2026-11-29T04:59:59Z")), None);
    let whole_day = weekly(&["MON"], "09:00", "09:00", "");
    assert_eq!(whole_day.until(at("2026-12-01T08:59:00Z")), Some(at("2026-12-01T09:00:00Z")), "a day long");
}

#[test]
fn freezes_of_moments_hold_between_them() {
    let freeze = Freeze {
        from: "2026-12-24T00:00:00+01:00".into(),
        until: "2026-12-27T00:00:00+01:00".into(),
        ..Freeze::default()
    };
    assert!(freeze.check().is_ok());
    assert_eq!(freeze.until(at("2026-12-23T22:59:59Z")), None);
    assert_eq!(freeze.until(at("2026-12-23T23:00:00Z")), Some(at("2026-12-26T23:00:00Z")));
    assert_eq!(freeze.until(at("2026-12-26T23:00:00Z")), None);
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
    ] {
        let refusal = freeze.check().expect_err(why);
        assert!(refusal.detail.contains(why), "{refusal:?}");
        assert_eq!(freeze.until(at("2026-11-27T10:00:00Z")), None);
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
    for (policy, kind, namespace, name, is_judged) in rows {
        assert_eq!(policy.gates(Gate::Publish, kind, namespace, name), is_judged, "{policy:?} {kind} {name}");
        assert!(
            !policy.gates(Gate::Rollback, kind, namespace, name) && !policy.gates(Gate::Stop, kind, namespace, name)
        );
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
