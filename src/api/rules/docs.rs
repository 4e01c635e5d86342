//! Documentation of the routes of this folder, family by family.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use thuban_documents::RuleView;

use crate::api::http::{Doc, PAGING, Shape};
use crate::api::releases::{Difference, SIDES, Subscribers};
use crate::api::view::{EventView, RuleReleaseView};
use crate::model::code::Code;
use crate::model::explain::Explanation;
use crate::model::rule::{Family, RuleHead, WithTypes};
use crate::openapi::{Param, SchemaOf, schema_of};

/// Codes that refuse the fields of an item.
const FIELDS: &[Code] = &[Code::InvalidNamespaceName, Code::InvalidMetadata, Code::InvalidParameter];
const FILTERS: &[Param] = &[
    Param::text("id", "Exact."),
    Param::text("name", "Exact, or with `*` a glob that ignores case."),
    Param::text("namespace", "Exact, or with `*` a glob that ignores case."),
    Param::text("service", "A service on either end of the calls that the rule is about."),
    Param::flag("enable", "Only rules that are switched on, or off."),
];
const HEAD_ONLY: &[Param] =
    &[Param::flag("brief", "`true` leaves out what only this family has; without it rules are listed whole.")];
const RULE_OF_RELEASES: &[Param] = &[
    Param::text("id", "Id of the rule.").also(&["rule_id"]),
    Param::text("rule_name", "Name of the rule."),
    Param::flag("only_active", "Only what clients see."),
    Param::flag("brief", "`false` shows in each release the rule as released, which is left out otherwise."),
];

/// Query keys that identify one rule.
const ONE_RULE: &[Param] = &[
    Param::text("id", "Id of the rule; this or its name is needed.").also(&["rule_id"]),
    Param::text("rule_name", "Name of the rule."),
    Param::text("namespace", "Of the rule, where several namespaces have one of this name."),
];

/// Schema of a rule: the common fields, and those of its family.
struct Both<H, B>(PhantomData<(H, B)>);

impl<H: JsonSchema, B: JsonSchema> JsonSchema for Both<H, B> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}_{}", H::schema_name(), B::schema_name()).into()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        json_schema!({ "allOf": [schemas.subschema_for::<H>(), schemas.subschema_for::<B>()] })
    }
}

/// Schema of a rule in a request.
struct AsSent;

impl WithTypes for AsSent {
    type Output = SchemaOf;

    fn run<B: JsonSchema, P: JsonSchema>() -> SchemaOf {
        schema_of::<Both<RuleHead, P>>()
    }
}

/// Schema of a rule in an answer.
struct AsShown;

impl WithTypes for AsShown {
    type Output = SchemaOf;

    fn run<B: JsonSchema, P: JsonSchema>() -> SchemaOf {
        schema_of::<Both<RuleView<'_>, B>>()
    }
}

fn doc(family: Family) -> Doc {
    Doc::new(family.title())
}

fn write(family: Family) -> Doc {
    doc(family)
        .takes(family.with_types::<AsSent>())
        .gives(Shape::Batch((family.element(), family.with_types::<AsShown>())))
}

fn write_release(family: Family) -> Doc {
    doc(family).gives(Shape::batch::<RuleReleaseView>("ruleRelease"))
}

pub(crate) fn list(family: Family) -> Doc {
    doc(family)
        .says("A page of rules, newest change first.")
        .query(&[FILTERS, HEAD_ONLY, PAGING])
        .gives(Shape::List(("data", family.with_types::<AsShown>())))
}

pub(crate) fn detail(family: Family) -> Doc {
    doc(family)
        .says("A page of whole rules, newest change first.")
        .query(&[FILTERS, PAGING])
        .gives(Shape::List(("data", family.with_types::<AsShown>())))
}

pub(crate) fn create(family: Family) -> Doc {
    write(family)
        .says(
            "Creates rules, which clients see when they are published; a missing namespace is made. `warnings` tells \
             what clients of xDS do not carry out.",
        )
        .codes(&[FIELDS, &[Code::ExistedResource]])
}

pub(crate) fn update(family: Family) -> Doc {
    const REFUSED: &[Code] =
        &[Code::NoNeedUpdate, Code::ExistedResource, Code::NotFoundResource, Code::DataConflict, Code::TooMany];
    write(family)
        .says(
            "Updates rules: an absent field stays; with `revision`, only if that is the current one. `warnings` tells \
             what clients of xDS do not carry out.",
        )
        .codes(&[FIELDS, REFUSED])
}

pub(crate) fn delete(family: Family) -> Doc {
    write(family)
        .says("Deletes rules with their releases, by id or by name and namespace; one that is not there is success.")
        .codes(&[FIELDS, &[Code::DataConflict]])
}

pub(crate) fn publish(family: Family) -> Doc {
    const REFUSED: &[Code] = &[
        Code::InvalidMatchRule,
        Code::ContractBroken,
        Code::ExistedResource,
        Code::NotFoundResource,
        Code::DataConflict,
    ];
    write_release(family)
        .says(
            "Publishes rules as they stand, for all clients or (gray) for those whose labels match. `warnings` tells \
             what clients of xDS do not carry out.",
        )
        .codes(&[FIELDS, REFUSED])
}

pub(crate) fn list_releases(family: Family) -> Doc {
    doc(family)
        .says("A page of releases: of one rule, highest version first, or without a rule of all, newest change first.")
        .query(&[RULE_OF_RELEASES, PAGING])
        .gives(Shape::releases::<RuleReleaseView>("data"))
}

pub(crate) fn roll_back(family: Family) -> Doc {
    write_release(family)
        .says("Makes earlier releases active again, under a new version.")
        .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::BadRequest, Code::NotFoundResource]])
}

pub(crate) fn promote(family: Family) -> Doc {
    write_release(family)
        .says("Makes normal releases of active gray ones, in one step: their clients never step back.")
        .codes(&[FIELDS, &[Code::BadRequest, Code::ContractBroken, Code::ExistedResource, Code::NotFoundResource]])
}

pub(crate) fn withdraw(family: Family) -> Doc {
    write_release(family)
        .says("Takes active normal releases from all clients; with `to_previous`, back to the one before each.")
        .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::BadRequest, Code::NotFoundResource]])
}

pub(crate) fn rollout(family: Family) -> Doc {
    write_release(family)
        .says("Pauses, resumes, advances or stops the rollouts of gray releases that were published with a plan.")
        .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::BadRequest, Code::NotFoundResource]])
}

pub(crate) fn signal(family: Family) -> Doc {
    write_release(family)
        .says("Tells rollouts with a guard of the kind `signal` how they go: `ok: false` stops them.")
        .codes(&[FIELDS, &[Code::BadRequest, Code::NotFoundResource]])
}

pub(crate) fn history(family: Family) -> Doc {
    doc(family)
        .says("The release history of one rule, newest first: the newest 200 events.")
        .query(&[ONE_RULE, PAGING])
        .gives(Shape::releases::<EventView>("data"))
        .codes(&[&[Code::InvalidParameter, Code::NotFoundResource]])
}

pub(crate) fn diff(family: Family) -> Doc {
    doc(family)
        .says("The difference between two of: the draft of a rule, the release in force, and any release of it.")
        .query(&[ONE_RULE, SIDES])
        .gives(Shape::single::<Difference>("diff"))
        .codes(&[&[Code::InvalidParameter, Code::NotFoundResource]])
}

pub(crate) fn subscribers(family: Family) -> Doc {
    doc(family)
        .says(
            "The clients of all nodes that discovered the rule, or have resources of xDS that were made with it, with \
             the release of each and the client's own word on it.",
        )
        .query(&[ONE_RULE, PAGING])
        .gives(Shape::whole::<Subscribers>())
        .codes(&[&[Code::InvalidParameter, Code::NotFoundResource]])
}

pub(crate) fn stop_gray(family: Family) -> Doc {
    write_release(family)
        .says("Stops gray releases: their clients fall back to the normal one at once.")
        .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::BadRequest, Code::NotFoundResource]])
}

pub(crate) fn delete_releases(family: Family) -> Doc {
    write_release(family)
        .says("Deletes releases that are not active; one that is not there is success.")
        .codes(&[FIELDS, &[Code::BadRequest]])
}

pub(crate) fn explain(family: Family) -> Doc {
    doc(family)
        .says(
            "The rule that would apply to a request, with the reasons: every rule of the service with its verdict and \
             the clients of xDS that carry it out, and every gray release with whom it is for.",
        )
        .gives(Shape::single::<Explanation>("explanation"))
}
