//! Answer to refused requests.

use crate::model::mesh::probes::{is_header_name, is_header_value};
use crate::model::mesh::warning::{ENVOY, Warning};
use crate::model::rule::rate_limit::{CustomResponse, LimitTrigger};

/// Status of refused requests, unless a rule defines another one.
const TOO_MANY_REQUESTS: u16 = 429;
/// Highest number of headers that a proxy adds to the answer.
const HEADERS_MAX: usize = 10;
const ERROR_FROM: u16 = 400;
/// Header that proxies do not allow to be set.
const RESERVED: &str = "host";

/// Answer of a proxy to requests above a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitAnswer {
    /// Status from 400 on that proxies know.
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// Response of the rule from which it was created.
    asked: Option<CustomResponse>,
}

impl Default for LimitAnswer {
    fn default() -> Self {
        LimitAnswer { status: TOO_MANY_REQUESTS, headers: Vec::new(), asked: None }
    }
}

impl LimitAnswer {
    /// Adopts the answer of a limit, unless there is one already.
    pub(super) fn take(&mut self, trigger: &LimitTrigger, place: &str, warnings: &mut Vec<Warning>) {
        let Some(asked) = &trigger.custom_response else { return };
        let mut warn = |text: String| warnings.push(Warning::approximate(14, ENVOY, format!("{place}: {text}")));
        match &self.asked {
            Some(taken) if taken == asked => return,
            Some(_) => {
                return warn("Envoy has one answer for all limits of a service, that of the first".into());
            }
            None => {}
        }
        match status(&asked.code) {
            Some(status) => self.status = status,
            None => warn(format!("code {} is not carried: it is {TOO_MANY_REQUESTS} there", asked.code)),
        }
        for (name, value) in &asked.headers {
            let is_fit = is_header_name(name) && is_header_value(value) && !name.eq_ignore_ascii_case(RESERVED);
            if is_fit && self.headers.len() < HEADERS_MAX {
                self.headers.push((name.clone(), value.clone()));
            } else {
                warn(format!("header {name} is not carried"));
            }
        }
        if !asked.body.is_empty() {
            warn("body is not carried".into());
        }
        self.asked = Some(asked.clone());
    }
}

/// Parses a status; `None` if proxies refuse or do not know it.
fn status(code: &str) -> Option<u16> {
    if code.is_empty() {
        return Some(TOO_MANY_REQUESTS);
    }
    let status = code.parse().ok().filter(|status| *status >= ERROR_FROM)?;
    let is_known = matches!(status, 400..=417 | 421..=424 | 426 | 428 | 429 | 431 | 500..=508 | 510 | 511);
    is_known.then_some(status)
}
