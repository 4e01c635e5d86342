//! Templates of config files.

use super::*;
use crate::model::config_file::Format;
use crate::model::config_template::ConfigTemplateDraft;

#[test]
fn templates_are_made_changed_listed_and_deleted() {
    let mut bench = Bench::founded();
    let draft = |name: &str, content: &str| ConfigTemplateDraft {
        name: name.into(),
        content: Some(content.into()),
        ..ConfigTemplateDraft::default()
    };
    let write =
        |bench: &mut Bench, op, draft: ConfigTemplateDraft| bench.codes(Command::ConfigTemplates(op, vec![draft]))[0];
    assert_eq!(write(&mut bench, Op::Update, draft("t", "x")), 400202);
    assert_eq!(write(&mut bench, Op::Create, draft("t", "x")), 200000);
    assert_eq!(write(&mut bench, Op::Create, draft("t", "y")), 400201);
    let kept = bench.catalog.templates.get("t").expect("kept").clone();
    assert_eq!((kept.content.as_str(), kept.format), ("x", Format::Text));
    assert_eq!(write(&mut bench, Op::Update, draft("t", "x")), 200002);
    let yaml =
        ConfigTemplateDraft { format: Some("yml".into()), revision: Some(kept.revision.clone()), ..draft("t", "a: 1") };
    assert_eq!(write(&mut bench, Op::Update, yaml.clone()), 200000);
    assert_eq!(write(&mut bench, Op::Update, yaml), 409000, "that was read before");
    assert_eq!(bench.catalog.templates.get("t").expect("kept").format, Format::Yaml);
    assert_eq!(bench.reloaded(), bench.catalog);
    assert_eq!(bench.catalog.view().templates, bench.catalog.templates);
    for number in 1..limits::CONFIG_TEMPLATES_MAX {
        assert_eq!(write(&mut bench, Op::Create, draft(&format!("t{number}"), "")), 200000);
    }
    assert_eq!(write(&mut bench, Op::Create, draft("one-more", "")), 507002);
    let listed = bench.catalog.templates.list(&Some(NameFilter::Exact("t".into())), &Page::new(0, 10));
    assert_eq!((listed.amount, bench.catalog.templates.len()), (1, limits::CONFIG_TEMPLATES_MAX));
    for _ in 0..2 {
        assert_eq!(write(&mut bench, Op::Delete, draft("t", "")), 200000, "also of one that is not there");
    }
    assert_eq!(bench.reloaded(), bench.catalog);
}
