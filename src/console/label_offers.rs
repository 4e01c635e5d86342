//! Labels that the form of a release offers for one object.

use super::Console;
use super::client_labels::ClientLabels;
use super::home::thing_of;
use super::session::SessionUser;
use crate::subscribers::client_list::ClientSearch;

/// Returns the labels of the clients of an object; if it has none yet, those of the clients in its namespace that
/// the visitor sees.
pub(super) async fn offered(
    of_object: ClientLabels,
    console: &Console,
    visitor: &SessionUser,
    namespace: &str,
) -> ClientLabels {
    if !of_object.keys.is_empty() {
        return of_object;
    }
    let search = ClientSearch { namespace: Some(namespace.to_owned()), ..ClientSearch::default() };
    let (present, _) = console.node().member().present_clients(&search).await;
    let (view, read_scope) = (console.node().state().view(), visitor.caller.read_scope());
    let seen = present.clients.iter().filter(|client| {
        let mut things = client.releases.iter().map(|held| &held.thing);
        read_scope.is_whole() || things.any(|thing| thing_of(&view, visitor.texts, thing, &read_scope).is_some())
    });
    ClientLabels::of(seen.map(|client| client.labels.as_slice()))
}
