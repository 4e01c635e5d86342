//! Replicated settings: values for the whole cluster that change at run time, while flags belong to a node. One table
//! defines their changes, their display and their description.

use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::code::{Code, Refusal};
use super::draft::lay_over;
use super::limits;
use super::spelling::is_same_name;

/// A row of the table of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    pub name: &'static str,
    pub unit: &'static str,
    pub default: u64,
    pub min: u64,
    pub max: u64,
    /// Names of the values from 0 on, for settings with named values.
    pub words: &'static [&'static str],
    pub about: &'static str,
}

macro_rules! settings {
    ($( $(#[doc = $about:literal])+
        $name:ident: $unit:literal, $default:literal, $min:literal..=$max:expr
            $(, words $words:expr)?; )+) => {
        /// Current values of all settings.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Settings {
            $( $(#[doc = $about])+ pub $name: u64, )+
            /// Identifier that every change replaces.
            #[serde(skip_serializing_if = "String::is_empty")]
            pub revision: String,
        }

        impl Default for Settings {
            fn default() -> Self {
                Settings { $( $name: $default, )+ revision: String::new() }
            }
        }

        impl Settings {
            pub const TABLE: &'static [Setting] = &[ $( Setting {
                name: stringify!($name),
                unit: $unit,
                default: $default,
                min: $min,
                max: $max,
                words: { let words: &[&str] = &[]; $( let _ = words; let words: &[&str] = $words; )? words },
                about: concat!($($about),+).trim_ascii(),
            }, )+ ];

            /// Returns the settings as callers see them.
            pub fn to_json(&self) -> Map<String, Value> {
                let all = [ $( self.$name, )+ ];
                Self::TABLE.iter().zip(all).map(|(row, value)| (row.name.to_owned(), row.show(value))).collect()
            }

        }

        /// Change of settings; absent ones are not changed.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct SettingsChange {
            $( #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<u64>, )+
            /// Expected revision; any other than the current one is refused with 409000.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub revision: Option<String>,
        }

        impl SettingsChange {
            pub fn lay_over(&self, settings: &mut Settings) {
                lay_over!(self => settings: $($name),+);
            }

            fn set(&mut self, name: &str, value: u64) {
                match name { $( stringify!($name) => self.$name = Some(value), )+ _ => {} }
            }
        }
    };
}

settings! {
    /// Inactive releases to retain per rule and per config file: the newest ones, by version.
    releases_kept: "releases", 100, 1..=10_000;
    /// Seconds after which an unhealthy instance without heartbeats is removed; 0 for never. A value of the instance
    /// itself, or of its service, takes precedence.
    /// The current leader measures the time, so a change of the leader restarts it.
    dead_instances_removed_after_s: "seconds", 0, 0..=limits::DEAD_INSTANCES_REMOVED_AFTER_S_MAX;
    /// Days for which a row of the audit trail is retained.
    audit_kept_days: "days", 90, 1..=3650;
    /// Highest number of rows of the audit trail; the newest ones are retained.
    audit_kept_rows: "rows", 1_000_000, 1_000..=10_000_000;
    /// 1 if the audit trail includes self-registrations of instances and changes of their health, otherwise 0.
    audit_instances: "0 or 1", 0, 0..=1;
    /// Seconds after which a pending request for approval expires.
    requests_expire_s: "seconds", 2_592_000, 60..=limits::REQUESTS_EXPIRE_S_MAX;
    /// Places at which rights on a rule are checked: `ends`, its own name and the services that it affects; `name`, its
    /// name alone.
    rule_scope: "word", 0, 0..=1, words RULE_SCOPES;
    /// Local users that log in with a password: `all`, or `admins`, the administrators of everything, while all others
    /// sign in by an identity provider. Logins that were made before last until they end.
    password_login: "word", 0, 0..=1, words PASSWORD_LOGINS;
}

/// Names of the values of [`Settings::password_login`].
const PASSWORD_LOGINS: &[&str] = &["all", "admins"];

/// Names of the values of [`Settings::rule_scope`].
const RULE_SCOPES: &[&str] = &["ends", "name"];

impl Settings {
    /// Reports whether the rights on rules are checked at the services that they affect.
    pub fn judges_ends(&self) -> bool {
        self.rule_scope == 0
    }

    /// Reports whether only administrators log in with a password.
    pub fn admits_only_administrators(&self) -> bool {
        self.password_login != 0
    }
}

/// Key of the revision in the object of settings.
pub const REVISION: &str = "revision";

impl Setting {
    /// Returns the value as callers write and read it.
    fn show(&self, value: u64) -> Value {
        let word = usize::try_from(value).ok().and_then(|index| self.words.get(index));
        word.map_or(json!(value), |word| json!(word))
    }

    /// Returns the default as callers read it.
    pub fn shown_default(&self) -> String {
        match self.show(self.default) {
            Value::String(word) => word,
            number => number.to_string(),
        }
    }

    fn read_word(&self, value: &Value) -> Result<u64, Refusal> {
        let found = (0..).zip(self.words).find(|(_, word)| value.as_str() == Some(**word));
        found.map(|(number, _)| number).ok_or_else(|| {
            let why = format!("{} is {value}, it is one of {}", self.name, self.words.join(", "));
            Refusal::new(Code::InvalidParameter, why)
        })
    }

    fn read(&self, value: &Value) -> Result<u64, Refusal> {
        if !self.words.is_empty() {
            return self.read_word(value);
        }
        let number = match value {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        };
        number.filter(|number| (self.min..=self.max).contains(number)).ok_or_else(|| {
            let why = format!("{} is {value}, it is a number from {} to {}", self.name, self.min, self.max);
            Refusal::new(Code::InvalidParameter, why)
        })
    }

    fn schema(&self) -> Value {
        if !self.words.is_empty() {
            return json!({ "enum": self.words, "default": self.shown_default(), "description": self.about });
        }
        let about = format!("{} Unit: {}.", self.about, self.unit);
        json!({
            "type": "integer",
            "minimum": self.min,
            "maximum": self.max,
            "default": self.default,
            "description": about,
        })
    }
}

impl SettingsChange {
    /// Reports whether the change affects auditing or authorization, which needs more than the right to operate.
    pub fn is_of_judgement(&self) -> bool {
        let of_audit = [self.audit_kept_days, self.audit_kept_rows, self.audit_instances];
        of_audit.iter().any(Option::is_some) || self.rule_scope.is_some() || self.password_login.is_some()
    }

    /// Parses a request: every key must name a setting, and every value must be within its range. A null value counts
    /// as absent.
    pub fn read(given: &Map<String, Value>) -> Result<SettingsChange, Refusal> {
        let (mut change, mut given_before) = (SettingsChange::default(), BTreeSet::new());
        for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
            if name == REVISION {
                let refuse = || Refusal::new(Code::InvalidParameter, format!("revision is {value}, it is a text"));
                change.revision = Some(value.as_str().ok_or_else(refuse)?.to_owned());
                continue;
            }
            let Some(setting) = Settings::TABLE.iter().find(|setting| is_same_name(setting.name, name)) else {
                let names: Vec<_> = Settings::TABLE.iter().map(|setting| setting.name).collect();
                let why = format!("{name:?} is not a setting, there are {}", names.join(", "));
                return Err(Refusal::new(Code::InvalidParameter, why));
            };
            if !given_before.insert(setting.name) {
                return Err(Refusal::new(Code::InvalidParameter, format!("{} is given twice", setting.name)));
            }
            change.set(setting.name, setting.read(value)?);
        }
        Ok(change)
    }
}

fn schema_of_table() -> Schema {
    let properties: Map<String, Value> =
        Settings::TABLE.iter().map(|setting| (setting.name.to_owned(), setting.schema())).collect();
    let revision = json!({
        "type": "string",
        "description": "Changes with every change, which is refused with 409000 if it names another one than the \
         current.",
    });
    let properties: Map<_, _> = properties.into_iter().chain([(REVISION.to_owned(), revision)]).collect();
    json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
}

impl JsonSchema for Settings {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Settings".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema_of_table()
    }
}

impl JsonSchema for SettingsChange {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SettingsChange".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema_of_table()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &Value) -> Result<Settings, Refusal> {
        let mut settings = Settings::default();
        SettingsChange::read(given.as_object().expect("an object"))?.lay_over(&mut settings);
        Ok(settings)
    }

    #[test]
    fn a_change_is_read_by_the_table() {
        let kept = |releases_kept| Settings { releases_kept, ..Settings::default() };
        let after = |after| Settings { dead_instances_removed_after_s: after, ..Settings::default() };
        let done = [
            (json!({}), Settings::default()),
            (json!({ "releases_kept": 1 }), kept(1)),
            (json!({ "releasesKept": 1 }), kept(1)),
            (json!({ "releases_kept": "10000" }), kept(10_000)),
            (json!({ "dead_instances_removed_after_s": 60 }), after(60)),
            (json!({ "dead_instances_removed_after_s": 0 }), after(0)),
            (json!({ "rule_scope": "name" }), Settings { rule_scope: 1, ..Settings::default() }),
            (json!({ "rule_scope": "ends" }), Settings::default()),
            (json!({ "releases_kept": null, "dead_instances_removed_after_s": 60, "x": null }), after(60)),
        ];
        for (given, expected) in done {
            assert_eq!(read(&given), Ok(expected), "{given}");
        }
        let refused = [
            (json!({ "release_kept": 5 }), "\"release_kept\" is not a setting"),
            (json!({ "releases_kept": 5, "x": 1 }), "\"x\" is not a setting"),
            (json!({ "releases_kept": 5, "releasesKept": 5 }), "releases_kept is given twice"),
            (json!({ "releases_kept": 0 }), "releases_kept is 0, it is a number from 1 to 10000"),
            (json!({ "releases_kept": 10_001 }), "releases_kept is 10001"),
            (json!({ "releases_kept": -1 }), "releases_kept is -1"),
            (json!({ "releases_kept": 1.5 }), "releases_kept is 1.5"),
            (json!({ "releases_kept": [7] }), "releases_kept is [7]"),
            (json!({ "releases_kept": "many" }), "releases_kept is \"many\""),
            (json!({ "rule_scope": 1 }), "rule_scope is 1, it is one of ends, name"),
            (json!({ "rule_scope": "all" }), "rule_scope is \"all\", it is one of ends, name"),
        ];
        for (given, why) in refused {
            let refusal = read(&given).expect_err("out of the table");
            assert_eq!(refusal.code, Code::InvalidParameter, "{given}");
            assert!(refusal.detail.contains(why), "{given}: {}", refusal.detail);
        }
    }

    #[test]
    fn the_table_is_what_the_settings_hold() {
        let kept = serde_json::to_value(Settings::default()).expect("an object");
        let mut names: Vec<_> = kept.as_object().expect("an object").keys().cloned().collect();
        let shown = Settings::default().to_json();
        assert_eq!(shown.len(), names.len());
        assert_eq!(shown["rule_scope"], "ends");
        let mut table: Vec<_> = Settings::TABLE.iter().map(|setting| setting.name).collect();
        names.sort_unstable();
        table.sort_unstable();
        assert_eq!(names, table);
        for setting in Settings::TABLE {
            assert_eq!(kept[setting.name], setting.default);
            assert!((setting.min..=setting.max).contains(&setting.default), "{}", setting.name);
        }
    }
}
