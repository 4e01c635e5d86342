//! Pages of the book, as [`thuban_book`] has rendered them. Anybody may read them, as the description of the API.

use askama::Template;
use axum::extract::Path;
use axum::response::{Redirect, Response};
use thuban_book::Page;

use super::assets;
use super::frame::{Frame, Section, failed, page};
use super::session::{SessionUser, Stranger};
use super::texts::{Language, Texts};
use crate::model::code::{Code, Refusal};

/// Path of the page with the contents, in the language of the visitor.
pub(super) const PATH: &str = "/ui/book";

#[derive(Template)]
#[template(path = "book.html")]
struct BookPage {
    frame: Frame,
    page: &'static Page,
    /// Texts in the language of the page.
    words: &'static Texts,
}

/// Page of the book for a reader who has not signed in.
#[derive(Template)]
#[template(path = "book_bare.html")]
struct BareBookPage {
    t: &'static Texts,
    styles: String,
    icon: String,
    page: &'static Page,
    words: &'static Texts,
}

pub(super) async fn contents(Stranger { texts }: Stranger) -> Redirect {
    Redirect::to(&address(thuban_book::contents(texts.tag)))
}

pub(super) async fn show(
    visitor: Result<SessionUser, Response>,
    Stranger { texts }: Stranger,
    Path(name): Path<String>,
) -> Response {
    let Some(found) = thuban_book::page(&name) else {
        let refusal = Refusal::new(Code::NotFoundResource, "the book has no such page");
        return visitor.map_or_else(|_| failed(texts, &refusal), |visitor| visitor.failed(&refusal));
    };
    let words = Language::of_tag(found.language).unwrap_or(Language::English).texts();
    match visitor {
        Ok(visitor) => page(&BookPage { frame: visitor.frame(Section::Book), page: found, words }),
        Err(_) => {
            let (styles, icon) = (assets::path("console", "css"), assets::path("icon", "svg"));
            page(&BareBookPage { t: texts, styles, icon, page: found, words })
        }
    }
}

fn address(name: &str) -> String {
    format!("{PATH}/{name}")
}
