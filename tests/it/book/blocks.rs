//! Blocks of a page, and the comparison of printed text with the page.

use super::SAMPLES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Runs,
    Stays,
    NotRun,
    Sample,
}

pub(super) struct Block {
    pub(super) kind: Kind,
    pub(super) text: String,
    /// Expected output, if the page has it.
    pub(super) printed: Option<String>,
    /// Line of the fence.
    pub(super) line: usize,
    /// Number of headings of the second rank before it.
    pub(super) chapter: usize,
}

pub(super) struct Page {
    pub(super) blocks: Vec<Block>,
}

impl Page {
    /// Parses the blocks of a page; refuses blocks that would be neither run nor compared.
    pub(super) fn read(file: &str, text: &str) -> Result<Page, String> {
        let (mut blocks, mut chapter, mut lines) = (Vec::<Block>::new(), 0, text.lines().enumerate());
        while let Some((number, line)) = lines.next() {
            chapter += usize::from(line.starts_with("## "));
            let Some(info) = line.trim_start().strip_prefix("```") else { continue };
            let at = format!("{file}:{}", number + 1);
            if line.starts_with(' ') {
                return Err(format!("{at}: a block begins at the edge"));
            }
            let mut body = String::new();
            loop {
                match lines.next() {
                    Some((_, "```")) => break,
                    Some((_, line)) => body.extend([line, "\n"]),
                    None => return Err(format!("{at}: the block has no end")),
                }
            }
            let kind = match info {
                "sh" => Kind::Runs,
                "sh stays" => Kind::Stays,
                "sh no-run" => Kind::NotRun,
                "text" => {
                    let before = blocks
                        .last_mut()
                        .filter(|block| matches!(block.kind, Kind::Runs | Kind::Stays) && block.printed.is_none());
                    before.ok_or_else(|| format!("{at}: of which block is this the output?"))?.printed = Some(body);
                    continue;
                }
                sample if SAMPLES.contains(&sample) => Kind::Sample,
                other => return Err(format!("{at}: {other:?} is no kind of block")),
            };
            blocks.push(Block { kind, text: body, printed: None, line: number + 1, chapter });
        }
        Ok(Page { blocks })
    }
}

const ANY: &str = "…";

/// Returns the first difference of the printed text from the expected one; `…` matches any text, alone on a line any
/// lines.
pub(super) fn differs(expected: &str, printed: &str) -> Option<String> {
    let expected: Vec<_> = expected.trim_end().lines().collect();
    let printed: Vec<_> = printed.trim_end().lines().collect();
    // What of the expected lines has been found, at the furthest, in the printed ones.
    let mut furthest = 0;
    (!fits(&expected, &printed, 0, &mut furthest)).then(|| {
        let line = expected.get(furthest).copied().unwrap_or("the end");
        format!("not printed, or not where it is expected: {line}")
    })
}

fn fits(expected: &[&str], printed: &[&str], at: usize, furthest: &mut usize) -> bool {
    *furthest = at.max(*furthest);
    match expected.get(at) {
        None => printed.is_empty(),
        Some(&ANY) => (0..=printed.len()).any(|skipped| fits(expected, &printed[skipped..], at + 1, furthest)),
        Some(line) => {
            printed.first().is_some_and(|first| is_like(line, first)) && fits(expected, &printed[1..], at + 1, furthest)
        }
    }
}

fn is_like(expected: &str, printed: &str) -> bool {
    let mut parts = expected.split(ANY);
    let Some(mut rest) = printed.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn what_differs_is_found() {
    for (expected, printed) in [
        ("a\n", "a"),
        ("…", ""),
        ("…\nb…\n…", "a\nbc\nd\n"),
        ("a…c…e", "abcde"),
        ("…\n{\"code\":1,…}\n", "x\ny\n{\"code\":1,\"info\":\"}\"}\n"),
        ("a\n…\na\n…\nb", "a\na\nx\na\nb"),
    ] {
        assert_eq!(differs(expected, printed), None, "{expected:?} {printed:?}");
    }
    for (expected, printed, line) in [
        ("a\nb", "a\nc", "b"),
        ("a", "a\nb", "the end"),
        ("…\nb…d\n", "a\nbd.\n", "b…d"),
        ("a…a", "a", "a…a"),
        ("a", "", "a"),
    ] {
        let fault = differs(expected, printed).unwrap_or_else(|| panic!("{expected:?} {printed:?}"));
        assert!(fault.ends_with(line), "{expected:?} {printed:?}: {fault}");
    }
}

#[test]
fn blocks_are_read_and_odd_ones_refused() {
    let page = Page::read("p", "```sh\na\n```\n\n```text\nb\n```\n## c\n```sh no-run\nd\n```\n").expect("a page");
    let [first, second] = page.blocks.as_slice() else { panic!("two blocks") };
    assert_eq!((first.kind, first.text.as_str(), first.printed.as_deref()), (Kind::Runs, "a\n", Some("b\n")));
    assert_eq!((second.kind, second.line, second.chapter), (Kind::NotRun, 9, 1));
    for (text, words) in [
        ("```bash\na\n```\n", "no kind"),
        ("```\na\n```\n", "no kind"),
        ("```text\na\n```\n", "of which block"),
        ("```sh no-run\na\n```\n```text\nb\n```\n", "of which block"),
        ("```sh\na\n", "no end"),
        (" ```sh\na\n```\n", "edge"),
    ] {
        let fault = Page::read("p", text).map(|_| ()).expect_err(text);
        assert!(fault.contains(words), "{text}: {fault}");
    }
}
