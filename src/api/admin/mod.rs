//! `/admin/v1`: cluster, settings, audit trail, webhooks, clients, backup, data keys; `/livez`, `/readyz` and
//! `/metrics`.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod clients;
pub(crate) mod cluster;
pub(crate) mod health;
pub(crate) mod resealing;
pub(crate) mod settings;
pub(crate) mod time;
pub(crate) mod webhooks;
pub(crate) mod xds;
