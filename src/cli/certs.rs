//! `thuban certs`: certificates for clusters without a certificate authority.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use thuban_ctl::telling::say;

use crate::tls::Authority;

#[derive(Args)]
pub(super) struct CertsArgs {
    /// Directory of ca.pem and ca-key.pem, which the first run creates; the holder of the key can pretend to be any
    /// node
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,

    /// Validity of the certificates in days
    #[arg(long, default_value_t = 825, value_parser = clap::value_parser!(u16).range(1..))]
    days: u16,

    /// FILE=NAME,…: creates FILE.pem and FILE-key.pem for these names and addresses, unless they exist; for a node with
    /// --tls-client-ca the first name is the user
    #[arg(value_name = "FILE=NAME,NAME", required = true)]
    certs: Vec<String>,
}

pub(super) fn run(args: &CertsArgs) -> anyhow::Result<()> {
    let authority = Authority::open(&args.dir)?;
    for cert in &args.certs {
        let (file, names) = parse(cert)?;
        let made = authority.issue(file, &names, args.days).with_context(|| format!("certificate {file}"))?;
        let path = args.dir.join(format!("{file}.pem"));
        say(&format!("{}: {}", path.display(), if made { "made" } else { "exists, left as it is" }));
    }
    Ok(())
}

fn parse(text: &str) -> anyhow::Result<(&str, Vec<String>)> {
    let (file, names) = text.split_once('=').with_context(|| format!("{text:?} is not FILE=NAME,NAME"))?;
    let names: Vec<String> = names.split(',').map(|name| name.trim().to_owned()).collect();
    if file.is_empty() || file.contains('/') || file == "ca" || names.iter().any(String::is_empty) {
        bail!("{text:?} is not FILE=NAME,NAME, with a file that is neither a path nor ca");
    }
    Ok((file, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_named_by_file_and_names() {
        let (file, names) = parse("node=n1, localhost,::1").expect("right");
        assert_eq!((file, names.join(" ").as_str()), ("node", "n1 localhost ::1"));
        for bad in ["node", "=n1", "node=", "a/b=n1", "ca=n1", "node=a,,b"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
    #[test]
    fn a_directory_that_is_not_there_is_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("new/pki");
        let args = CertsArgs { dir: dir.clone(), days: 1, certs: vec!["node=localhost".to_owned()] };
        run(&args).expect("made");
        for file in ["ca.pem", "ca-key.pem", "node.pem", "node-key.pem"] {
            assert!(dir.join(file).exists(), "{file}");
        }
    }
}
