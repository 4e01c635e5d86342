//! Rotation of the data key: secrets sealed under an earlier key are sealed again under the first, as ordinary updates.
//! Secrets that this node cannot open are left unchanged, and so are releases, which never change.

use std::sync::Arc;

use super::{KIND, Keyring, PROVIDER, WEBHOOK};
use crate::catalog::Catalog;
use crate::format::sealed::key_of;
use crate::model::access_key::{AccessKey, AccessKeyDraft, SealedSecret};
use crate::model::config_file::{ConfigFile, ConfigFileDraft};
use crate::model::sealing::Sealing;
use crate::model::sso::{Provider, ProviderDraft};
use crate::model::webhook::{Webhook, WebhookDraft};

impl Keyring {
    pub fn has_key(&self) -> bool {
        self.own().is_some()
    }

    /// Returns the update that reseals a key; `None` if that is not needed or not possible.
    pub fn resealed_key(&self, key: &AccessKey) -> Option<AccessKeyDraft> {
        let secret = self.resealed(&[KIND, &key.app_id, &key.name], &key.secret)?;
        let (app_id, name) = (key.app_id.clone(), key.name.clone());
        Some(AccessKeyDraft { app_id, name, secret: Some(secret), ..AccessKeyDraft::default() })
    }

    /// Returns the update that reseals a webhook's secret; `None` if that is not needed or not possible.
    pub fn resealed_webhook(&self, hook: &Webhook) -> Option<WebhookDraft> {
        let secret = self.resealed(&[WEBHOOK, &hook.name], &hook.secret)?;
        Some(WebhookDraft { name: hook.name.clone(), secret: Some(secret), ..WebhookDraft::default() })
    }

    /// Returns the update that reseals the client secret of a provider; `None` if that is not needed or not possible.
    pub fn resealed_provider(&self, provider: &Provider) -> Option<ProviderDraft> {
        let client_secret = self.resealed(&[PROVIDER, &provider.name], provider.client_secret.as_ref()?)?;
        let name = provider.name.clone();
        Some(ProviderDraft { name, client_secret: Some(client_secret), ..ProviderDraft::default() })
    }

    fn resealed(&self, place: &[&str], secret: &SealedSecret) -> Option<SealedSecret> {
        let (own, earlier) = self.data_keys.split_first()?;
        let opened = earlier.iter().find_map(|key| key.open(place, &secret.0))?;
        Some(SealedSecret(own.seal(place, str::from_utf8(&opened).ok()?)))
    }

    /// Returns the update that reseals the draft of a config file; `None` if that is not needed or not possible. It is
    /// refused on apply if the content has changed since.
    pub fn resealed_file(&self, file: &ConfigFile) -> Option<ConfigFileDraft> {
        if !self.is_earlier(file) {
            return None;
        }
        let text = self.open_content(&file.key, &file.content).ok()?;
        let content = self.seal_content(&file.key, &text).ok()?;
        Some(ConfigFileDraft {
            namespace: file.key.namespace.clone(),
            group: file.key.group.clone(),
            name: file.key.file.clone(),
            content: Some(content),
            sealing: Some(Sealing { is_sealed: true, made_of: Some(file.content.reference()) }),
            ..ConfigFileDraft::default()
        })
    }

    /// Reports whether the content is sealed, but not under the first data key.
    pub fn is_earlier(&self, file: &ConfigFile) -> bool {
        file.encrypted && self.own().is_some_and(|own| own.id() != key_of(&file.content))
    }

    /// Returns the numbers of access keys, of webhooks and of providers that are not sealed under the first data key.
    pub fn earlier_secrets(&self, catalog: &Catalog) -> (usize, usize, usize) {
        let is_earlier =
            |place: &[&str], secret: &SealedSecret| self.own().is_some_and(|own| own.open(place, &secret.0).is_none());
        let keys = catalog.access_keys.all().map(|held| &held.key);
        let keys = keys.filter(|key| is_earlier(&[KIND, &key.app_id, &key.name], &key.secret)).count();
        let hooks = catalog.webhooks.all().filter(|hook| is_earlier(&[WEBHOOK, &hook.name], &hook.secret)).count();
        let is_earlier_provider = |provider: &&Arc<Provider>| {
            let secret = provider.client_secret.as_ref();
            secret.is_some_and(|secret| is_earlier(&[PROVIDER, &provider.name], secret))
        };
        let providers = catalog.access.sso().providers().filter(is_earlier_provider).count();
        (keys, hooks, providers)
    }

    /// Returns the number of drafts and releases of config files that are not sealed under the first data key.
    pub fn earlier_files(&self, catalog: &Catalog) -> usize {
        catalog.configs.sealed_under_others(self.own().into_iter().map(|own| own.id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::testing::Bench;
    use crate::catalog::{Command, Op};
    use crate::data_key::DataKey;
    use crate::model::access_key::{AccessKeyRequest, AccessMode, ClearSecret};
    use crate::model::config_file::ConfigKey;
    use crate::model::sso::ProviderRequest;
    use crate::model::webhook::WebhookRequest;

    const SECRET: &str = "a-secret-of-some-length";

    fn keyring(digits: &[&str]) -> Keyring {
        Keyring::new(digits.iter().map(|digit| DataKey::of_hex(&digit.repeat(64)).expect("64 digits")))
    }

    /// Returns a catalog with one sealed object of each kind.
    fn sealed_by(ring: &Keyring) -> Bench {
        let mut bench = Bench::founded();
        let secret = || Some(ClearSecret::from(SECRET.to_owned()));
        let key = AccessKeyRequest { app_id: "app".into(), name: "k".into(), secret: secret(), ..Default::default() };
        let key = AccessKeyRequest { mode: Some(AccessMode::Enforce), ..key };
        let hook =
            WebhookRequest { name: "h".into(), url: Some("https://h/".into()), secret: secret(), ..Default::default() };
        let file = ConfigFileDraft {
            namespace: "n".into(),
            group: "g".into(),
            name: "f".into(),
            content: Some(SECRET.into()),
            encrypted: Some(true),
            ..ConfigFileDraft::default()
        };
        let provider = ProviderRequest {
            name: "p".into(),
            issuer: Some("https://p".into()),
            client_id: Some("c".into()),
            client_secret: secret(),
            ..ProviderRequest::default()
        };
        let commands = [
            Command::Providers(Op::Create, vec![ring.seal_provider(provider).expect("a data key")]),
            Command::AccessKeys(Op::Create, vec![ring.seal_new(key).expect("a data key").0]),
            Command::Webhooks(Op::Create, vec![ring.seal_new_webhook(hook).expect("a data key").0]),
            Command::ConfigFiles(Op::Create, vec![ring.seal_file(file, None, true).expect("a data key")]),
        ];
        for command in commands {
            assert_eq!(bench.codes(command), [200_000]);
        }
        bench
    }

    /// Returns which objects these keys can read, the commands that reseal them, and the counts of objects under
    /// earlier keys.
    fn seen(ring: &Keyring, catalog: &Catalog) -> ([bool; 4], Vec<Command>, (usize, usize, usize, usize)) {
        let key = catalog.access_keys.all().next().expect("there").key.clone();
        let hook = catalog.webhooks.get("h").expect("there").clone();
        let file = catalog.configs.file(&ConfigKey::new("n", "g", "f")).expect("there").clone();
        let provider = catalog.access.sso().provider("p").expect("there").clone();
        let client_secret = ring.open_client_secret(&provider);
        let is_read = [
            client_secret.is_ok_and(|secret| secret.is_some_and(|secret| *secret == SECRET)),
            ring.open(&key).is_some(),
            ring.secret_of(&hook).is_ok_and(|secret| *secret == SECRET.as_bytes()),
            ring.open_content(&file.key, &file.content).is_ok_and(|text| &*text == SECRET),
        ];
        let mut anew = Vec::new();
        anew.extend(ring.resealed_key(&key).map(|draft| Command::AccessKeys(Op::Update, vec![draft])));
        anew.extend(ring.resealed_webhook(&hook).map(|draft| Command::Webhooks(Op::Update, vec![draft])));
        anew.extend(ring.resealed_file(&file).map(|draft| Command::ConfigFiles(Op::Update, vec![draft])));
        anew.extend(ring.resealed_provider(&provider).map(|draft| Command::Providers(Op::Update, vec![draft])));
        let (keys, hooks, providers) = ring.earlier_secrets(catalog);
        (is_read, anew, (keys, hooks, providers, ring.earlier_files(catalog)))
    }

    #[test]
    fn what_an_earlier_key_sealed_is_read_and_sealed_anew() {
        let rows: [(&[&str], bool, usize); 6] = [
            (&["a"], true, 0),
            (&["a", "b"], true, 0),
            (&["b", "a"], true, 4),
            (&["b"], false, 0),
            (&["b", "c"], false, 0),
            (&[], false, 0),
        ];
        for (digits, is_read, anew) in rows {
            let (ring, catalog) = (keyring(digits), sealed_by(&keyring(&["a"])).catalog);
            let (read, commands, earlier) = seen(&ring, &catalog);
            assert_eq!((read, commands.len()), ([is_read; 4], anew), "{digits:?}");
            let count = usize::from(digits.first().is_some_and(|first| *first != "a"));
            let files = usize::from(digits.first() != Some(&"a"));
            assert_eq!(earlier, (count, count, count, files), "{digits:?}");
            assert_eq!(ring.unreadable_files(&catalog), usize::from(!is_read), "{digits:?}");
        }
    }

    #[test]
    fn sealed_anew_it_opens_without_the_earlier_key() {
        let (both, mut bench) = (keyring(&["b", "a"]), sealed_by(&keyring(&["a"])));
        for command in seen(&both, &bench.catalog).1 {
            assert_eq!(bench.codes(command), [200_000]);
        }
        let catalog = bench.catalog;
        for (digits, is_read) in [(&["b"][..], true), (&["b", "a"], true), (&["a"], false)] {
            let (read, commands, _) = seen(&keyring(digits), &catalog);
            assert_eq!((read, commands.len()), ([is_read; 4], 0), "{digits:?}");
        }
        assert_eq!(seen(&both, &catalog).2, (0, 0, 0, 0));
    }

    /// A change that was made meanwhile is not overwritten: the update applies only to the content that it was made
    /// from.
    #[test]
    fn a_file_that_was_written_meanwhile_is_left_as_it_is() {
        let (both, mut bench) = (keyring(&["b", "a"]), sealed_by(&keyring(&["a"])));
        let commands = seen(&both, &bench.catalog).1;
        let key = ConfigKey::new("n", "g", "f");
        let there = bench.catalog.configs.file(&key).expect("there").clone();
        let newer = ConfigFileDraft {
            namespace: "n".into(),
            group: "g".into(),
            name: "f".into(),
            content: Some("newer".into()),
            ..ConfigFileDraft::default()
        };
        let newer = keyring(&["a"]).seal_file(newer, Some(&there), true).expect("a data key");
        assert_eq!(bench.codes(Command::ConfigFiles(Op::Update, vec![newer])), [200_000]);
        assert_eq!(bench.codes(commands[2].clone()), [409_000]);
        let kept = bench.catalog.configs.file(&key).expect("there");
        assert_eq!(both.open_content(&key, &kept.content).as_deref(), Ok("newer"));
    }
}
