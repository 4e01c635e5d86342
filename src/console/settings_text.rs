//! Settings of the cluster as sentences.

use super::texts::{Language, Texts};
use crate::model::settings::{Setting, Settings};

/// A setting as a sentence.
pub(super) struct Sentence {
    pub(super) name: &'static str,
    pub(super) text: String,
}

pub(super) fn sentences(t: &Texts, settings: &Settings) -> Vec<Sentence> {
    let values = settings.to_json();
    let row = |row: &Setting| {
        let value = values.get(row.name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        Sentence { name: row.name, text: sentence(t, row.name, &value.unwrap_or_default()) }
    };
    Settings::TABLE.iter().map(row).collect()
}

fn sentence(t: &Texts, name: &str, value: &str) -> String {
    let is_chinese = Language::of_tag(t.tag) == Some(Language::Chinese);
    let span = || span(is_chinese, value.parse().unwrap_or_default());
    let (english, chinese) = match (name, value) {
        ("releases_kept", _) => (
            format!("Of each rule and file, the {value} newest inactive releases are kept."),
            format!("每个规则和文件保留最新的 {value} 个未生效发布。"),
        ),
        ("dead_instances_removed_after_s", "0") => (
            "Unhealthy instances without heartbeats are never removed.".to_owned(),
            "没有心跳的不健康实例不会被移除。".to_owned(),
        ),
        ("dead_instances_removed_after_s", _) => (
            format!("An unhealthy instance without heartbeats is removed after {}.", span()),
            format!("没有心跳的不健康实例在 {}后移除。", span()),
        ),
        ("audit_kept_days", _) => {
            (format!("Rows of the audit trail are kept for {value} days."), format!("审计记录保留 {value} 天。"))
        }
        ("audit_kept_rows", _) => {
            (format!("The audit trail has at most {value} rows."), format!("审计记录最多 {value} 行。"))
        }
        ("audit_instances", "0") => (
            "Registrations of instances and changes of their health are not audited.".to_owned(),
            "实例注册与健康变化不计入审计。".to_owned(),
        ),
        ("audit_instances", _) => (
            "Registrations of instances and changes of their health are audited.".to_owned(),
            "实例注册与健康变化计入审计。".to_owned(),
        ),
        ("requests_expire_s", _) => {
            (format!("A request for approval expires after {}.", span()), format!("审批申请在 {}后过期。", span()))
        }
        ("rule_scope", "name") => {
            ("Rights on a rule are checked at its name alone.".to_owned(), "规则的权限仅按规则名称检查。".to_owned())
        }
        ("rule_scope", _) => (
            "Rights on a rule are checked at its name and at the services that it affects.".to_owned(),
            "规则的权限按规则名称及其影响的服务检查。".to_owned(),
        ),
        ("password_login", "admins") => (
            "Of local users only administrators log in with a password.".to_owned(),
            "本地用户中仅管理员可用密码登录。".to_owned(),
        ),
        ("password_login", _) => {
            ("All local users log in with a password.".to_owned(), "所有本地用户均可用密码登录。".to_owned())
        }
        _ => (value.to_owned(), value.to_owned()),
    };
    if is_chinese { chinese } else { english }
}

/// Formats seconds in the largest unit that divides them.
pub(super) fn span(is_chinese: bool, seconds: u64) -> String {
    let units = [(86_400, "day", "天"), (3_600, "hour", "小时"), (60, "minute", "分钟"), (1, "second", "秒")];
    let fitting = units.into_iter().find(|(size, _, _)| seconds.is_multiple_of(*size) && seconds >= *size);
    let (size, english, chinese) = fitting.unwrap_or((1, "second", "秒"));
    let number = seconds / size;
    match (is_chinese, number) {
        (true, _) => format!("{number} {chinese}"),
        (false, 1) => format!("1 {english}"),
        (false, _) => format!("{number} {english}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_a_sentence_with_its_unit() {
        for language in [Language::English, Language::Chinese] {
            for Sentence { name, text } in sentences(language.texts(), &Settings::default()) {
                assert!(text.ends_with(['.', '。']), "{name}: {text}");
            }
        }
        let t = Language::English.texts();
        assert_eq!(sentence(t, "requests_expire_s", "2592000"), "A request for approval expires after 30 days.");
        assert_eq!(sentence(t, "requests_expire_s", "5400"), "A request for approval expires after 90 minutes.");
        let t = Language::Chinese.texts();
        assert_eq!(sentence(t, "dead_instances_removed_after_s", "3600"), "没有心跳的不健康实例在 1 小时后移除。");
    }
}
