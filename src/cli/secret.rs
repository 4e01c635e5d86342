//! Passwords as people give them: a file, standard input, or a question on the terminal that shows nothing.
//! Never an argument, which every process of the machine can read.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use anyhow::Context;

use super::Usage;
use crate::model::access::check_password;

const STANDARD_INPUT: &str = "-";
/// More than any password has.
const BYTES_MAX: u64 = 64 * 1024;

/// A password that exists; `what` is what the terminal is asked for.
pub(super) fn read(file: Option<&Path>, what: &str) -> anyhow::Result<String> {
    match file {
        Some(file) => read_file(file),
        None => ask(what),
    }
}

/// A new one: asked for twice, and judged before it is sent anywhere.
pub(super) fn read_new(file: Option<&Path>) -> anyhow::Result<String> {
    let password = read(file, "New password")?;
    if file.is_none() && ask("Again")? != password {
        return Err(Usage("the two are not the same".to_owned()).into());
    }
    check_password("the password", &password).map_err(|refusal| Usage(refusal.detail))?;
    Ok(password)
}

/// The line end of a file is not part of it. Blocks on the file.
pub(super) fn read_file(file: &Path) -> anyhow::Result<String> {
    let text = match file.to_str() {
        Some(STANDARD_INPUT) => read_all(io::stdin()).context("standard input")?,
        _ => File::open(file).and_then(read_all).with_context(|| file.display().to_string())?,
    };
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn read_all(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(BYTES_MAX).read_to_string(&mut text).map(|_| text)
}

fn ask(what: &str) -> anyhow::Result<String> {
    if !io::stdin().is_terminal() {
        return Err(Usage("there is no terminal to ask for a password: give --password-file".to_owned()).into());
    }
    rpassword::prompt_password(format!("{what}: ")).context("the terminal")
}
