//! All texts of the console, in English and Chinese side by side. Templates refer to texts by field name, so a text
//! cannot be missing in one language.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT_LANGUAGE;

use crate::model::code::Code;
use crate::model::policy::Gate;
use crate::model::release::Action;
use crate::model::rule::Family;

impl Language {
    pub(super) fn tag(self) -> &'static str {
        self.texts().tag
    }

    pub(super) fn of_tag(tag: &str) -> Option<Language> {
        [Language::English, Language::Chinese].into_iter().find(|language| language.tag() == tag)
    }

    /// Returns the browser's preferred language among those available.
    pub(super) fn accepted(headers: &HeaderMap) -> Language {
        let wanted = headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let of = |tag: &str| match tag.trim().split(['-', ';']).next()? {
            "en" => Some(Language::English),
            "zh" => Some(Language::Chinese),
            _ => None,
        };
        wanted.split(',').find_map(of).unwrap_or(Language::English)
    }

    pub(super) fn texts(self) -> &'static Texts {
        match self {
            Language::English => &ENGLISH,
            Language::Chinese => &CHINESE,
        }
    }
}

/// Declares a set of texts with its two languages; other sets are parts of it.
macro_rules! texts {
    (
        $(#[$meta:meta])*
        $set:ident { $( $name:ident: $english:literal, $chinese:literal; )+ }
        $( parts { $( $part:ident: $module:ident :: $kind:ident; )+ } )?
    ) => {
        $(#[$meta])*
        pub(in crate::console) struct $set {
            $( pub(in crate::console) $name: &'static str, )+
            $( $( pub(in crate::console) $part: super::$module::$kind, )+ )?
        }

        pub(super) const ENGLISH: $set = $set {
            $( $name: $english, )+
            $( $( $part: super::$module::ENGLISH, )+ )?
        };
        pub(super) const CHINESE: $set = $set {
            $( $name: $chinese, )+
            $( $( $part: super::$module::CHINESE, )+ )?
        };

        #[cfg(test)]
        pub(super) const ALL: &[(&str, &str, &str)] = &[ $( (stringify!($name), $english, $chinese), )+ ];
    };
}

mod common;
mod explain;
mod form;
mod help;
mod home;
mod object;
mod request;
mod result;
mod sso;

pub(super) use crate::sentences::Language;
pub(super) use common::Texts;

impl Texts {
    pub(super) fn language(&self) -> Language {
        Language::of_tag(self.tag).unwrap_or(Language::English)
    }
}

static ENGLISH: Texts = common::ENGLISH;
static CHINESE: Texts = common::CHINESE;

/// Returns the text for the role of a member.
pub(super) fn role(t: &Texts, word: &str) -> &'static str {
    match word {
        "follower" => t.follower,
        "learner" => t.learner,
        _ => t.leader,
    }
}

/// Returns the text for an act that a policy gates.
pub(super) fn act(t: &Texts, gate: Gate) -> &'static str {
    match gate {
        Gate::Publish => t.home.act_release,
        Gate::Gray => t.home.act_gray,
        Gate::Promote => t.home.act_promote,
        Gate::Rollback => t.home.act_roll_back,
        Gate::Withdraw => t.home.act_withdraw,
        Gate::Stop => t.home.act_stop,
        Gate::Delete => t.home.act_delete,
    }
}

/// Returns the text for a change that was made.
pub(super) fn done(t: &Texts, action: Action) -> &'static str {
    match action {
        Action::Publish => t.home.did_release,
        Action::Gray => t.home.did_gray,
        Action::Promote => t.home.did_promote,
        Action::Rollback => t.home.did_roll_back,
        Action::Stop | Action::RolloutStopped => t.home.did_stop,
        Action::Withdraw => t.home.did_withdraw,
        Action::Schedule => t.home.did_schedule,
        Action::Failed => t.home.did_fail,
        Action::Delete => t.home.did_delete,
        Action::RolloutStep => t.home.did_step,
        Action::RolloutPaused => t.home.did_pause,
        Action::RolloutResumed => t.home.did_resume,
    }
}

/// Returns the text for the result of a change, by its code.
pub(super) fn result(t: &Texts, code: u32) -> &'static str {
    let result = &t.results;
    match Code::of_number(code) {
        Some(Code::ExecuteSuccess) => result.done,
        Some(Code::NoNeedUpdate | Code::DataNoChange) => result.same,
        Some(Code::RequestAccepted) => result.waits,
        Some(Code::ApprovalRequired) => result.needs,
        Some(Code::Frozen) => result.frozen,
        Some(Code::DataConflict) => result.conflict,
        Some(Code::NotAllowedAccess | Code::EmptyAuthToken | Code::TokenNotExisted | Code::OperationRoleForbidden) => {
            result.not_permitted
        }
        Some(
            Code::NotFoundResource
            | Code::NotFoundService
            | Code::NotFoundInstance
            | Code::NotFoundServiceAlias
            | Code::NotFoundResourceConfigFile
            | Code::UnknownRoute,
        ) => result.missing,
        Some(Code::ExistedResource) => result.there_already,
        Some(
            Code::NamespaceExistedServices
            | Code::ServiceExistedInstances
            | Code::ServiceExistedAlias
            | Code::NamespaceExistedConfigGroups
            | Code::NamespaceExistedGovernanceRules,
        ) => result.in_use,
        _ => match code / 1000 {
            400 | 405 | 413 => result.invalid,
            429 => result.too_many,
            504 => result.unknown,
            507 => result.no_room,
            _ => result.failed,
        },
    }
}

/// Returns the text for a day of the week by its word in the API.
pub(super) fn weekday(t: &Texts, word: &str) -> Option<&'static str> {
    let help = &t.help;
    let days = [help.monday, help.tuesday, help.wednesday, help.thursday, help.friday, help.saturday, help.sunday];
    let at = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"].iter().position(|day| *day == word)?;
    Some(days[at])
}

/// Returns the display name of a family.
pub(super) fn family(t: &Texts, family: Family) -> &'static str {
    match t.language() {
        Language::Chinese => family.title_in_chinese(),
        Language::English => family.title(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_gets_the_language_that_it_asks_for_first() {
        let of = |wanted: &str| {
            let headers = HeaderMap::from_iter([(ACCEPT_LANGUAGE, wanted.parse().expect("a value"))]);
            Language::accepted(&headers)
        };
        assert_eq!(of("zh-CN,zh;q=0.9,en;q=0.8"), Language::Chinese);
        assert_eq!(of("de,en;q=0.7,zh;q=0.3"), Language::English);
        assert_eq!(of("fr"), Language::English);
    }

    #[test]
    fn results_are_words() {
        let rows = [
            (200_000, "done"),
            (202_000, "waits for approval"),
            (401_001, "not permitted"),
            (400_120, "invalid"),
            (400_202, "not there"),
            (409_002, "frozen"),
            (504_001, "outcome unknown"),
            (507_001, "no room"),
            (500_000, "failed"),
        ];
        for (code, word) in rows {
            assert_eq!(result(Language::English.texts(), code), word, "{code}");
        }
    }

    #[test]
    fn nothing_is_said_twice_under_one_name_and_nothing_is_empty() {
        let sets = [
            common::ALL,
            explain::ALL,
            form::ALL,
            help::ALL,
            home::ALL,
            object::ALL,
            request::ALL,
            result::ALL,
            sso::ALL,
        ];
        for (name, english, chinese) in sets.concat() {
            assert!(!english.is_empty() && !chinese.is_empty(), "{name}");
            let is_han = |letter: char| ('\u{4e00}'..='\u{9fff}').contains(&letter);
            let letters: Vec<_> = chinese.chars().collect();
            let foreign = letters.windows(2).find(|pair| is_han(pair[0]) && ",:;?!(".contains(pair[1]));
            assert_eq!(foreign, None, "{name}: behind Chinese stand Chinese marks");
        }
        assert_eq!(Language::of_tag("zh"), Some(Language::Chinese));
        assert_eq!(Language::of_tag("xx"), None);
    }
}
