use super::*;

fn grants(rows: &[(Role, &str, &str)]) -> Grants {
    let grant = |(role, namespace, name): &(Role, &str, &str)| Grant {
        role: *role,
        namespace: (*namespace).to_owned(),
        name: (*name).to_owned(),
    };
    Grants::new(rows.iter().map(grant).collect::<Vec<_>>())
}

#[test]
fn a_scope_covers_what_its_patterns_cover() {
    let rows = [
        ("*", "*", "prod", "pay", true),
        ("prod", "*", "prod", "pay", true),
        ("prod", "*", "prod2", "pay", false),
        ("prod*", "*", "prod2", "pay", true),
        ("prod*", "*", "pro", "pay", false),
        ("prod", "pay", "prod", "pay", true),
        ("prod", "pay", "prod", "payment", false),
        ("prod", "pay*", "prod", "payment", true),
        ("prod", "pay*", "prod", "Pay", false),
        ("*", "pay", "anything", "pay", true),
        ("", "*", "prod", "pay", false),
    ];
    for (namespace, name, at, of, is_covered) in rows {
        let granted = grants(&[(Role::Reader, namespace, name)]);
        assert_eq!(granted.may(Verb::Read, at, of), is_covered, "{namespace} {name} on {at} {of}");
        assert!(!granted.may(Verb::Edit, at, of));
    }
}

#[test]
fn a_pattern_is_covered_by_a_pattern_and_touched_by_a_part_of_it() {
    let narrow = grants(&[(Role::Editor, "prod", "pay*")]);
    let rows =
        [("prod", "pay1", true, true), ("prod", "*", false, true), ("*", "*", false, true), ("dev", "*", false, false)];
    for (namespace, name, may, touches) in rows {
        assert_eq!(narrow.may(Verb::Edit, namespace, name), may, "{namespace}/{name}");
        assert_eq!(narrow.may_touch(Verb::Edit, namespace, name), touches, "{namespace}/{name}");
    }
    assert!(grants(&[(Role::Editor, "prod", "*")]).may(Verb::Edit, "prod", "*"));
    assert!(!grants(&[(Role::Editor, "prod", "*")]).may(Verb::Edit, "*", "*"));
}

#[test]
fn what_is_larger_than_a_thing_needs_a_larger_scope() {
    let narrow = grants(&[(Role::Editor, "prod", "pay*"), (Role::Releaser, "prod", "*")]);
    assert!(narrow.may(Verb::Edit, "prod", "pay") && !narrow.may_in(Verb::Edit, "prod"));
    assert!(narrow.may_in(Verb::Release, "prod") && !narrow.may_everywhere(Verb::Release));
    assert!(narrow.may_within(Verb::Edit, "prod") && !narrow.may_within(Verb::Edit, "test"));
    assert!(narrow.may_somewhere(Verb::Edit) && !narrow.may_somewhere(Verb::Operate));
    assert!(Grants::all(Role::Admin).may_everywhere(Verb::Manage));
    assert!(!grants(&[(Role::Admin, "prod", "*")]).may_everywhere(Verb::Manage));
}

#[test]
fn roles_add_up_and_include_nothing_of_each_other() {
    for role in Role::ALL.into_iter().filter(|role| *role != Role::Admin) {
        for other in Role::ALL.into_iter().filter(|other| *other != role && *other != Role::Admin) {
            let own: Vec<_> = other.verbs().iter().filter(|verb| **verb != Verb::Read).collect();
            assert!(own.iter().all(|verb| !role.may(**verb)), "{role:?} {other:?}");
        }
        assert_eq!(serde_json::to_value(role).expect("text"), role.word());
    }
    let both = grants(&[(Role::Editor, "*", "*"), (Role::Releaser, "*", "*")]);
    assert!(both.may_everywhere(Verb::Edit) && both.may_everywhere(Verb::Release));
}

#[test]
fn sight_is_whole_or_what_the_grants_let_read() {
    let read_scope =
        ReadScope::new(&grants(&[(Role::Client, "prod", "pay"), (Role::Reader, "test", "*")]), &[Verb::Read]);
    assert!(!read_scope.is_whole() && read_scope.sees("test", "x") && !read_scope.sees("prod", "pay"));
    assert!(read_scope.sees_namespace("test") && !read_scope.sees_namespace("prod"));
    assert!(ReadScope::new(&Grants::all(Role::Reader), &[Verb::Read]).is_whole());
    assert!(!ReadScope::new(&Grants::default(), &[Verb::Read]).sees("a", "b"));
}

#[test]
fn grants_are_checked() {
    let long = "x".repeat(limits::NAME_CHARS_MAX + 1);
    for (namespace, why) in
        [("", "is empty"), ("a*b", "at its end"), ("**", "at its end"), (&long, "longer"), ("\n", "control")]
    {
        let bad = Grant { namespace: namespace.to_owned(), ..Grant::of(Role::Reader) };
        let refusal = Grants::new([bad]).check().expect_err(namespace);
        assert!(refusal.detail.contains(why), "{refusal:?}");
    }
    let many = |count| Grants::new(vec![Grant::of(Role::Reader); count]).check();
    assert!(many(limits::GRANTS_MAX).is_ok());
    assert!(many(limits::GRANTS_MAX + 1).is_err());
    let absent: Grant = serde_json::from_str(r#"{"role":"reader"}"#).expect("a grant");
    assert_eq!(absent, Grant::of(Role::Reader));
}
