//! Bearer tokens that were verified, until they end.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use sha2::{Digest, Sha256};

use super::VerifiedToken;
use crate::model::sso::Provider;
use crate::model::time::Timestamp;

/// SHA-256 of a whole token. The signature is a part of it: another one on the same content is not verified.
type TokenDigest = [u8; 32];

/// Length of claims that counts as one token; longer ones count as several.
const USUAL_CLAIMS_BYTES: usize = 2048;

/// The remembered tokens of all providers.
pub(super) struct RememberedTokens(Cache<TokenDigest, Arc<Remembered>, TokenWeight>); // bound: sso-tokens

struct Remembered {
    provider: String,
    issuer: String,
    /// Revision of the provider that the token was checked by.
    revision: String,
    verified: VerifiedToken,
}

#[derive(Clone)]
struct TokenWeight;

impl Weighter<TokenDigest, Arc<Remembered>> for TokenWeight {
    fn weight(&self, _: &TokenDigest, token: &Arc<Remembered>) -> u64 {
        1 + (token.verified.claims.as_text().len() / USUAL_CLAIMS_BYTES) as u64
    }
}

impl RememberedTokens {
    pub(super) fn new(tokens_max: usize) -> RememberedTokens {
        let mut options = OptionsBuilder::new();
        options.shards(1).estimated_items_capacity(tokens_max).weight_capacity(tokens_max as u64);
        let options = options.build().expect("both capacities are given");
        let (hashing, cycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        RememberedTokens(Cache::with_options(options, TokenWeight, hashing, cycle))
    }

    /// Returns a token that this provider, as it is now, was found to have signed.
    pub(super) fn get(&self, provider: &Provider, token: &str, now: Timestamp) -> Option<VerifiedToken> {
        let remembered = self.find(token, now)?;
        let is_same = remembered.provider == provider.id && remembered.revision == provider.revision;
        is_same.then(|| remembered.verified.clone())
    }

    /// Returns the issuer of a remembered token.
    pub(super) fn issuer(&self, token: &str, now: Timestamp) -> Option<String> {
        self.find(token, now).map(|remembered| remembered.issuer.clone())
    }

    fn find(&self, token: &str, now: Timestamp) -> Option<Arc<Remembered>> {
        let digest = digest(token);
        let remembered = self.0.get(&digest)?;
        if now < remembered.verified.expires {
            return Some(remembered);
        }
        self.0.remove(&digest);
        None
    }

    pub(super) fn add(&self, provider: &Provider, token: &str, verified: &VerifiedToken) {
        let (issuer, revision) = (provider.issuer.clone(), provider.revision.clone());
        let remembered = Remembered { provider: provider.id.clone(), issuer, revision, verified: verified.clone() };
        self.0.insert(digest(token), Arc::new(remembered));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

fn digest(token: &str) -> TokenDigest {
    Sha256::digest(token).into()
}
