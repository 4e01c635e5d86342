//! The book: the pages of `docs` in both languages, as HTML for the console.
//!
//! `build.rs` renders them when the crate is compiled: a node only sends them, and no parser runs in it. A page has no
//! script, style or picture, so the console's content security policy holds for it too. Links between the pages lead
//! to `/ui/book/NAME`; those to files outside of the book are plain text. The docs of internals are left out.

include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Page of the book.
#[derive(Debug)]
pub struct Page {
    /// Path below `docs` without `.md`; `README` is called `contents`.
    pub name: &'static str,
    /// Text of the first heading.
    pub title: &'static str,
    /// Tag of the language: `en` or `zh`.
    pub language: &'static str,
    /// Content as HTML.
    pub body: &'static str,
}

/// Returns a page by its name.
pub fn page(name: &str) -> Option<&'static Page> {
    PAGES.binary_search_by(|page| page.name.cmp(name)).ok().map(|at| &PAGES[at])
}

/// Returns the name of the contents page in a language.
pub fn contents(language: &str) -> &'static str {
    if language == "zh" { "zh/contents" } else { "contents" }
}

impl Page {
    /// Returns the same page in the other language; `None` if it is not translated.
    pub fn translation(&self) -> Option<&'static Page> {
        match self.name.strip_prefix("zh/") {
            Some(name) => page(name),
            None => page(&format!("zh/{}", self.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Maximum size of a page as HTML.
    const BODY_BYTES_MAX: usize = 64 << 10;
    /// Ids of the frame around a page.
    const IDS_OF_THE_FRAME: [&str; 2] = ["content", "find"];

    fn values<'a>(body: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
        body.split(attribute).skip(1).filter_map(|rest| rest.split('"').next())
    }

    fn ids(page: &Page) -> Vec<&str> {
        values(page.body, " id=\"").collect()
    }

    /// Decodes the percent-encoding of Chinese anchors.
    fn decoded(text: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let [first, tail @ ..] = rest {
            let code = tail.get(..2).filter(|_| *first == b'%').and_then(|code| std::str::from_utf8(code).ok());
            match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
                Some(byte) => (bytes.push(byte), rest = &tail[2..]).1,
                None => (bytes.push(*first), rest = tail).1,
            }
        }
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn links_of_the_book_lead_to_its_pages_and_their_headings() {
        let mut links = 0;
        for page in PAGES {
            for link in values(page.body, "href=\"").filter(|link| !link.starts_with("http")) {
                let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
                let to = match path.strip_prefix("/ui/book/") {
                    Some(name) => super::page(name).unwrap_or_else(|| panic!("{}: {link}", page.name)),
                    None if path.is_empty() => page,
                    None => panic!("{}: {link} leads out of the book", page.name),
                };
                let fragment = decoded(fragment);
                assert!(fragment.is_empty() || ids(to).contains(&&*fragment), "{}: {link} has no heading", page.name);
                links += 1;
            }
        }
        assert!(links > 500, "{links} links");
    }

    #[test]
    fn pages_are_text_with_tables_and_code_alone_and_small() {
        let allowed: BTreeSet<_> = [
            "a",
            "blockquote",
            "br",
            "code",
            "div",
            "em",
            "h1",
            "h2",
            "h3",
            "h4",
            "hr",
            "li",
            "ol",
            "p",
            "pre",
            "strong",
            "table",
            "tbody",
            "td",
            "th",
            "thead",
            "tr",
            "ul",
        ]
        .into();
        for page in PAGES {
            assert!(page.body.len() <= BODY_BYTES_MAX, "{} has {} bytes", page.name, page.body.len());
            assert!(!page.title.is_empty() && page.body.contains("<h1 id="), "{}", page.name);
            for tag in page.body.split('<').skip(1) {
                let tag = tag.split('>').next().expect("a tag").trim_matches('/');
                let (element, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
                assert!(allowed.contains(element), "{}: <{tag}>", page.name);
                let names = attributes.split("=\"").step_by(2).map(|name| name.rsplit(['"', ' ']).next());
                let names: Vec<_> = names.flatten().filter(|name| !name.is_empty()).collect();
                let is_plain = |name: &&&str| ["class", "href", "id", "start", "tabindex"].contains(*name);
                assert_eq!(names.iter().filter(is_plain).count(), names.len(), "{}: <{tag}>", page.name);
            }
            let (ids, twice) = (ids(page), ids(page).into_iter().collect::<BTreeSet<_>>());
            assert_eq!(ids.len(), twice.len(), "{}: an anchor is there twice", page.name);
            assert!(IDS_OF_THE_FRAME.iter().all(|id| !twice.contains(id)), "{}", page.name);
        }
        let start = page("start").expect("a page");
        assert!(start.body.contains("<pre tabindex=\"0\"><code>") && start.body.contains("<table>"), "{}", start.body);
    }

    #[test]
    fn the_contents_lead_to_every_page_of_the_book() {
        let mut reached = BTreeSet::from(["contents", "zh/contents"]);
        let mut open: Vec<_> = reached.iter().copied().collect();
        while let Some(name) = open.pop() {
            let page = page(name).expect("a page");
            for link in values(page.body, "href=\"/ui/book/") {
                let name = link.split('#').next().expect("a name");
                if reached.insert(name) {
                    open.push(name);
                }
            }
        }
        let missing: Vec<_> = PAGES.iter().filter(|page| !reached.contains(page.name)).map(|page| page.name).collect();
        assert_eq!(missing, Vec::<&str>::new());
        assert!(!page("contents").expect("a page").body.contains("contributors"));
    }

    #[test]
    fn a_page_knows_its_translation() {
        let name = |page: &Page| page.translation().map(|page| page.name);
        assert_eq!(page("start").and_then(name), Some("zh/start"));
        assert_eq!(page("zh/start").and_then(name), Some("start"));
        assert_eq!(page("metrics").and_then(name), None);
        assert_eq!(
            (page(contents("zh")).expect("a page").language, page(contents("en")).expect("a page").language),
            ("zh", "en")
        );
        assert!(page("internals/layers").is_none() && page("../Cargo").is_none());
    }
}
