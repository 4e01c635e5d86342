//! Addresses of pages about one object.

use url::form_urlencoded::{Serializer, byte_serialize};

use crate::model::config_file::ConfigKey;
use crate::model::rule::Family;

/// Returns the page of a rule. An id may have any printable character except a blank, slashes too.
pub(super) fn rule(family: Family, id: &str) -> String {
    let id: String = byte_serialize(id.as_bytes()).collect();
    format!("/ui/rules/{}/{id}", family.kind())
}

/// Returns the page of a config file.
pub(super) fn file(key: &ConfigKey) -> String {
    let mut pairs = Serializer::new(String::new());
    pairs.append_pair("namespace", &key.namespace).append_pair("group", &key.group).append_pair("name", &key.file);
    format!("/ui/config/file?{}", pairs.finish())
}

/// Returns the page of a service.
pub(super) fn service(namespace: &str, name: &str) -> String {
    let mut pairs = Serializer::new(String::new());
    pairs.append_pair("namespace", namespace).append_pair("name", name);
    format!("/ui/service?{}", pairs.finish())
}
