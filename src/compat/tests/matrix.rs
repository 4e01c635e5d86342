//! Read permissions: every route of this surface for every kind of reader. A route without a row fails.
//!
//! The grants of a token are faked by the source; black-box tests use real ones.

use std::{collections::BTreeSet, io::Write};

use super::access_keys::{Keys, NOW, ONE, get, serving, signed};
use super::*;
use crate::model::grant::{Grants, ReadScope, Verb};

/// A route, a call of it, and whether it returns configuration.
const ROWS: [(&str, &str, bool); 8] = [
    ("/configs/{appId}/{cluster}/{*namespace}", "/configs/app/default/application", true),
    ("/configfiles/{appId}/{cluster}/{*namespace}", "/configfiles/app/default/application", true),
    ("/configfiles/json/{appId}/{cluster}/{*namespace}", "/configfiles/json/app/default/application", true),
    ("/configfiles/raw/{appId}/{cluster}/{*namespace}", "/configfiles/raw/app/default/application", true),
    (
        "/notifications/v2",
        "/notifications/v2?appId=app&cluster=default&notifications=[{%22namespaceName%22:%22application%22}]",
        true,
    ),
    ("/services/config", "/services/config", false),
    ("/services/meta", "/services/meta", false),
    ("/health", "/health", false),
];

/// Credentials of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Anonymous,
    /// An empty header.
    Empty,
    WrongToken,
    Token,
    /// A token without read permission for the app.
    BlindToken,
    /// Signed with the key of the app, if it has one.
    Signed,
    WronglySigned,
}

impl Reader {
    const ALL: [Reader; 7] = [
        Reader::Anonymous,
        Reader::Empty,
        Reader::WrongToken,
        Reader::Token,
        Reader::BlindToken,
        Reader::Signed,
        Reader::WronglySigned,
    ];

    fn headers(self, path: &str) -> Vec<(&'static str, String)> {
        let authorization = |value: &str| vec![("authorization", value.to_owned())];
        match self {
            Reader::Anonymous => Vec::new(),
            Reader::Empty => authorization(""),
            Reader::WrongToken => authorization("guess"),
            Reader::Token | Reader::BlindToken => authorization(TOKEN),
            Reader::Signed => signed(ONE[0], "app", path, NOW).into(),
            Reader::WronglySigned => signed("guess", "app", path, NOW).into(),
        }
    }

    fn read_scope(self) -> ReadScope {
        match self {
            Reader::BlindToken => ReadScope::new(&Grants::default(), &[Verb::Discover]),
            _ => ReadScope::Everything,
        }
    }

    /// Reports whether the reader is admitted. A token is accepted or not by itself. Without one, a signature is
    /// required if a key of the app is enforced, and authentication if it is required in general.
    fn is_let_in(self, keys: Keys, auth_required: bool) -> bool {
        match (self, keys) {
            (Reader::Token | Reader::BlindToken, _) => true,
            (Reader::WrongToken, _) => false,
            (Reader::Signed, Keys::Observed(_) | Keys::Enforced(_)) => true,
            (_, Keys::Enforced(_)) => false,
            _ => !auth_required,
        }
    }

    /// Returns the expected status. An invisible file is treated as missing: a pull returns 404, and a poll is held
    /// until its timeout.
    fn status(self, path: &str, is_let_in: bool) -> StatusCode {
        match self {
            _ if !is_let_in => StatusCode::UNAUTHORIZED,
            Reader::BlindToken if path.starts_with("/notifications") => StatusCode::NOT_MODIFIED,
            Reader::BlindToken => StatusCode::NOT_FOUND,
            _ => StatusCode::OK,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_route_answers_every_kind_of_reader_as_it_should() {
    let of_rows: BTreeSet<_> = ROWS.iter().map(|(route, ..)| *route).collect();
    let of_routes: BTreeSet<_> = routes::<Fake>().iter().map(|route| route.path).collect();
    assert_eq!(of_rows, of_routes, "each route has its row, and each row a route");
    let mut cells = 0;
    for keys in [Keys::None, Keys::Observed(ONE), Keys::Enforced(ONE)] {
        for auth_required in [false, true] {
            let served = serving(keys, auth_required);
            for (route, path, is_guarded) in ROWS {
                for reader in Reader::ALL {
                    cells += 1;
                    *served.source.0.read_scope.lock() = reader.read_scope();
                    let got = get(&served, path, &reader.headers(path)).await;
                    let expected = match is_guarded {
                        true => reader.status(path, reader.is_let_in(keys, auth_required)),
                        false => StatusCode::OK,
                    };
                    let title = format!("{route} as {reader:?} with {keys:?}, required: {auth_required}");
                    assert_eq!(got.status, expected, "{title}");
                    let text = String::from_utf8_lossy(&got.body);
                    let tells = text.contains("a=1") || text.contains("\"a\"") || text.contains("releaseKey");
                    assert!(expected == StatusCode::OK || !tells, "{title}: {text}");
                }
            }
        }
    }
    writeln!(std::io::stderr(), "    measured: {cells} cells of the config clients' surface").expect("stderr is open");
}
