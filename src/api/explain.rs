//! `POST /naming/v1/{kind}/explain`: which rule would apply to a request, once for all families.

use axum::extract::{Extension, State};
use axum::response::Response;

use super::App;
use super::auth::Caller;
use super::envelope;
use super::error::ApiError;
use super::extract::Object;
use super::query::Fresh;
use crate::catalog::Catalog;
use crate::catalog::page::Page;
use crate::catalog::rules::RuleFilter;
use crate::model::explain::{Candidate, Sketch, explain as judge};
use crate::model::grant::Sight;
use crate::model::rule::Family;
use crate::model::text::NameFilter;
use crate::operations::FAR;

/// The rules of the service in order, each with the verdict of its conditions, and what comes of it.
/// Judges what clients with the sketch's labels see, with `draft` what is saved; changes nothing.
pub(super) async fn explain(
    State(app): State<App>,
    Extension(family): Extension<Family>,
    _: Fresh,
    caller: Caller,
    Object(sketch): Object<Sketch>,
) -> Result<Response, ApiError> {
    sketch.check()?;
    let sight = caller.sight();
    let find = move |catalog: &Catalog| {
        let sketch = resolved(catalog, sketch);
        let judged = candidates(catalog, family, &sketch, sketch.draft, &sight);
        let saved = sketch.diff.then(|| candidates(catalog, family, &sketch, true, &sight));
        (sketch, judged, saved)
    };
    // Many rules have many expressions to compile.
    app.scan(FAR, find, move |(sketch, judged, saved)| {
        let explanation = judge(family, &sketch, &judged);
        envelope::single(
            "explanation",
            &match &saved {
                Some(saved) => explanation.beside(&judge(family, &sketch, saved)),
                None => explanation,
            },
        )
    })
    .await
}

/// One called by its alias is called by its name from here on, as rules know no aliases.
pub(super) fn resolved(catalog: &Catalog, mut sketch: Sketch) -> Sketch {
    if let Some(alias) = catalog.aliases.get(&sketch.namespace, &sketch.service) {
        (sketch.namespace, sketch.service) = (alias.namespace.clone(), alias.service.clone());
    }
    sketch
}

/// The rules that may be about the service that is called: as they are saved, or as its clients see them.
pub(super) fn candidates(
    catalog: &Catalog,
    family: Family,
    sketch: &Sketch,
    as_saved: bool,
    sight: &Sight,
) -> Vec<Candidate> {
    let book = catalog.rules.of(family);
    if as_saved {
        let service = Some(NameFilter::Exact(sketch.service.clone()));
        let saved = book.list(&RuleFilter { service, sight: sight.clone(), ..RuleFilter::default() }, Page::ALL);
        return saved.rows.into_iter().map(Candidate::saved).collect();
    }
    let seen = book.active().of_service(&sketch.namespace, &sketch.service, |key| sketch.client_label(key));
    let seen = seen.iter().filter(|release| book.is_seen(&release.rule, sight));
    seen.map(|release| Candidate::released(release)).collect()
}
