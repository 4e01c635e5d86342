//! Audience of a gray release: clients by their labels, a share of them, or both.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::code::{Code, Refusal};
use super::rule::expression::Expression;
use super::rule::fault::Fault;
use super::rule::matching::{MatchString, OwnedMatcher};
use super::wire::Uint32;
use super::{limits, name, number_of};

/// A condition on a client label. A client without the label does not meet it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClientLabel {
    pub key: String,
    pub value: MatchString,
}

/// Refuses labels that no client can have and invalid conditions with 400904, and expressions that together exceed the
/// memory of one audience with 400103. The memory depends on the version that compiles them, so this is never checked
/// during apply.
pub fn check_labels(labels: &[ClientLabel]) -> Result<(), Refusal> {
    let refuse = |why: String| Err(Refusal::new(Code::InvalidMatchRule, why));
    if labels.len() > limits::CLIENT_LABELS_MAX {
        return refuse(format!("more than {} client labels", limits::CLIENT_LABELS_MAX));
    }
    let mut compiled = Vec::new();
    let mut bytes = 0;
    for (index, label) in labels.iter().enumerate() {
        if label.key.is_empty() {
            return refuse(format!("client_labels[{index}] has no key"));
        }
        let code = Code::InvalidMatchRule;
        name::check_length("the key of a client label", &label.key, limits::METADATA_KEY_CHARS_MAX, code)?;
        name::check_length("the value of a client label", &label.value.value, limits::METADATA_VALUE_CHARS_MAX, code)?;
        let unfit = |fault: Fault| {
            let refusal: Refusal = fault.within(&format!("client_labels[{index}]")).into();
            Refusal::new(Code::InvalidMatchRule, refusal.detail)
        };
        let Some(expression) = label.value.expression() else {
            label.value.check().map_err(unfit)?;
            continue;
        };
        bytes += Expression::compile(expression).map_err(unfit)?.bytes();
        compiled.push(format!("client_labels[{index}] ({})", label.key));
        if bytes > limits::AUDIENCE_PROGRAM_BYTES_MAX {
            let most = limits::AUDIENCE_PROGRAM_BYTES_MAX;
            let named = compiled.join(", ");
            let why = format!("the expressions of {named} take {bytes} bytes once they are compiled, at most {most}");
            return Err(Refusal::new(Code::InvalidParameter, why));
        }
    }
    Ok(())
}

/// A stable share of the clients of a gray release: a growing share keeps the clients that it had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClientPercent {
    /// Label that identifies a client: `CLIENT_IP`, or another key. A client without it is not selected.
    pub by: String,
    /// Percentage from 1 to 100.
    pub percent: Uint32,
}

impl ClientPercent {
    /// Reports whether a client with this value is selected: its number is below the percentage.
    pub fn has(&self, value: &str) -> bool {
        ClientPercent::number(value) < u64::from(self.percent.0)
    }

    /// Returns the first eight bytes of the SHA-256 of the value, as a big-endian number modulo 100. It is the same for
    /// every release, so that simultaneous rollouts select the same clients.
    pub fn number(value: &str) -> u64 {
        number_of(&Sha256::digest(value.as_bytes())) % 100
    }

    fn check(&self) -> Result<(), Refusal> {
        let refuse = |why: &str| Err(Refusal::new(Code::InvalidMatchRule, why));
        if self.by.is_empty() {
            return refuse("client_percent.by is required: CLIENT_IP, or the key of a label");
        }
        if !(1..=100).contains(&self.percent.0) {
            return refuse("client_percent.percent has to be 1 to 100");
        }
        let code = Code::InvalidMatchRule;
        name::check_length("client_percent.by", &self.by, limits::METADATA_KEY_CHARS_MAX, code)
    }
}

/// Audience of a gray release: clients that meet all conditions and are in the share.
#[derive(Clone, Copy, Debug)]
pub struct Audience<'a> {
    pub labels: &'a [ClientLabel],
    pub percent: Option<&'a ClientPercent>,
}

impl<'a> Audience<'a> {
    /// Returns the keys of the labels that it depends on.
    pub fn keys(self) -> impl Iterator<Item = &'a str> {
        let share = self.percent.map(|share| share.by.as_str());
        self.labels.iter().map(|label| label.key.as_str()).chain(share)
    }
}

impl Audience<'_> {
    pub fn is_everybody(self) -> bool {
        self.labels.is_empty() && self.percent.is_none()
    }

    /// Refuses an audience that no client can belong to, or with invalid conditions: 400904.
    pub fn check(self) -> Result<(), Refusal> {
        check_labels(self.labels)?;
        self.percent.map_or(Ok(()), ClientPercent::check)
    }
}

/// Conditions of an audience, compiled for the first client and reused for all others. Compiling an expression takes up
/// to a thousand times longer than matching it, and any client may ask.
///
/// It belongs to the active release, and is dropped when that becomes inactive. All expressions together take at most
/// [`limits::AUDIENCE_PROGRAM_BYTES_MAX`] and their working memory [`limits::AUDIENCE_IDLE_BYTES_MAX`], even if the
/// release is older than these limits: an expression that does not fit is compiled for each use.
#[derive(Clone, Debug, Default)]
pub struct Judge(OnceLock<Arc<Ready>>);

#[derive(Debug)]
struct Ready {
    conditions: Vec<OwnedMatcher>,
    /// Bytes of idle working memory.
    idle_bytes: AtomicUsize,
}

impl Ready {
    fn of(labels: &[ClientLabel]) -> Ready {
        let mut bytes_left = limits::AUDIENCE_PROGRAM_BYTES_MAX;
        let conditions = labels.iter().map(|wanted| wanted.value.owned_matcher(&mut bytes_left)).collect();
        Ready { conditions, idle_bytes: AtomicUsize::new(0) }
    }
}

impl Judge {
    /// Reports whether a client belongs to the audience; `label` looks up its labels. All calls must be for one
    /// release.
    pub fn admits<'a>(&self, audience: Audience<'_>, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let Audience { labels, percent } = audience;
        let ready = self.0.get_or_init(|| Arc::new(Ready::of(labels)));
        let meets = |(wanted, condition): (&ClientLabel, &OwnedMatcher)| {
            label(&wanted.key).is_some_and(|value| condition.matches(value, &ready.idle_bytes))
        };
        labels.iter().zip(&ready.conditions).all(meets)
            && percent.is_none_or(|share| label(&share.by).is_some_and(|value| share.has(value)))
    }
}

/// Two values are always equal, since they derive from the release.
impl PartialEq for Judge {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::model::rule::matching::{MatchType, ValueType};

    #[test]
    fn an_audience_is_made_ready_once_and_judges_as_its_conditions_do() {
        let label = |key: &str, kind: MatchType, value: &str| ClientLabel {
            key: key.into(),
            value: MatchString { kind, value: value.into(), value_type: ValueType::Text },
        };
        let labels = [label("zone", MatchType::Regex, "^eu-[0-9]+$"), label("os", MatchType::In, "linux,mac")];
        let (audience, judge) = (Audience { labels: &labels, percent: None }, Judge::default());
        let rows = [
            (&[("zone", "eu-1"), ("os", "mac")][..], true),
            (&[("zone", "us-1"), ("os", "mac")], false),
            (&[("zone", "eu-1"), ("os", "other")], false),
            (&[("zone", "eu-1")], false),
            (&[], false),
        ];
        for (client, expected) in rows {
            let has = |key: &str| client.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
            assert_eq!(judge.admits(audience, has), expected, "{client:?}");
        }
        let ready = |judge: &Judge| judge.0.get().map(Arc::as_ptr);
        assert!(ready(&judge).is_some());
        assert_eq!(ready(&judge), ready(&judge.clone()), "a view of the catalog shares what is ready");
    }

    fn expressions(values: impl IntoIterator<Item = String>) -> Vec<ClientLabel> {
        let label = |(number, value)| ClientLabel {
            key: format!("k{number}"),
            value: MatchString { kind: MatchType::Regex, value, value_type: ValueType::Text },
        };
        values.into_iter().enumerate().map(label).collect()
    }

    #[test]
    fn expressions_of_one_audience_have_a_bound_together() {
        let usual = expressions((0..limits::CLIENT_LABELS_MAX).map(|number| format!("^(eu|us)-[0-9]+-{number}$")));
        assert_eq!(check_labels(&usual), Ok(()), "as many as there may be");
        let large = expressions((0..limits::CLIENT_LABELS_MAX).map(|_| r"\pL{3}".to_owned()));
        assert_eq!(check_labels(&large[..1]), Ok(()));
        let refusal = check_labels(&large).expect_err("64 of them");
        assert_eq!(refusal.code, Code::InvalidParameter);
        for part in ["client_labels[0] (k0), client_labels[1] (k1)", "786432"] {
            assert!(refusal.detail.contains(part), "{part} in {refusal:?}");
        }
        assert!(!refusal.detail.contains("client_labels[63]"), "the rest is not compiled: {refusal:?}");
    }

    /// A release from before there was a limit.
    #[test]
    fn what_does_not_find_room_judges_all_the_same() {
        let labels = expressions((0..8).map(|_| r"^\pL{3}$".to_owned()));
        let judge = Judge::default();
        let audience = Audience { labels: &labels, percent: None };
        let (all, other) = ("é".repeat(3), "é".repeat(2));
        assert!(judge.admits(audience, |_| Some(&all)));
        assert!(!judge.admits(audience, |key| Some(if key == "k7" { &other } else { &all })));
        let ready = judge.0.get().expect("ready");
        let kept = ready.conditions.iter().filter(|condition| matches!(condition, OwnedMatcher::Found(_))).count();
        assert!((1..8).contains(&kept), "{kept}");
        assert!(ready.idle_bytes.load(Ordering::Relaxed) <= limits::AUDIENCE_IDLE_BYTES_MAX);
    }

    /// Computed with `printf 10.0.0.1 | sha256sum`.
    #[test]
    fn a_share_has_the_same_clients_on_every_node_and_as_it_grows() {
        let numbers = [("10.0.0.1", 58), ("10.0.0.2", 74), ("10.0.0.3", 37), ("a", 50), ("pay-7", 3), ("", 52)];
        for (value, number) in numbers {
            for percent in 1..=100 {
                let share = ClientPercent { by: "CLIENT_IP".into(), percent: Uint32(percent) };
                assert_eq!(share.has(value), number < percent, "{value:?} of {percent} %");
            }
        }
        for percent in [1, 10, 50, 99] {
            let share = ClientPercent { by: "host".into(), percent: Uint32(percent) };
            let found = (0..10_000).filter(|number| share.has(&format!("client-{number}"))).count();
            let expected = 100 * percent as usize;
            assert!(found.abs_diff(expected) < 200, "{found} of 10000 for {percent} %");
        }
    }

    #[test]
    fn who_lacks_the_label_of_a_share_is_out() {
        let percent = ClientPercent { by: "host".into(), percent: Uint32(100) };
        let audience = Audience { labels: &[], percent: Some(&percent) };
        let admitted =
            |host: Option<&'static str>| Judge::default().admits(audience, |key| host.filter(|_| key == "host"));
        assert_eq!((admitted(Some("x")), admitted(None)), (true, false));
    }
}
