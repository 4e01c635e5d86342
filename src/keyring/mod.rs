//! Sealing and opening of access keys and webhook secrets: clear where a caller gives or gets one and where a request
//! is verified or signed, sealed everywhere else.
//!
//! Both sealing and opening need the data key. A node without it, or with another one, treats an access key that it
//! cannot read as one that no request is signed with, so access that the key protects stays denied. Contents of
//! encrypted config files are sealed here too ([`Keyring::seal_file`]).
//!
//! A node may have an earlier data key in addition to its own while the key is rotated: it opens what either of them
//! sealed ([`Keyring::resealed_key`] and its like).

mod files;
mod resealing;

use zeroize::Zeroizing;

use crate::catalog::Catalog;
use crate::catalog::access_keys::HeldKey;
use crate::data_key::{DataKey, generate_secret};
use crate::log_once::LogOnce;
use crate::model::access_key::{AccessKey, AccessKeyDraft, AccessKeyRequest, AccessMode, ClearSecret, SealedSecret};
use crate::model::code::{Code, Refusal};
use crate::model::signature::{AppKeys, SigningKey};
use crate::model::sso::{Provider, ProviderDraft, ProviderRequest};
use crate::model::webhook::{Webhook, WebhookDraft, WebhookRequest};

/// Kind of secret: the first part of the place that it is sealed for.
const KIND: &str = "access-key";
const WEBHOOK: &str = "webhook";
const PROVIDER: &str = "provider";

/// Data keys of this node, if it has any, with which secrets are sealed and opened.
#[derive(Debug, Default)]
pub struct Keyring {
    /// Data keys: the first seals, all of them open.
    data_keys: Vec<DataKey>,
    /// Log lines about unreadable access keys and encrypted files, each written once.
    logged: LogOnce<&'static str>,
}

impl Keyring {
    pub fn new(data_keys: impl IntoIterator<Item = DataKey>) -> Self {
        Keyring { data_keys: data_keys.into_iter().collect(), ..Keyring::default() }
    }

    /// Returns the data key that new secrets are sealed with.
    fn own(&self) -> Option<&DataKey> {
        self.data_keys.first()
    }

    /// Returns the draft to propose for a change of a key.
    pub fn seal(&self, request: AccessKeyRequest) -> Result<AccessKeyDraft, Refusal> {
        let sealed = request.secret.as_ref().map(|secret| self.sealed(&request, secret)).transpose()?;
        Ok(request.into_draft(sealed))
    }

    /// Returns the draft to propose for a new key, and its secret, which is generated if none was given.
    pub fn seal_new(&self, mut request: AccessKeyRequest) -> Result<(AccessKeyDraft, ClearSecret), Refusal> {
        let secret = request.secret.take().unwrap_or_else(|| ClearSecret::from(generate_secret()));
        let sealed = self.sealed(&request, &secret)?;
        Ok((request.into_draft(Some(sealed)), secret))
    }

    fn sealed(&self, request: &AccessKeyRequest, secret: &ClearSecret) -> Result<SealedSecret, Refusal> {
        self.sealed_for(&[KIND, &request.app_id, &request.name], secret)
    }

    fn sealed_for(&self, place: &[&str], secret: &ClearSecret) -> Result<SealedSecret, Refusal> {
        let Some(data_key) = self.own() else {
            let why = "secrets are kept encrypted only: start every node with the same file of 64 hex digits";
            return Err(Refusal::new(Code::NoDataKey, why));
        };
        Ok(SealedSecret(data_key.seal(place, secret.expose())))
    }

    /// Returns the draft to propose for a change of a webhook.
    pub fn seal_webhook(&self, request: WebhookRequest) -> Result<WebhookDraft, Refusal> {
        let seal = |secret| self.sealed_for(&[WEBHOOK, &request.name], secret);
        let sealed = request.secret.as_ref().map(seal).transpose()?;
        Ok(request.into_draft(sealed))
    }

    /// Returns the draft to propose for a new webhook, and its secret, which is generated if none was given.
    pub fn seal_new_webhook(&self, mut request: WebhookRequest) -> Result<(WebhookDraft, ClearSecret), Refusal> {
        let secret = request.secret.take().unwrap_or_else(|| ClearSecret::from(generate_secret()));
        let sealed = self.sealed_for(&[WEBHOOK, &request.name], &secret)?;
        Ok((request.into_draft(Some(sealed)), secret))
    }

    /// Returns the secret that signs the events of a webhook, or the reason why this node cannot read it.
    pub fn secret_of(&self, hook: &Webhook) -> Result<Zeroizing<Vec<u8>>, String> {
        let opened = self.opened(&[WEBHOOK, &hook.name], &hook.secret);
        opened.ok_or_else(|| format!("the leader cannot read the secret: {}", self.remedy()))
    }

    /// Returns the draft to propose for a provider. An empty secret removes the present one.
    pub fn seal_provider(&self, mut request: ProviderRequest) -> Result<ProviderDraft, Refusal> {
        let sealed = match request.client_secret.take() {
            None => None,
            Some(secret) if secret.expose().is_empty() => Some(SealedSecret::default()),
            Some(secret) => Some(self.sealed_for(&[PROVIDER, &request.name], &secret)?),
        };
        Ok(request.into_draft(sealed))
    }

    /// Returns the secret of the client at a provider; `None` for a public client. Refuses on a node that cannot read
    /// it.
    pub fn open_client_secret(&self, provider: &Provider) -> Result<Option<Zeroizing<String>>, Refusal> {
        let Some(sealed) = &provider.client_secret else { return Ok(None) };
        let opened = self.opened(&[PROVIDER, &provider.name], sealed);
        let text = opened.and_then(|secret| String::from_utf8(secret.to_vec()).ok());
        let unreadable = || {
            let why = format!("the client secret of provider {} cannot be read: {}", provider.name, self.remedy());
            Refusal::new(Code::NoDataKey, why)
        };
        text.map(|text| Some(Zeroizing::new(text))).ok_or_else(unreadable)
    }

    /// Returns the enabled keys of an app, all or those that apply to files of a namespace; `None` if there are none,
    /// and requests need no signature.
    pub fn of_app(&self, catalog: &Catalog, app_id: &str, namespace: Option<&str>) -> Option<AppKeys> {
        let is_meant = |key: &AccessKey| key.is_on() && namespace.is_none_or(|namespace| key.is_of(namespace));
        let mut of_app = catalog.access_keys.of_app(app_id).filter(|held| is_meant(&held.key)).peekable();
        of_app.peek()?;
        let mut keys = AppKeys::default();
        for held in of_app {
            keys.is_enforced |= held.key.mode == AccessMode::Enforce;
            match self.signing_key(held) {
                Some(key) => keys.keys.push(key.clone()),
                None => keys.has_unreadable = true,
            }
        }
        Some(keys)
    }

    /// Returns the number of enabled keys that cannot be read here.
    pub fn unreadable(&self, catalog: &Catalog) -> usize {
        let on = catalog.access_keys.all().filter(|held| held.key.is_on());
        on.filter(|held| self.signing_key(held).is_none()).count()
    }

    /// Returns the text of the alarm if keys cannot be read here.
    pub fn alarm(&self, catalog: &Catalog) -> Option<String> {
        let count = self.unreadable(catalog);
        (count > 0).then(|| format!("{count} access keys cannot be read by this node: {}", self.remedy()))
    }

    fn signing_key<'a>(&self, held: &'a HeldKey) -> Option<&'a SigningKey> {
        held.signing_key(|key| {
            let opened = self.open(key);
            if opened.is_none() && self.logged.is_due("access key") {
                let (app, name) = (&key.app_id, &key.name);
                tracing::error!(app, name, "an access key cannot be decrypted: {}", self.remedy());
            }
            opened
        })
    }

    fn open(&self, key: &AccessKey) -> Option<SigningKey> {
        let secret = self.opened(&[KIND, &key.app_id, &key.name], &key.secret)?;
        Some(SigningKey::new(&secret))
    }

    fn opened(&self, place: &[&str], secret: &SealedSecret) -> Option<Zeroizing<Vec<u8>>> {
        self.data_keys.iter().find_map(|key| key.open(place, &secret.0))
    }

    fn remedy(&self) -> &'static str {
        match self.own() {
            None => "it was started without --data-key-file",
            Some(_) => "its --data-key-file is not that of the node which made them",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Command, Ctx, Op, RequestId};
    use crate::model::signature::{Signature, Target};
    use crate::model::time::Timestamp;

    const TARGET: Target<'_> = Target { path: "/configs/app/default/application", query: "" };

    fn keyring(digit: &str) -> Keyring {
        Keyring::new(DataKey::of_hex(&digit.repeat(64)))
    }

    fn request(name: &str, mode: AccessMode, secret: Option<&str>) -> AccessKeyRequest {
        AccessKeyRequest {
            app_id: "app".into(),
            name: name.into(),
            mode: Some(mode),
            secret: secret.map(|secret| ClearSecret::from(secret.to_owned())),
            ..AccessKeyRequest::default()
        }
    }

    fn apply(catalog: &mut Catalog, op: Op, draft: AccessKeyDraft) {
        let request = RequestId(rand::random());
        let ctx = Ctx::new(1, Timestamp(1), [0; 16], request, "t");
        let applied = catalog.apply(&ctx, Command::AccessKeys(op, vec![draft]));
        assert!(applied.outcomes[0].code.is_success(), "{applied:?}");
    }

    fn is_signed_by(keys: &AppKeys, secret: &str) -> bool {
        let header = SigningKey::new(secret.as_bytes()).sign("app", TARGET, "1000");
        keys.judge("app", Signature::read(&header, "1000").as_ref(), TARGET, Timestamp(1000)).is_ok()
    }

    #[test]
    fn a_new_key_opens_for_who_has_the_same_data_key() {
        let (own, other, none) = (keyring("a"), keyring("b"), Keyring::default());
        let (draft, secret) = own.seal_new(request("one", AccessMode::Enforce, None)).expect("a data key");
        assert_eq!(secret.expose().len(), 32);
        for (ring, is_readable) in [(&own, true), (&keyring("a"), true), (&other, false), (&none, false)] {
            let mut catalog = Catalog::default();
            apply(&mut catalog, Op::Create, draft.clone());
            let keys = ring.of_app(&catalog, "app", None).expect("a key that is on");
            assert_eq!((is_signed_by(&keys, secret.expose()), keys.has_unreadable), (is_readable, !is_readable));
            assert!(keys.is_enforced, "shut, whether it can be read or not");
            assert_eq!(
                (ring.unreadable(&catalog), ring.alarm(&catalog).is_some()),
                (usize::from(!is_readable), !is_readable)
            );
        }
    }

    #[test]
    fn a_given_secret_is_kept_as_it_is_and_exchanged_by_an_update() {
        let (ring, mut catalog) = (keyring("a"), Catalog::default());
        let (draft, secret) = ring.seal_new(request("one", AccessMode::Observe, Some("first"))).expect("a data key");
        assert_eq!(secret.expose(), "first");
        apply(&mut catalog, Op::Create, draft);
        let keys = ring.of_app(&catalog, "app", None).expect("a key that is on");
        assert!(is_signed_by(&keys, "first") && !keys.is_enforced);
        let change = ring.seal(request("one", AccessMode::Enforce, Some("second"))).expect("a data key");
        apply(&mut catalog, Op::Update, change);
        let keys = ring.of_app(&catalog, "app", None).expect("a key that is on");
        assert!(is_signed_by(&keys, "second") && !is_signed_by(&keys, "first") && keys.is_enforced);
    }

    #[test]
    fn keys_that_are_off_are_not_there() {
        let (ring, mut catalog) = (keyring("a"), Catalog::default());
        for (name, mode) in [("one", AccessMode::Off), ("two", AccessMode::Off)] {
            let (draft, _) = ring.seal_new(request(name, mode, Some(name))).expect("a data key");
            apply(&mut catalog, Op::Create, draft);
        }
        assert!(ring.of_app(&catalog, "app", None).is_none() && ring.of_app(&catalog, "other", None).is_none());
        apply(&mut catalog, Op::Update, ring.seal(request("two", AccessMode::Observe, None)).expect("no secret"));
        let keys = ring.of_app(&catalog, "app", None).expect("a key that is on");
        assert!(is_signed_by(&keys, "two") && !is_signed_by(&keys, "one"));
        assert_eq!(Keyring::default().unreadable(&catalog), 0, "it was opened once, and is kept");
    }

    #[test]
    fn without_a_data_key_nothing_is_sealed() {
        let none = Keyring::default();
        let refused = none.seal_new(request("one", AccessMode::Off, None)).expect_err("no data key");
        assert_eq!(refused.code, Code::NoDataKey);
        assert!(none.seal(request("one", AccessMode::Off, Some("s"))).is_err());
        let draft = none.seal(request("one", AccessMode::Off, None)).expect("nothing to seal");
        assert_eq!((draft.mode, draft.secret), (Some(AccessMode::Off), None));
    }
}
