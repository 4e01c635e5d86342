//! Generates the messages of Polaris from the folder `proto/polaris`; needs no protocol buffer compiler.

use std::error::Error;
use std::fs;
use std::path::Path;

const PROTOS: &str = "../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(PROTOS).join("polaris");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.sort();
    let descriptors = protox::compile(&files, [PROTOS])?;
    let mut config = prost_build::Config::new();
    config.enable_type_names();
    config.btree_map(["."]);
    // The services are generated where they are served.
    config.compile_fds(descriptors)?;
    Ok(())
}
