//! A curl command as the sketch of a request: the words of a shell, the options that shape a request, and the URL.

use std::net::IpAddr;

use url::Url;

use super::fields::Fields;

/// Headers with secrets, which no address of a page may have.
const SECRETS: [&str; 3] = ["authorization", "proxy-authorization", "x-polaris-token"];
/// Options of curl with a value that does not change what rules see.
const WITH_VALUE: [&str; 22] = [
    "-o",
    "--output",
    "-u",
    "--user",
    "-m",
    "--max-time",
    "--connect-timeout",
    "--retry",
    "-x",
    "--proxy",
    "--cacert",
    "--cert",
    "-E",
    "--key",
    "--resolve",
    "--connect-to",
    "-w",
    "--write-out",
    "-c",
    "--cookie-jar",
    "-F",
    "--form",
];

/// Returns the fields of the page for a command; `None` if it names no URL.
///
/// The host is the service, and its second part the namespace, as in `pay.shop.svc`: fields that are given win.
pub(super) fn fields(command: &str, given: &Fields) -> Option<Fields> {
    let request = Request::read(words(command))?;
    let host = request.host();
    let (service, namespace) = (host.first().copied().unwrap_or_default(), host.get(1).copied().unwrap_or_default());
    let pairs = request.url.query_pairs().map(|(key, value)| format!("{key}={value}"));
    let headers = request.headers.iter().filter(|(name, _)| {
        let name = name.to_ascii_lowercase();
        name != "host" && name != "cookie" && !SECRETS.contains(&name.as_str())
    });
    let method = request.method();
    let read = [
        ("service", service.to_owned()),
        ("namespace", namespace.to_owned()),
        ("protocol", "HTTP".to_owned()),
        ("method", method.to_owned()),
        ("path", request.url.path().to_owned()),
        ("headers", lines(headers.map(|(name, value)| format!("{name}={value}")))),
        ("query", lines(pairs)),
        ("cookies", lines(request.cookies())),
    ];
    let is_read = |key: &str| read.iter().any(|(name, value)| *name == key && !value.is_empty());
    let is_place = |key: &str| key == "service" || key == "namespace";
    let others = given.pairs().filter(|(key, value)| {
        !matches!(*key, "curl" | "form_token") && !value.is_empty() && (is_place(key) || !is_read(key))
    });
    let others: Vec<_> = others.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let is_given = |key: &str| others.iter().any(|(name, _)| name == key);
    let read: Vec<_> = read
        .iter()
        .filter(|(key, value)| !value.is_empty() && !is_given(key))
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect();
    Some(Fields([read, others].concat()))
}

fn lines(all: impl Iterator<Item = String>) -> String {
    all.collect::<Vec<_>>().join("\n")
}

struct Request {
    url: Url,
    method: Option<String>,
    has_body: bool,
    headers: Vec<(String, String)>,
}

impl Request {
    fn read(words: Vec<String>) -> Option<Request> {
        let (mut url, mut method, mut has_body, mut headers) = (None, None, false, Vec::new());
        let (mut data, mut is_get) = (Vec::new(), false);
        let mut words = words.into_iter().peekable();
        words.next_if(|word| word == "curl");
        while let Some(word) = words.next() {
            let (option, joined) = split(&word);
            let mut value = || joined.clone().or_else(|| words.next()).unwrap_or_default();
            match option {
                "-X" | "--request" => method = Some(value()),
                "-I" | "--head" => method = Some("HEAD".to_owned()),
                "-G" | "--get" => is_get = true,
                "-H" | "--header" => headers.extend(header(&value())),
                "-A" | "--user-agent" => headers.push(("user-agent".to_owned(), value())),
                "-e" | "--referer" => headers.push(("referer".to_owned(), value())),
                "-b" | "--cookie" => headers.push(("cookie".to_owned(), value())),
                "--json" => {
                    (has_body, _) = (true, value());
                    headers.push(("content-type".to_owned(), "application/json".to_owned()));
                }
                "-d" | "--data" | "--data-raw" | "--data-binary" | "--data-ascii" | "--data-urlencode" => {
                    has_body = true;
                    data.push(value());
                }
                "--url" => url = Some(value()),
                option if WITH_VALUE.contains(&option) => drop(value()),
                option if option.starts_with('-') => {}
                _ => url = url.or(Some(word)),
            }
        }
        let url = url?;
        let mut url = Url::parse(&if url.contains("://") { url } else { format!("http://{url}") }).ok()?;
        if is_get {
            has_body = false;
            let pairs: Vec<_> = data.iter().flat_map(|data| url::form_urlencoded::parse(data.as_bytes())).collect();
            url.query_pairs_mut().extend_pairs(pairs);
        }
        Some(Request { url, method, has_body, headers })
    }

    fn method(&self) -> &str {
        self.method.as_deref().unwrap_or(if self.has_body { "POST" } else { "GET" })
    }

    fn header(&self, wanted: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        named.next().map(|(_, value)| value.as_str())
    }

    /// Returns the parts of the called name; none for an address.
    fn host(&self) -> Vec<&str> {
        let host = self.header("host").or_else(|| self.url.host_str()).unwrap_or_default();
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let is_address = name.parse::<IpAddr>().is_ok() || name.starts_with('[') || name == "localhost";
        if is_address { Vec::new() } else { name.split('.').collect() }
    }

    fn cookies(&self) -> impl Iterator<Item = String> {
        let all = self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
        let pairs = all.flat_map(|(_, value)| value.split(';')).map(str::trim);
        // Without a value it is the name of a file.
        pairs.filter(|pair| pair.contains('=')).map(str::to_owned)
    }
}

/// Splits `--option=value` and `-Xvalue`.
fn split(word: &str) -> (&str, Option<String>) {
    if let Some((option, value)) = word.split_once('=').filter(|(option, _)| option.starts_with("--")) {
        return (option, Some(value.to_owned()));
    }
    let is_short = word.starts_with('-') && !word.starts_with("--");
    match word.get(..2).filter(|_| is_short && word.len() > 2) {
        Some(option) if matches!(option, "-X" | "-H" | "-A" | "-e" | "-b" | "-d") => {
            (option, Some(word[2..].to_owned()))
        }
        _ => (word, None),
    }
}

fn header(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    Some((name.trim().to_owned(), value.trim().to_owned()))
}

/// Splits a command as a shell does: by blanks outside of quotes, and without the backslash at the end of a line.
fn words(command: &str) -> Vec<String> {
    let (mut all, mut word, mut has_word) = (Vec::new(), String::new(), false);
    let mut letters = command.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('\n') | None => {}
                Some('\r') => drop(letters.next_if_eq(&'\n')),
                Some(next) => (has_word, _) = (true, word.push(next)),
            },
            '\'' => {
                has_word = true;
                word.extend(letters.by_ref().take_while(|letter| *letter != '\''));
            }
            '"' => {
                has_word = true;
                while let Some(letter) = letters.next().filter(|letter| *letter != '"') {
                    let is_escape = letter == '\\' && matches!(letters.peek(), Some('"' | '\\' | '$' | '`'));
                    word.push(if is_escape { letters.next().unwrap_or(letter) } else { letter });
                }
            }
            '$' if !has_word && letters.peek() == Some(&'\'') => {}
            letter if letter.is_whitespace() => {
                if has_word {
                    all.push(std::mem::take(&mut word));
                }
                has_word = false;
            }
            letter => (has_word, _) = (true, word.push(letter)),
        }
    }
    if has_word {
        all.push(word);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(command: &str, given: &str) -> Vec<(String, String)> {
        let fields = fields(command, &Fields::parse(given.as_bytes())).expect("a URL");
        let mut pairs: Vec<_> = fields.pairs().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        pairs.sort();
        pairs
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_command_is_read_into_the_fields_of_the_page() {
        let command = "curl -sS -X PUT 'http://pay.shop.svc:8080/charge/7?user=eva&x=a%20b' \\\n  \
                       -H 'x-beta: 1' -H \"Authorization: Bearer secret\" --cookie='sid=9; theme=dark' -d '{\"a\": 1}'";
        let expected = pairs(&[
            ("cookies", "sid=9\ntheme=dark"),
            ("headers", "x-beta=1"),
            ("method", "PUT"),
            ("namespace", "shop"),
            ("path", "/charge/7"),
            ("protocol", "HTTP"),
            ("query", "user=eva\nx=a b"),
            ("service", "pay"),
        ]);
        assert_eq!(read(command, "curl=x&form_token=y"), expected);
    }

    #[test]
    fn the_service_that_was_typed_wins_over_the_host() {
        let command = "curl -d a=1 --max-time 3 127.0.0.1:15001/charge -H'Host: cart.lab'";
        let method = ("method", "POST");
        let (path, protocol) = (("path", "/charge"), ("protocol", "HTTP"));
        let given = "service=pay&namespace=shop&client_labels=zone%3Da&path=/old";
        let kept = [("client_labels", "zone=a"), method, ("namespace", "shop"), path, protocol, ("service", "pay")];
        assert_eq!(read(command, given), pairs(&kept));
        assert_eq!(
            read(command, ""),
            pairs(&[method, ("namespace", "lab"), path, protocol, ("service", "cart")]),
            "a header names the host"
        );
        assert_eq!(read("curl -G http://localhost/ -d q=1", ""), {
            pairs(&[("method", "GET"), ("path", "/"), protocol, ("query", "q=1")])
        });
    }

    #[test]
    fn words_are_those_of_a_shell() {
        assert_eq!(words("a 'b c' \"d \\\"e\\\"\" f\\ g \\\n h $'i'"), ["a", "b c", "d \"e\"", "f g", "h", "i"]);
        assert!(fields("curl -s", &Fields::default()).is_none(), "no URL");
    }
}
