//! Changes of identity providers. Sessions of a disabled or deleted one end with that change.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::catalog::change::{Entity, Outcome, admits_one_more};
use crate::catalog::command::Op;
use crate::catalog::ctx::Apply;
use crate::catalog::resource::{StoredResource, resource};
use crate::model::code::{Code, Refusal};
use crate::model::limits;
use crate::model::sso::{Provider, ProviderDraft};

impl StoredResource for Provider {
    resource!(ProviderDraft => Entity::Provider, modified);

    fn find(catalog: &Catalog, _: Op, draft: &ProviderDraft) -> Option<Arc<Provider>> {
        catalog.access.sso.provider(&draft.name).cloned()
    }

    fn create(apply: &mut Apply<'_>, draft: &ProviderDraft) -> Result<Provider, Outcome> {
        let sso = &apply.catalog.access.sso;
        admits_one_more("providers", sso.provider_count(), limits::PROVIDERS_MAX)?;
        let mut provider = Provider::new(apply.ctx.draw_id(), &draft.name, apply.ctx.stamp());
        provider.stamp(apply.ctx);
        draft.lay_over(&mut provider);
        provider.check()?;
        // A person has one name, so an issuer has one provider.
        match sso.provider_of_issuer(&provider.issuer) {
            Some(other) => {
                let why = format!("issuer: the provider {} has it already", other.name);
                Err(Refusal::new(Code::InvalidParameter, why).into())
            }
            None => Ok(provider),
        }
    }

    fn before_update(apply: &mut Apply<'_>, old: &Provider, new: &mut Provider) -> Result<(), Outcome> {
        new.check()?;
        if new.issuer != old.issuer {
            let why = "issuer: each person is known by it, so it never changes; delete the provider and create another";
            return Err(Refusal::new(Code::InvalidParameter, why).into());
        }
        if new.disabled {
            apply.end_sessions_of(&old.id);
        }
        Ok(())
    }

    fn put(apply: &mut Apply<'_>, provider: Provider) -> Arc<Provider> {
        apply.catalog.access.put_provider(provider, apply.changes)
    }

    fn delete(apply: &mut Apply<'_>, old: &Arc<Provider>) -> Result<(), Outcome> {
        apply.end_sessions_of(&old.id);
        apply.catalog.access.remove_provider(old, apply.changes);
        Ok(())
    }
}

impl Apply<'_> {
    /// Ends all sessions of a provider.
    fn end_sessions_of(&mut self, provider: &str) {
        let access = &mut self.catalog.access;
        access.retire(access.tokens.of_provider(provider, None), self.changes);
    }
}
