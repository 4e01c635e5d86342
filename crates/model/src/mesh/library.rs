//! gRPC libraries of clients without a proxy, and the differences in their reading of xDS.
//!
//! All of them are sent the same form, which they read alike, with the exceptions in [`TRAITS`]. The table "Differences
//! by language" of the documentation has the same exceptions, which a test verifies.

use schemars::JsonSchema;
use serde::Serialize;

/// gRPC library of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Library {
    /// C++, Python, Ruby, PHP; also the default for unknown clients.
    Core,
    Go,
    Java,
    Node,
}

/// Differences of a library from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    pub library: Library,
    /// Prefix of its user agent; empty for the default.
    pub agent: &'static str,
    /// True if it compares the header `:path`; others compare only the path of a route, which is one condition.
    pub has_path_header: bool,
    /// True if it includes the end of a range.
    pub includes_range_end: bool,
    /// True if it treats a header with an empty value as absent in a condition on presence alone.
    pub needs_presence_as_expression: bool,
    /// True if it uses clusters of new routes before it has balancers for them: calls fail unless routes are sent in
    /// two steps.
    pub needs_two_steps: bool,
}

/// Libraries in the order of [`Library::ALL`].
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
    /// Libraries that compare only one condition on the path.
    pub const WITHOUT_PATH_HEADER: [Library; 3] = [Library::Go, Library::Java, Library::Node];

    /// Returns the library for the user agent of a node, with or without its version.
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

    /// Returns the languages of a library, as in the documentation.
    fn languages(library: Library) -> &'static str {
        match library {
            Library::Core => "C++, Python, Ruby, PHP",
            Library::Go => "Go",
            Library::Java => "Java",
            Library::Node => "Node",
        }
    }

    /// Returns the table of the documentation.
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
        let book = include_str!("../../../../docs/xds-languages.md");
        let table = table();
        assert!(book.contains(&table), "Differences by language in docs/xds-languages.md has this table:\n{table}");
    }
}
