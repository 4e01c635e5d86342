//! Addresses of a provider.

use url::{Host, Url};

use crate::fault::{OidcFault, quoted};

/// Maximum length of an address.
const ADDRESS_BYTES_MAX: usize = 2048;

/// Reports whether what is sent to an address cannot be read on the way: by HTTPS, or to this machine.
pub fn is_safe_address(url: &Url) -> bool {
    match url.scheme() {
        "https" => url.host().is_some(),
        "http" => match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        },
        _ => false,
    }
}

/// Reads an address that requests are sent to.
pub(crate) fn read_address(field: &'static str, text: &str) -> Result<Url, OidcFault> {
    if text.len() > ADDRESS_BYTES_MAX {
        return Err(OidcFault::new(field, format!("is longer than {ADDRESS_BYTES_MAX} bytes")));
    }
    let url = Url::parse(text).map_err(|error| OidcFault::new(field, format!("is {}: {error}", quoted(text))))?;
    let has_login = !url.username().is_empty() || url.password().is_some();
    if has_login || url.fragment().is_some() {
        return Err(OidcFault::new(field, format!("is {}: with a login or a fragment", quoted(text))));
    }
    if !is_safe_address(&url) {
        return Err(OidcFault::new(field, format!("is {}: https is required, except for loopback", quoted(text))));
    }
    Ok(url)
}
