//! Results of single conditions of an explanation, one line each.

use super::conditions::{condition, part, quoted};
use super::language::Language;
use crate::model::explain::{Finding, Gray, LabelFinding, ShareFinding};

/// Describes the result of a condition on a part of the request.
pub(crate) fn finding(language: Language, finding: &Finding<'_>) -> String {
    match language {
        Language::English => finding.info.clone(),
        Language::Chinese => {
            let asked = condition(language, &part(language, finding.kind, finding.key), finding.condition);
            with_value(language, asked, finding.value)
        }
    }
}

/// Describes the results of the conditions on the clients of a gray release.
pub(crate) fn of_gray(language: Language, gray: &Gray<'_>) -> Vec<(bool, String)> {
    if language == Language::English {
        return gray.findings().map(|(matched, info)| (matched, info.to_owned())).collect();
    }
    let labels = gray.client_labels.iter().map(|label| (label.matched, of_label(language, label)));
    labels.chain(gray.client_percent.iter().map(|share| (share.matched, of_share(language, share)))).collect()
}

fn of_label(language: Language, label: &LabelFinding<'_>) -> String {
    with_value(language, condition(language, &quoted(label.key), Some(label.condition)), label.value)
}

fn of_share(language: Language, share: &ShareFinding<'_>) -> String {
    let asked = language.share_of_clients(language.percent(share.percent.0), quoted(share.by));
    match share.number {
        Some(number) => language.has_number(asked, number),
        None => with_value(language, asked, share.value),
    }
}

fn with_value(language: Language, asked: String, value: Option<&str>) -> String {
    match value {
        Some(value) => language.has_value(asked, quoted(value)),
        None => language.has_none(asked),
    }
}
