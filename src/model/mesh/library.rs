//! Libraries that gRPC clients without a proxy are written with, and the points at which they read xDS differently.
//!
//! One form is sent, which all of them read alike. The exceptions are in [`TRAITS`], and in the table "Differences by
//! language" of the book, which a test compares with it.

use schemars::JsonSchema;
use serde::Serialize;

/// Library of a gRPC client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Library {
    /// C++, Python, Ruby, PHP; a client that is none of the others counts as one.
    Core,
    Go,
    Java,
    Node,
}

/// Points at which a library differs from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    pub library: Library,
    /// Beginning of its user agent; empty for all that is not listed.
    pub agent: &'static str,
    /// It compares the header `:path`; others compare the path of a route alone, which is one condition.
    pub has_path_header: bool,
    /// It takes the end of a range for a part of it.
    pub includes_range_end: bool,
    /// It takes a header with an empty value for one that is not there, where presence is all that is asked for.
    pub needs_presence_as_expression: bool,
    /// It picks clusters by new routes before it has balancers for them: calls fail unless routes come in two steps.
    pub needs_two_steps: bool,
}

/// The libraries, in the order of [`Library::ALL`].
pub const TRAITS: [Traits; 4] = [
    Traits { agent: "", has_path_header: true, ..Traits::alike(Library::Core) },
    Traits {
        agent: "gRPC Go",
        needs_presence_as_expression: true,
        needs_two_steps: true,
        ..Traits::alike(Library::Go)
    },
    Traits { agent: "gRPC Java", includes_range_end: true, ..Traits::alike(Library::Java) },
    Traits { agent: "gRPC Node", ..Traits::alike(Library::Node) },
];

impl Traits {
    const fn alike(library: Library) -> Traits {
        Traits {
            library,
            agent: "",
            has_path_header: false,
            includes_range_end: false,
            needs_presence_as_expression: false,
            needs_two_steps: false,
        }
    }
}

impl Library {
    pub const ALL: [Library; 4] = [Library::Core, Library::Go, Library::Java, Library::Node];
    /// Those that compare one condition on the path.
    pub const WITHOUT_PATH_HEADER: [Library; 3] = [Library::Go, Library::Java, Library::Node];

    /// Finds the library by the user agent of a node, with or without its version.
    pub fn of_agent(agent: &str) -> Library {
        let is_of = |traits: &&Traits| !traits.agent.is_empty() && agent.starts_with(traits.agent);
        TRAITS.iter().find(is_of).map_or(Library::Core, |traits| traits.library)
    }

    pub fn traits(self) -> &'static Traits {
        &TRAITS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_agents() {
        for (agent, library) in [
            ("gRPC Go 1.85.0", Library::Go),
            ("gRPC Java 1.85.1", Library::Java),
            ("gRPC Node Pure JS 1.14.1", Library::Node),
            ("gRPC C-core linux 58.0.0", Library::Core),
            ("something else", Library::Core),
            ("", Library::Core),
        ] {
            assert_eq!(Library::of_agent(agent), library, "{agent}");
        }
        for (library, traits) in Library::ALL.into_iter().zip(&TRAITS) {
            assert_eq!((traits.library, library.traits()), (library, traits));
            let is_without = Library::WITHOUT_PATH_HEADER.contains(&library);
            assert_eq!(traits.has_path_header, !is_without, "{library:?}");
        }
    }

    /// Languages of a library, as the book has them.
    fn languages(library: Library) -> &'static str {
        match library {
            Library::Core => "C++, Python, Ruby, PHP",
            Library::Go => "Go",
            Library::Java => "Java",
            Library::Node => "Node",
        }
    }

    /// The table of the book, of what is sent by library.
    fn table() -> String {
        let row = |what: &str, of: &dyn Fn(&Traits) -> String| {
            let cells: Vec<_> = TRAITS.iter().map(of).collect();
            format!("| {what} | {} |\n", cells.join(" | "))
        };
        let word = |is_so: bool, so: &str, not: &str| if is_so { so.to_owned() } else { not.to_owned() };
        let agent = |one: &Traits| word(one.agent.is_empty(), "any other", &format!("`{}…`", one.agent));
        [
            row("", &|one| languages(one.library).to_owned()).replace("|  |", "| |"),
            row("---", &|_| "---".to_owned()).replace(' ', ""),
            row("user agent", &agent),
            row("a second condition on the path", &|one| {
                word(one.has_path_header, "the header `:path`", "left out (W27)")
            }),
            row("end of RANGE", &|one| word(one.includes_range_end, "the last number", "the one behind the last")),
            row("a header with any value", &|one| {
                word(one.needs_presence_as_expression, "the expression `.*`", "`present_match`")
            }),
            row("routes to clusters that the client has not", &|one| {
                word(
                    one.needs_two_steps,
                    "in two steps: their names first, the second when it has them, 5 s at most",
                    "at once",
                )
            }),
        ]
        .concat()
    }

    #[test]
    fn the_book_tells_what_differs() {
        let book = include_str!("../../../docs/xds.md");
        let table = table();
        assert!(book.contains(&table), "Differences by language in docs/xds.md has this table:\n{table}");
    }
}
