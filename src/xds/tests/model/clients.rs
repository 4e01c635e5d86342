//! Requests and responses of clients of both variants.

use std::collections::BTreeSet;

use super::super::super::delta::Delta;
use super::super::super::sotw::Sotw;
use super::*;
use crate::proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};

pub(super) struct OfSotw;

impl OfSotw {
    fn send(model: &mut Model<OfSotw>, kind: ResourceType, refused: Refused) {
        let side = &mut model.sides[kind.index()];
        side.is_begun = true;
        let mut names: Vec<String> = side.names.iter().cloned().collect();
        if side.is_wildcard {
            names.push("*".to_owned());
        }
        model.to_node.push_back(DiscoveryRequest {
            type_url: kind.type_url().to_owned(),
            resource_names: names,
            version_info: side.version_info.clone(),
            response_nonce: side.nonce.clone(),
            error_detail: refused.as_deref().map(refusal),
            ..Default::default()
        });
    }
}

impl Protocol for OfSotw {
    type ProtocolVariant = Sotw;

    fn ask(model: &mut Model<OfSotw>, kind: ResourceType, is_wildcard: bool, names: BTreeSet<String>) {
        let side = &mut model.sides[kind.index()];
        // Real clients do not repeat a subscription, except for endpoints.
        if side.is_begun && (side.is_wildcard, &side.names) == (is_wildcard, &names) {
            return;
        }
        (side.is_wildcard, side.names) = (is_wildcard, names);
        let kept = side.clone();
        side.has.retain(|name, _| kept.covers(name));
        side.seen.retain(|name, _| kept.covers(name));
        OfSotw::send(model, kind, None);
        if kind == EDS {
            let names = &model.sides[EDS.index()].names;
            model.warming.retain(|name| names.contains(name));
            model.finish_warming();
        }
    }

    fn answer(model: &mut Model<OfSotw>, kind: ResourceType, refused: Refused) {
        OfSotw::send(model, kind, refused);
    }

    fn receive(model: &mut Model<OfSotw>, response: DiscoveryResponse) {
        let kind = ResourceType::of_url(&response.type_url).expect("a type");
        let side = &mut model.sides[kind.index()];
        side.nonce = response.nonce;
        let contents = response.resources.iter().map(|found| String::from_utf8_lossy(&found.value).into_owned());
        let mut refused: Vec<String> = Vec::new();
        let (mut changed, mut present) = (Vec::new(), BTreeSet::new());
        for content in contents {
            let name = content.split_once('=').expect("a name").0.to_owned();
            present.insert(name.clone());
            if !side.covers(&name) {
                continue;
            }
            let is_new = side.has.get(&name).is_none_or(|had| had.content != content);
            match side.take(&name, Had { content, version: String::new() }) {
                true if is_new => changed.push(name),
                true => {}
                false => refused.push(name),
            }
        }
        if kind.is_whole() {
            side.has.retain(|name, _| present.contains(name));
        }
        let refused = told_refusal(&refused);
        if refused.is_none() {
            side.version_info = response.version_info;
        }
        if kind == CDS {
            let is_question = changed.iter().any(|name| model.sides[EDS.index()].names.contains(name));
            model.warm(changed, refused);
            if is_question {
                OfSotw::send(model, EDS, None);
            }
        } else {
            OfSotw::send(model, kind, refused);
            if kind == EDS {
                model.warming.retain(|name| !present.contains(name));
                model.finish_warming();
            }
        }
    }

    fn come_back(model: &mut Model<OfSotw>, kind: ResourceType) {
        OfSotw::send(model, kind, None);
    }
}

fn told_refusal(names: &[String]) -> Refused {
    let told = |name: &String| format!("{name}: refused");
    (!names.is_empty()).then(|| format!("Error adding {}", names.iter().map(told).collect::<Vec<_>>().join(", ")))
}

pub(super) struct OfDelta;

impl OfDelta {
    fn request(kind: ResourceType) -> DeltaDiscoveryRequest {
        DeltaDiscoveryRequest { type_url: kind.type_url().to_owned(), ..Default::default() }
    }
}

impl Protocol for OfDelta {
    type ProtocolVariant = Delta;

    fn ask(model: &mut Model<OfDelta>, kind: ResourceType, is_wildcard: bool, names: BTreeSet<String>) {
        let side = &mut model.sides[kind.index()];
        let star = |is: bool| is.then(|| "*".to_owned());
        let subscribe = names.difference(&side.names).cloned().chain(star(is_wildcard && !side.is_wildcard)).collect();
        let unsubscribe =
            side.names.difference(&names).cloned().chain(star(side.is_wildcard && !is_wildcard)).collect();
        let request = DeltaDiscoveryRequest {
            resource_names_subscribe: subscribe,
            resource_names_unsubscribe: unsubscribe,
            ..OfDelta::request(kind)
        };
        // A first request without names would subscribe to everything.
        if request.resource_names_subscribe.is_empty() && !side.is_begun && kind.is_whole() {
            return;
        }
        side.is_begun = true;
        (side.is_wildcard, side.names) = (is_wildcard, names);
        let kept = side.clone();
        side.has.retain(|name, _| kept.covers(name));
        side.seen.retain(|name, _| kept.covers(name));
        model.to_node.push_back(request);
        if kind == EDS {
            let names = &model.sides[EDS.index()].names;
            model.warming.retain(|name| names.contains(name));
            model.finish_warming();
        }
    }

    fn answer(model: &mut Model<OfDelta>, kind: ResourceType, refused: Refused) {
        let nonce = model.sides[kind.index()].nonce.clone();
        let error_detail = refused.as_deref().map(refusal);
        model.to_node.push_back(DeltaDiscoveryRequest {
            response_nonce: nonce,
            error_detail,
            ..OfDelta::request(kind)
        });
    }

    fn receive(model: &mut Model<OfDelta>, response: DeltaDiscoveryResponse) {
        let kind = ResourceType::of_url(&response.type_url).expect("a type");
        let side = &mut model.sides[kind.index()];
        side.nonce = response.nonce;
        let (mut refused, mut changed, mut present) = (Vec::new(), Vec::new(), BTreeSet::new());
        for Resource { name, version, resource } in response.resources {
            let content = String::from_utf8_lossy(&resource.expect("a resource").value).into_owned();
            present.insert(name.clone());
            if !side.covers(&name) {
                continue;
            }
            match side.take(&name, Had { content, version }) {
                true => changed.push(name),
                false => refused.push(name),
            }
        }
        for name in &response.removed_resources {
            side.has.remove(name);
            // The resource may be created again, with versions from the beginning.
            present.insert(name.clone());
        }
        let refused = told_refusal(&refused);
        if kind == CDS {
            model.warm(changed, refused);
        } else {
            OfDelta::answer(model, kind, refused);
            if kind == EDS {
                model.warming.retain(|name| !present.contains(name));
                model.finish_warming();
            }
        }
    }

    fn come_back(model: &mut Model<OfDelta>, kind: ResourceType) {
        let side = &model.sides[kind.index()];
        let star = side.is_wildcard.then(|| "*".to_owned());
        let subscribe: Vec<_> = side.names.iter().cloned().chain(star).collect();
        let initial = side.has.iter().map(|(name, had)| (name.clone(), had.version.clone())).collect();
        // A request without names would subscribe to everything.
        if subscribe.is_empty() {
            model.sides[kind.index()] = Side::default();
            return;
        }
        model.to_node.push_back(DeltaDiscoveryRequest {
            resource_names_subscribe: subscribe,
            initial_resource_versions: initial,
            ..OfDelta::request(kind)
        });
    }
}
