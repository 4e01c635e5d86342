//! Settings of traces: the collector, the sampled share, and credentials for the collector.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use thuban_outbound::trust::{TrustError, trusting};
use url::Url;

use super::faults::Faults;
use crate::model::host;
use crate::traces::{TraceSettings, read_headers};

/// Path that the specification of OTLP adds to the address of a collector.
const TRACES_PATH: &str = "/v1/traces";

/// Settings of traces.
#[derive(Args, Clone, Debug)]
pub struct OtlpArgs {
    /// OpenTelemetry collector that receives traces as OTLP over HTTP: http://collector:4318; /v1/traces is appended
    /// [default: none, nothing is traced]
    #[arg(long, env = "THUBAN_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    /// Share of the requests that are traced, 0 to 1, if the caller's traceparent does not decide; chosen by the
    /// request id
    #[arg(long, env = "THUBAN_OTLP_SAMPLE", default_value_t = 1.0)]
    pub otlp_sample: f64,

    /// File with the authorities trusted for an https:// collector (PEM), read again once a minute and after a failure
    /// [default: those the system trusts]
    #[arg(long, env = "THUBAN_OTLP_CA_FILE", value_name = "FILE")]
    pub otlp_ca_file: Option<PathBuf>,

    /// File with headers for the collector, such as a token: one `name: value` per line; blank lines and lines that
    /// begin with # are ignored. Read again like the authorities; its values are never displayed
    #[arg(long, env = "THUBAN_OTLP_HEADERS_FILE", value_name = "FILE")]
    pub otlp_headers_file: Option<PathBuf>,

    /// Compression of traces on their way to the collector
    #[arg(long, env = "THUBAN_OTLP_COMPRESSION", value_enum, default_value_t = OtlpCompression::None)]
    pub otlp_compression: OtlpCompression,
}

/// Compression of exported traces, in the words of OpenTelemetry's own settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OtlpCompression {
    None,
    Gzip,
}

impl OtlpArgs {
    /// Reads the files if there is a collector, so that their faults are reported before anything starts.
    pub(super) fn check(&self, faults: &mut Faults) -> Option<TraceSettings> {
        let share = self.otlp_sample;
        if !(0.0..=1.0).contains(&share) {
            faults.add(format!("--otlp-sample has to be from 0 to 1, not {share}"));
        }
        let text = self.otlp_endpoint.as_deref().filter(|text| !text.is_empty())?;
        // The text is not repeated, because it may contain a password.
        let url = endpoint(text).map_err(|why| faults.add(format!("--otlp-endpoint {why}"))).ok();
        self.check_files(url.as_ref(), faults);
        Some(TraceSettings {
            url: url?,
            share,
            ca_file: self.otlp_ca_file.clone(),
            headers_file: self.otlp_headers_file.clone(),
            is_compressed: self.otlp_compression == OtlpCompression::Gzip,
        })
    }

    fn check_files(&self, url: Option<&Url>, faults: &mut Faults) {
        let is_verified = url.is_some_and(|url| url.scheme() == "https");
        if is_verified || self.otlp_ca_file.is_some() {
            match trusting(self.otlp_ca_file.as_deref()) {
                Ok(_) => {}
                Err(TrustError::NoRoots(why)) => {
                    faults.add(format!("--otlp-ca-file is needed, as the system trusts no authority: {why}"));
                }
                Err(error) => faults.add_passing(format!("--otlp-ca-file {error}")),
            }
        }
        if let Some(Err(error)) = self.otlp_headers_file.as_deref().map(read_headers) {
            faults.add(format!("--otlp-headers-file {error}"));
        }
    }
}

/// Returns the URL for traces of the collector at this address.
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
    if let Some(why) = url.host_str().and_then(host::fault) {
        return Err(format!("cannot be looked up: {why}"));
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
    use tempfile::TempDir;

    use super::*;
    use crate::tls::Authority;

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

    fn args(otlp_endpoint: &str) -> OtlpArgs {
        OtlpArgs {
            otlp_endpoint: Some(otlp_endpoint.to_owned()),
            otlp_sample: 1.0,
            otlp_ca_file: None,
            otlp_headers_file: None,
            otlp_compression: OtlpCompression::None,
        }
    }

    fn check(args: &OtlpArgs) -> (Option<TraceSettings>, String) {
        let mut faults = Faults::default();
        let settings = args.check(&mut faults);
        (settings, faults.0.join("\n"))
    }

    #[test]
    fn what_is_no_address_of_a_collector_is_refused() {
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
            let (settings, faults) = check(&args(text));
            assert!(settings.is_none() && faults.starts_with("--otlp-endpoint ") && faults.contains(words), "{faults}");
            assert!(!faults.contains("hidden"), "{faults}");
        }
        for otlp_sample in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let (_, faults) = check(&OtlpArgs { otlp_sample, ..args("http://collector:4318") });
            assert!(faults.starts_with("--otlp-sample has to be from 0 to 1"), "{faults}");
        }
        assert_eq!(check(&args("")), (None, String::new()), "as it is set by an empty variable");
        let (settings, _) = check(&OtlpArgs { otlp_sample: 0.25, ..args("http://collector:4318") });
        assert_eq!(settings.map(|settings| settings.share), Some(0.25));
    }

    #[test]
    fn files_are_looked_at_before_anything_starts() {
        let dir = TempDir::new().expect("a directory");
        let (ca, headers) = (dir.path().join("ca.pem"), dir.path().join("headers"));
        let given = |endpoint: &str| OtlpArgs {
            otlp_ca_file: Some(ca.clone()),
            otlp_headers_file: Some(headers.clone()),
            otlp_compression: OtlpCompression::Gzip,
            ..args(endpoint)
        };
        assert_eq!(check(&given("")), (None, String::new()), "nobody is there to trust");
        // All faults are reported at once.
        let (_, faults) = check(&given("collector:4318"));
        let flags = ["--otlp-endpoint ", "--otlp-ca-file ", "--otlp-headers-file "];
        assert!(faults.lines().zip(flags).all(|(fault, flag)| fault.starts_with(flag)), "{faults}");
        assert_eq!(faults.lines().count(), flags.len(), "{faults}");
        std::fs::write(&ca, "no certificate").expect("writable");
        std::fs::write(&headers, "api-key: hidden\nhost: hidden\n").expect("writable");
        let (_, faults) = check(&given("https://collector:4318"));
        assert!(faults.contains("ca.pem holds no certificate") && faults.contains("headers: line 2 names"), "{faults}");
        assert!(!faults.contains("hidden"), "{faults}");

        std::fs::remove_file(&ca).expect("it was there");
        Authority::open(dir.path()).expect("one is made");
        std::fs::write(&headers, "api-key: hidden\n").expect("writable");
        let (settings, faults) = check(&given("https://collector:4318"));
        let settings = settings.unwrap_or_else(|| panic!("{faults}"));
        assert_eq!((settings.ca_file.as_deref(), settings.headers_file.as_deref()), (Some(&*ca), Some(&*headers)));
        assert!(settings.is_compressed && !format!("{settings:?}").contains("hidden"), "{settings:?}");
        let (settings, _) = check(&args("http://collector:4318"));
        assert!(settings.is_some_and(|settings| !settings.is_compressed), "as the specification has it");
    }
}
