//! Counts of things of each kind.

use super::Catalog;

impl Catalog {
    /// Returns the number of things by kind, for the metrics.
    pub fn counts(&self) -> [(&'static str, usize); 21] {
        let instances = self.instances.counts();
        [
            ("namespace", self.namespaces.len()),
            ("service", self.services.len()),
            ("alias", self.aliases.len()),
            ("rule", self.rules.len()),
            ("rule_release", self.rules.release_count()),
            ("instance_healthy", instances.healthy),
            ("instance_unhealthy", instances.total - instances.healthy - instances.isolated),
            ("instance_isolated", instances.isolated),
            ("config_group", self.configs.group_count()),
            ("configfile", self.configs.file_count()),
            ("config_release", self.configs.release_count()),
            ("config_sealed", self.configs.sealed_count()),
            ("config_template", self.templates.len()),
            ("config_content", self.configs.content_count()),
            ("token", self.access.token_count()),
            ("user", self.access.user_count()),
            ("service_token", self.access.service_token_count()),
            ("access_key", self.access_keys.len()),
            ("webhook", self.webhooks.len()),
            ("webhook_event", self.webhooks.event_count()),
            ("audit_row", usize::try_from(self.trail.rows()).unwrap_or(usize::MAX)),
        ]
    }
}
