//! Length limits of host names in DNS: a resolver cannot look up longer names, and programs notice that late.

/// Characters of a name without a trailing dot; below, of each of its labels.
const NAME_CHARS_MAX: usize = 253;
const LABEL_CHARS_MAX: usize = 63;

/// Returns the reason why a host name is too long for DNS or has an empty label. Its characters are not checked, and
/// addresses are accepted.
pub fn fault(host: &str) -> Option<String> {
    let name = host.strip_suffix('.').unwrap_or(host);
    if host.contains(':') {
        return None;
    }
    if name.len() > NAME_CHARS_MAX {
        return Some(format!("a host name may have at most {NAME_CHARS_MAX} characters"));
    }
    let label = name.split('.').find(|label| label.is_empty() || label.len() > LABEL_CHARS_MAX)?;
    Some(match label.is_empty() {
        true => "a host name may not be empty between two dots".to_owned(),
        false => format!("the part {label:?} of a host name may have at most {LABEL_CHARS_MAX} characters"),
    })
}

/// Reports whether `text` is `host:port` with a resolvable name or an address, IPv6 in brackets.
pub fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    host.bytes().all(is_name) && fault(host).is_none() && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_253_characters_and_each_part_63() {
        let label = "a".repeat(63);
        let longest = [&*label, &label, &label, &label[..61]].join(".");
        for good in ["a", "n1.example.com", "n1.", "10.0.0.1", "::1", "fe80::1%eth0", &label, &longest] {
            assert_eq!(fault(good), None, "{good}");
        }
        for bad in ["", ".", "a..b", ".a", &format!("{label}b"), &format!("n1.{label}b.c"), &format!("{longest}a")] {
            assert!(fault(bad).is_some(), "{bad}");
        }
    }
}
