//! Parts of a rule that Polaris' SDKs do not carry out exactly.

use std::fmt;

/// A part of a rule that SDKs do not carry out exactly.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// Number in the documentation: 4 for `P4`.
    pub number: u8,
    /// True if the part is omitted; false if it is approximated.
    pub is_left_out: bool,
    /// Place in the rule, and the reason.
    pub text: String,
}

impl Loss {
    /// Creates a loss of an omitted part.
    pub(crate) fn left_out(number: u8, text: impl Into<String>) -> Loss {
        Loss { number, is_left_out: true, text: text.into() }
    }

    /// Creates a loss of a part that SDKs carry out approximately.
    pub(crate) fn approximate(number: u8, text: impl Into<String>) -> Loss {
        Loss { number, is_left_out: false, text: text.into() }
    }
}

/// Formats as `P4: …`.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{}: {}", self.number, self.text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    /// Returns the numbers that follow `mark` in a text.
    fn numbers(text: &str, mark: &str) -> BTreeSet<u8> {
        let digits = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>();
        text.split(mark).skip(1).filter_map(|rest| digits(rest).parse().ok()).collect()
    }

    #[test]
    fn every_loss_has_a_row_in_the_book() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(root.join("src")).expect("a folder") {
            let path = entry.expect("an entry").path();
            let file = if path.is_dir() { path.join("mod.rs") } else { path };
            let text = fs::read_to_string(&file).expect("a source");
            found.extend(["Loss::left_out(", "Loss::approximate("].iter().flat_map(|mark| numbers(&text, mark)));
        }
        let book = fs::read_to_string(root.join("../../docs/from-polaris.md")).expect("a page");
        assert_eq!(found, numbers(&book, "\n| P"));
        assert_eq!(found.len(), 24);
    }
}
