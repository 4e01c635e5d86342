//! Settings of traces: whom they are sent to, and how many.

use clap::Args;
use url::Url;

use super::faults::Faults;
use crate::traces::TraceSettings;

/// What the specification of OTLP has behind the address of a collector.
const TRACES_PATH: &str = "/v1/traces";

/// Settings of traces.
#[derive(Args, Clone, Debug)]
pub struct OtlpArgs {
    /// Collector of OpenTelemetry that traces are sent to, as OTLP by HTTP: http://collector:4318; /v1/traces is put
    /// behind it [default: none, nothing is traced]
    #[arg(long, env = "THUBAN_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    /// Share of the requests that are traced, 0 to 1, of those whose caller does not say by a traceparent whether it
    /// wants them traced; decided by the id of the request
    #[arg(long, env = "THUBAN_OTLP_SAMPLE", default_value_t = 1.0)]
    pub otlp_sample: f64,
}

impl OtlpArgs {
    pub(super) fn check(&self, faults: &mut Faults) -> Option<TraceSettings> {
        let share = self.otlp_sample;
        if !(0.0..=1.0).contains(&share) {
            faults.add(format!("--otlp-sample has to be from 0 to 1, not {share}"));
        }
        let text = self.otlp_endpoint.as_deref().filter(|text| !text.is_empty())?;
        match endpoint(text) {
            Ok(url) => Some(TraceSettings { url, share }),
            // The text is not repeated: what is wrong with it may be that it holds a password.
            Err(why) => {
                faults.add(format!("--otlp-endpoint {why}"));
                None
            }
        }
    }
}

/// Where traces are posted for a collector at this address.
fn endpoint(text: &str) -> Result<Url, String> {
    let mut url = Url::parse(text).map_err(|error| format!("is no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("has to begin with http:// or https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("may not hold a name or a password".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("may not hold a query or a fragment".to_owned());
    }
    let path = url.path().trim_end_matches('/');
    if !path.ends_with(TRACES_PATH) {
        let path = format!("{path}{TRACES_PATH}");
        url.set_path(&path);
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_traces_is_put_behind_the_address() {
        for (text, url) in [
            ("http://collector:4318", "http://collector:4318/v1/traces"),
            ("http://collector:4318/", "http://collector:4318/v1/traces"),
            ("http://collector:4318/v1/traces", "http://collector:4318/v1/traces"),
            ("https://[::1]:4318/a//", "https://[::1]:4318/a/v1/traces"),
            ("HTTPS://Collector.example/otlp", "https://collector.example/otlp/v1/traces"),
        ] {
            assert_eq!(endpoint(text).map(String::from), Ok(url.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_of_a_collector_is_refused() {
        let check = |otlp_endpoint: &str, otlp_sample| {
            let mut faults = Faults::default();
            let settings = OtlpArgs { otlp_endpoint: Some(otlp_endpoint.to_owned()), otlp_sample }.check(&mut faults);
            (settings, faults.0.join("\n"))
        };
        for (text, words) in [
            ("collector:4318", "has to begin with"),
            ("4318", "is no URL"),
            ("grpc://collector:4317", "has to begin with"),
            ("http://", "is no URL"),
            ("http://name:hidden@collector:4318", "may not hold a name"),
            ("http://name@collector:4318", "may not hold a name"),
            ("http://collector:4318?key=hidden", "may not hold a query"),
            ("http://collector:4318#hidden", "may not hold a query"),
        ] {
            let (settings, faults) = check(text, 1.0);
            assert!(settings.is_none() && faults.starts_with("--otlp-endpoint ") && faults.contains(words), "{faults}");
            assert!(!faults.contains("hidden"), "{faults}");
        }
        for share in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let (_, faults) = check("http://collector:4318", share);
            assert!(faults.starts_with("--otlp-sample has to be from 0 to 1"), "{faults}");
        }
        assert_eq!(check("", 1.0), (None, String::new()), "as it is set by an empty variable");
        assert_eq!(check("http://collector:4318", 0.25).0.map(|settings| settings.share), Some(0.25));
    }
}
