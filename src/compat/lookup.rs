//! Conversion of path and query to a [`Lookup`] and to the state that the client reports.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::client_request::{ClientRequest, NO_VALUE, Query};
use crate::model::config_lookup::{ClientLabels, Lookup, chain};
use crate::reads::ReadRefusal;

/// Maximum notification id: some clients store it in 32 signed bits.
const NOTIFICATION_ID_MAX: u64 = i32::MAX as u64;
/// Label with the whole parameter, as Apollo compares it.
const WHOLE_LABEL: &str = "label";

/// App id and cluster from the path, and the file.
pub(super) type Named = (String, String, String);

/// Reports whether `text` can be the name of a group; releases exist in such groups only.
pub(super) fn is_app_id(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-./:_".contains(&byte);
    !text.is_empty() && text.bytes().all(is_allowed)
}

pub(super) fn lookup((app, cluster, file): Named, ask: &ClientRequest) -> Result<Lookup, ReadRefusal> {
    if !is_app_id(&app) {
        return Err(ReadRefusal::BadRequest("the app id may hold letters, digits and - . / : _ only".to_owned()));
    }
    let namespaces = chain(&cluster, ask.query().get("dataCenter").as_deref());
    Ok(Lookup { group: app, namespaces, file, client: client(ask) })
}

/// Returns the client's address: the reported one takes precedence, because several clients may share the address of
/// the connection.
pub(super) fn address_of(ask: &ClientRequest) -> String {
    let seen = || ask.address.map(|address| address.to_string()).unwrap_or_default();
    ask.named_address().map_or_else(seen, Cow::into_owned)
}

fn client(ask: &ClientRequest) -> ClientLabels {
    let parameter = ask.query().filled("label").unwrap_or_default();
    let whole = (!parameter.is_empty()).then(|| (WHOLE_LABEL.to_owned(), parameter.to_string()));
    let labels = whole.into_iter().chain(parameter.split(',').filter_map(pair)).collect();
    ClientLabels { address: address_of(ask), labels }
}

/// Parses a further label in the parameter, `key=value`.
fn pair(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    (!key.is_empty() && !value.is_empty() && key != WHOLE_LABEL).then(|| (key.to_owned(), value.to_owned()))
}

/// State that the client reports: a release key, and the newest notification id it received.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ClientState<'a> {
    pub(super) release_key: Option<Cow<'a, str>>,
    /// Release key without decoding, for clients that do not encode it.
    release_key_undecoded: Option<&'a str>,
    /// Newest notification id; 0 for none.
    pub(super) notified_id: u32,
}

impl<'a> ClientState<'a> {
    pub(super) fn of(query: Query<'a>) -> ClientState<'a> {
        let is_value = |value: &str| !NO_VALUE.contains(&value);
        ClientState {
            release_key: query.get("releaseKey").filter(|value| is_value(value)),
            release_key_undecoded: query.undecoded("releaseKey").filter(|value| is_value(value)),
            notified_id: query.get("messages").and_then(|text| newest_notified(&text)).unwrap_or(0),
        }
    }

    pub(super) fn is_current(&self, release_key: &str) -> bool {
        [self.release_key.as_deref(), self.release_key_undecoded].contains(&Some(release_key))
    }
}

/// Returns the newest id in `messages`. Ids count all changes in one sequence, so the newest covers the rest. The
/// parameter is a hint: unreadable or impossible values are ignored.
fn newest_notified(messages: &str) -> Option<u32> {
    #[derive(Deserialize)]
    struct Messages {
        details: BTreeMap<String, Value>,
    }
    let messages: Messages = serde_json::from_str(messages).ok()?;
    let ids = messages.details.values().filter_map(Value::as_u64).filter(|id| *id <= NOTIFICATION_ID_MAX);
    ids.max().map(|id| id as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::client_request::ClientRequest;
    use crate::compression::Accepted;
    use crate::reads::ReaderCredentials;

    fn ask(query: &str) -> ClientRequest {
        ClientRequest {
            uri: format!("/?{query}").parse().expect("a path and a query"),
            received: None,
            address: Some([192, 0, 2, 7].into()),
            credentials: ReaderCredentials::Anonymous,
            certificate: None,
            parking: None,
            agent: None,
            accepted: Accepted::Identity,
        }
    }

    #[test]
    fn a_path_and_a_query_make_a_lookup() {
        let named = ("app1".to_owned(), "c1".to_owned(), "dir/db.yml".to_owned());
        let lookup = lookup(named, &ask("dataCenter=sz&label=lab+1,zone%3Deu,=x,y%3D,,+os+=+linux+")).expect("valid");
        let labels = [("label", "lab 1,zone=eu,=x,y=,, os = linux "), ("zone", "eu"), ("os", "linux")];
        assert_eq!(
            lookup,
            Lookup {
                group: "app1".to_owned(),
                namespaces: ["c1", "sz", "default"].map(str::to_owned).into(),
                file: "dir/db.yml".to_owned(),
                client: ClientLabels {
                    address: "192.0.2.7".to_owned(),
                    labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
                },
            }
        );
    }

    #[test]
    fn the_client_may_name_its_own_address() {
        for (query, expected) in [
            ("ip=10.1.2.3", "10.1.2.3"),
            ("ip=", "192.0.2.7"),
            ("ip=undefined", "192.0.2.7"),
            ("", "192.0.2.7"),
            ("ip=10.0.0.1&ip=10.0.0.2", "10.0.0.1"),
        ] {
            assert_eq!(client(&ask(query)).address, expected, "{query}");
        }
    }

    #[test]
    fn the_label_is_the_whole_parameter_and_pairs_are_labels_besides() {
        for (query, expected) in [
            ("label=canary", &[("label", "canary")][..]),
            ("label=canary,other", &[("label", "canary,other")]),
            ("label=zone%3Da", &[("label", "zone=a"), ("zone", "a")]),
            ("label=label%3Dcanary", &[("label", "label=canary")]),
            ("label=+canary", &[("label", " canary")]),
            ("label=", &[]),
            ("label", &[]),
            ("", &[]),
        ] {
            let labels = client(&ask(query)).labels;
            let labels: Vec<_> = labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            assert_eq!(labels, expected, "{query}");
        }
    }

    #[test]
    fn app_ids_are_judged_by_their_characters() {
        for good in ["app1", "100004458", "a-b_c.d", "team/app", "a:b"] {
            assert!(is_app_id(good), "{good}");
        }
        for bad in ["", " ", "a b", "a+b", "app\n", "äpp", "a*"] {
            assert!(!is_app_id(bad), "{bad:?}");
        }
    }

    #[test]
    fn release_keys_that_mean_none() {
        for query in ["", "releaseKey", "releaseKey=", "releaseKey=-1", "releaseKey=undefined"] {
            assert_eq!(ClientState::of(Query(query)), ClientState::default(), "{query}");
        }
        let unencoded = ClientState::of(Query("releaseKey=default-app-a+b.yml-1"));
        assert!(unencoded.is_current("default-app-a+b.yml-1") && unencoded.is_current("default-app-a b.yml-1"));
        assert!(!unencoded.is_current("default-app-a b.yml-2"));
        let encoded = ClientState::of(Query("releaseKey=default-app-a%2Bb.yml-1"));
        assert!(encoded.is_current("default-app-a+b.yml-1"));
    }

    #[test]
    fn messages_are_a_hint() {
        for (messages, expected) in [
            (r#"{"details":{"app1+default+application":113}}"#, Some(113)),
            (r#"{"details":{"a":5,"b":9,"c":7}}"#, Some(9)),
            (r#"{"details":{"a":5,"b":"9"},"more":1}"#, Some(5)),
            (r#"{"details":{"a":-1}}"#, None),
            (r#"{"details":{"a":2147483647}}"#, Some(2_147_483_647)),
            (r#"{"details":{"a":2147483648}}"#, None),
            (r#"{"details":{"a":1e300}}"#, None),
            (r#"{"details":{}}"#, None),
            (r#"{"details":null}"#, None),
            (r#"{}"#, None),
            ("[]", None),
            ("garbage", None),
            ("", None),
        ] {
            assert_eq!(newest_notified(messages), expected, "{messages}");
        }
    }
}
