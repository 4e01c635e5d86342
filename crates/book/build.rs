//! Renders the pages of `docs` into a table that `src/lib.rs` includes. A page that this cannot render ends the build.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, error, fs, io};

use pulldown_cmark::{Alignment, CowStr, Event, Options, Parser, Tag, TagEnd, html};

const DOCS: &str = "../../docs";
/// Folders of `docs` that are not part of the book.
const LEFT_OUT: [&str; 2] = ["images", "internals"];
/// Comment in a page after which its text is for readers of the sources alone.
const END: &str = "<!-- end of the page in the console -->";

fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={DOCS}");
    let mut files = Vec::new();
    pages_in(Path::new(DOCS), &mut files)?;
    let mut pages = BTreeMap::new();
    for file in files {
        let path = file.strip_prefix(DOCS)?.with_extension("").to_string_lossy().into_owned();
        pages.insert(name(&path), fs::read_to_string(&file)?);
    }
    let names: BTreeSet<String> = pages.keys().cloned().collect();
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut rows = String::new();
    for (at, (name, text)) in pages.iter().enumerate() {
        let (title, body) = render(name, text, &names)?;
        fs::write(out.join(format!("{at}.html")), body)?;
        let language = if name.starts_with("zh/") { "zh" } else { "en" };
        let body = format!("include_str!(concat!(env!(\"OUT_DIR\"), \"/{at}.html\"))");
        rows.push_str(&format!("Page {{ name: {name:?}, title: {title:?}, language: {language:?}, body: {body} }},\n"));
    }
    fs::write(
        out.join("pages.rs"),
        format!("/// All pages, sorted by their names.\nstatic PAGES: &[Page] = &[\n{rows}];\n"),
    )?;
    Ok(())
}

fn pages_in(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_left_out = path.file_name().is_some_and(|name| LEFT_OUT.iter().any(|one| name == *one));
        if path.is_dir() && !is_left_out {
            pages_in(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the name of a page by its path in `docs`, without `.md`.
fn name(path: &str) -> String {
    match path.strip_suffix("README") {
        Some(folder) => format!("{folder}contents"),
        None => path.to_owned(),
    }
}

/// Returns the title and the HTML of a page.
fn render(page: &str, text: &str, names: &BTreeSet<String>) -> Result<(String, String), String> {
    let text = text.split(END).next().unwrap_or_default();
    let events: Vec<Event> = Parser::new_ext(text, Options::ENABLE_TABLES).collect();
    let (mut anchors, mut title, mut is_linked) = (BTreeMap::new(), None, true);
    let mut rendered = Vec::with_capacity(events.len());
    for (at, event) in events.iter().enumerate() {
        let event = match event.clone() {
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                let heading = heading(&events[at + 1..]);
                let id = Some(CowStr::from(anchor(&heading, &mut anchors)));
                title.get_or_insert(heading);
                Event::Start(Tag::Heading { level, id, classes, attrs })
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => match target(page, &dest_url, names) {
                Some(url) => Event::Start(Tag::Link { link_type, dest_url: url.into(), title, id }),
                None => {
                    is_linked = false;
                    continue;
                }
            },
            Event::End(TagEnd::Link) if !std::mem::replace(&mut is_linked, true) => continue,
            // A picture is its text, as the pictures of the sources are not in the binary.
            Event::Start(Tag::Image { .. }) => Event::Start(Tag::Emphasis),
            Event::End(TagEnd::Image) => Event::End(TagEnd::Emphasis),
            // The policy of the pages allows no style attribute, which an alignment would be. What can be scrolled can
            // be reached with the keyboard.
            Event::Start(Tag::Table(columns)) => {
                rendered.push(Event::Html("<div class=\"wide\" tabindex=\"0\">".into()));
                Event::Start(Tag::Table(vec![Alignment::None; columns.len()]))
            }
            Event::End(TagEnd::Table) => {
                rendered.push(Event::End(TagEnd::Table));
                Event::Html("</div>\n".into())
            }
            Event::Start(Tag::CodeBlock(_)) => Event::Html("<pre tabindex=\"0\"><code>".into()),
            Event::End(TagEnd::CodeBlock) => Event::Html("</code></pre>\n".into()),
            Event::Html(html) | Event::InlineHtml(html) if html.trim_start().starts_with("<!--") => continue,
            Event::Html(html) | Event::InlineHtml(html) => return Err(format!("{page}: HTML in a page: {html}")),
            other => other,
        };
        rendered.push(event);
    }
    let mut body = String::with_capacity(text.len() * 3 / 2);
    html::push_html(&mut body, rendered.into_iter());
    Ok((title.ok_or_else(|| format!("{page} has no heading"))?, body))
}

/// Returns the text of the heading that these events continue.
fn heading(events: &[Event]) -> String {
    let inside = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    let texts = inside.filter_map(|event| match event {
        Event::Text(text) | Event::Code(text) => Some(&**text),
        _ => None,
    });
    texts.collect()
}

/// Returns the anchor of a heading as GitHub makes it; headings of the same text are numbered.
fn anchor(heading: &str, anchors: &mut BTreeMap<String, usize>) -> String {
    let kept = |character: char| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        other => other.is_alphanumeric().then_some(other),
    };
    let anchor: String = heading.trim().to_lowercase().chars().filter_map(kept).collect();
    let count = anchors.entry(anchor.clone()).or_insert(0);
    *count += 1;
    if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
}

/// Returns the address of a link on this page; `None` if it leads to a file that is not part of the book.
fn target(page: &str, link: &str, names: &BTreeSet<String>) -> Option<String> {
    if link.starts_with("https://") || link.starts_with("http://") || link.starts_with('#') {
        return Some(link.to_owned());
    }
    let (path, fragment) = match link.split_once('#') {
        Some((path, fragment)) => (path, format!("#{fragment}")),
        None => (link, String::new()),
    };
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.strip_suffix(".md")?.split('/') {
        match part {
            ".." => parts.pop().map(|_| ())?,
            part => parts.push(part),
        }
    }
    let name = name(&parts.join("/"));
    names.contains(&name).then(|| format!("/ui/book/{name}{fragment}"))
}
