//! Sealing and opening of config file contents: clear towards callers and clients that may read them, sealed in every
//! proposal about an encrypted file.

use std::sync::Arc;

use super::Keyring;
use crate::catalog::Catalog;
use crate::data_key::DataKey;
use crate::format::sealed::key_of;
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{ConfigFile, ConfigFileDraft, ConfigKey};
use crate::model::config_lookup::Released;
use crate::model::content::Content;
use crate::model::sealing::Sealing;

/// Kind of secret: the first part of the place that a content is sealed for.
const KIND: &str = "config-file";

fn place<'a>(namespace: &'a str, group: &'a str, file: &'a str) -> [&'a str; 4] {
    [KIND, namespace, group, file]
}

impl Keyring {
    /// Returns the draft to propose for the current file, with its content sealed if the file is to be encrypted. If
    /// the encryption changes and the caller gives no content, the current content is converted; `may_see` is true if
    /// the caller may read it in clear. Without that right nothing is converted, and the draft is refused on apply.
    pub fn seal_file(
        &self,
        mut draft: ConfigFileDraft,
        there: Option<&ConfigFile>,
        may_see: bool,
    ) -> Result<ConfigFileDraft, Refusal> {
        draft.encrypt_algo = None;
        let before = there.is_some_and(|file| file.encrypted);
        let after = draft.encrypted.take().unwrap_or(before);
        draft.encrypted = (after != before).then_some(after);
        if !before && !after {
            return Ok(draft);
        }
        let key = draft.key();
        let made_of = || Some(there.map(|file| file.content.reference()).unwrap_or_default());
        let (text, made_of) = match draft.content.take() {
            Some(text) => (Arc::from(text), None),
            None if after == before => return Ok(draft),
            None if !before => (there.and_then(|file| file.content.text()).cloned().unwrap_or_default(), made_of()),
            None if !may_see => return Ok(draft),
            None => (self.open_content(&key, &there.map(|file| file.content.clone()).unwrap_or_default())?, made_of()),
        };
        draft.content = Some(if after { self.seal_content(&key, &text)? } else { text.as_ref().to_owned() });
        draft.sealing = (after || made_of.is_some()).then_some(Sealing { is_sealed: after, made_of });
        Ok(draft)
    }

    pub(super) fn seal_content(&self, key: &ConfigKey, text: &str) -> Result<String, Refusal> {
        let data_key = self.own().ok_or_else(|| self.refusal(""))?;
        Ok(data_key.seal_alike(&place(&key.namespace, &key.group, &key.file), text))
    }

    /// Returns the text of a file's sealed content.
    pub fn open_content(&self, key: &ConfigKey, sealed: &Content) -> Result<Arc<str>, Refusal> {
        self.open_text(&place(&key.namespace, &key.group, &key.file), sealed).ok_or_else(|| self.refusal(sealed))
    }

    /// Returns the text of an encrypted file for clients; `None` if this node cannot read it, which is logged.
    pub fn open_released(&self, released: &Released, content: &Content) -> Option<Arc<str>> {
        let Released { namespace, group, file, .. } = released;
        let opened = self.open_text(&place(namespace, group, file), content);
        if opened.is_none() && self.logged.is_due("file") {
            let why = self.refusal(content).detail;
            tracing::error!(namespace, group, file, why, "an encrypted config file cannot be decrypted");
        }
        opened
    }

    fn open_text(&self, place: &[&str], sealed: &str) -> Option<Arc<str>> {
        let clear = self.data_keys.iter().find_map(|key| key.open_alike(place, sealed))?;
        str::from_utf8(&clear).ok().map(Arc::from)
    }

    fn refusal(&self, sealed: &str) -> Refusal {
        if self.data_keys.is_empty() {
            let why = "encrypted contents are kept sealed only: start every node with the same file of 64 hex digits";
            return Refusal::new(Code::NoDataKey, why);
        }
        if self.data_keys.iter().all(|key| key.id() != key_of(sealed)) {
            let why = "the content was sealed under another data key than the one of this node";
            return Refusal::new(Code::NoDataKey, why);
        }
        Refusal::new(Code::DecryptConfigFileException, "it is damaged, or was sealed for another file")
    }

    /// Returns the number of drafts and releases that are sealed under other data keys than this node's.
    pub fn unreadable_files(&self, catalog: &Catalog) -> usize {
        catalog.configs.sealed_under_others(self.data_keys.iter().map(DataKey::id))
    }

    /// Returns the text of the alarm if encrypted files cannot be read here.
    pub fn alarm_of_files(&self, catalog: &Catalog) -> Option<String> {
        let count = self.unreadable_files(catalog);
        let why = self.remedy();
        (count > 0).then(|| format!("{count} drafts and releases of encrypted config files cannot be read here: {why}"))
    }
}

#[cfg(test)]
mod tests {
    mod apply;

    use super::*;

    fn keyring(digit: &str) -> Keyring {
        Keyring::new(DataKey::of_hex(&digit.repeat(64)))
    }

    fn draft(content: Option<&str>, encrypted: Option<bool>) -> ConfigFileDraft {
        ConfigFileDraft {
            namespace: "n".into(),
            group: "g".into(),
            name: "f".into(),
            content: content.map(str::to_owned),
            encrypted,
            ..ConfigFileDraft::default()
        }
    }

    fn file(content: &str, encrypted: bool) -> ConfigFile {
        let key = ConfigKey::new("n", "g", "f");
        let content = if encrypted { keyring("a").seal_content(&key, content).expect("a key") } else { content.into() };
        ConfigFile { key, content: content.as_str().into(), encrypted, ..ConfigFile::default() }
    }

    /// Rows: stored file, content and encryption in the request, and the proposal: content, change of encryption,
    /// sealing.
    #[test]
    fn a_draft_is_sealed_as_the_file_asks_for_it() {
        let (none, clear, sealed) = (None, Some(file("old", false)), Some(file("old", true)));
        let text = |text: &str| Some(keyring("a").seal_content(&ConfigKey::new("n", "g", "f"), text).expect("a key"));
        let is = |is_sealed: bool, made_of: Option<&ConfigFile>| {
            Some(Sealing { is_sealed, made_of: made_of.map(|file| file.content.reference()) })
        };
        let of_nothing = Some(Sealing { is_sealed: true, made_of: Some(Content::default()) });
        let given = |text: &str| Some(text.to_owned());
        let rows = [
            (&none, Some("new"), None, given("new"), None, None),
            (&none, Some("new"), Some(false), given("new"), None, None),
            (&none, Some("new"), Some(true), text("new"), Some(true), is(true, None)),
            (&none, None, Some(true), text(""), Some(true), of_nothing),
            (&clear, Some("new"), None, given("new"), None, None),
            (&clear, None, Some(true), text("old"), Some(true), is(true, clear.as_ref())),
            (&clear, Some("new"), Some(true), text("new"), Some(true), is(true, None)),
            (&sealed, None, None, None, None, None),
            (&sealed, None, Some(true), None, None, None),
            (&sealed, Some("new"), None, text("new"), None, is(true, None)),
            (&sealed, Some("new"), Some(false), given("new"), Some(false), None),
            (&sealed, None, Some(false), given("old"), Some(false), is(false, sealed.as_ref())),
        ];
        for (there, content, encrypted, expected, says, sealing) in rows {
            let made = keyring("a").seal_file(draft(content, encrypted), there.as_ref(), true).expect("a data key");
            let title = format!("{there:?} {content:?} {encrypted:?}");
            assert_eq!((made.content, made.encrypted, made.sealing), (expected, says, sealing), "{title}");
        }
        let kept = keyring("a").seal_file(draft(None, Some(false)), sealed.as_ref(), false).expect("nothing to do");
        assert_eq!((kept.content, kept.sealing), (None, None), "who may not have it is not helped to it");
    }

    #[test]
    fn without_the_key_nothing_is_sealed_and_nothing_opened() {
        let (sealed, none, other) = (file("old", true), Keyring::default(), keyring("b"));
        let refused = none.seal_file(draft(Some("x"), Some(true)), None, true).expect_err("no data key");
        assert_eq!(refused.code, Code::NoDataKey);
        assert!(none.seal_file(draft(Some("x"), None), Some(&sealed), true).is_err());
        assert!(none.seal_file(draft(Some("x"), None), None, true).is_ok(), "it has nothing to do with this one");
        for (ring, told) in [(&none, "64 hex digits"), (&other, "another data key")] {
            let refused = ring.open_content(&sealed.key, &sealed.content).expect_err("not its key");
            assert!(refused.code == Code::NoDataKey && refused.detail.contains(told), "{refused:?}");
        }
        let own = keyring("a");
        assert_eq!(own.open_content(&sealed.key, &sealed.content).as_deref(), Ok("old"));
        let moved = own.open_content(&ConfigKey::new("n", "g", "other"), &sealed.content).expect_err("of another file");
        assert_eq!(moved.code, Code::DecryptConfigFileException);
    }
}
