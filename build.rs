//! Generates the messages and services of gRPC from the folder `proto`; needs no protocol buffer compiler.

use std::path::{Path, PathBuf};
use std::{env, error, fs, io};

use prost::Message;

const PROTOS: &str = "proto";

fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={PROTOS}");
    let mut files = Vec::new();
    protos_in(Path::new(PROTOS), &mut files)?;
    files.sort();
    let descriptors = protox::compile(&files, [PROTOS])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    config.btree_map(["."]);
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .extern_path(".google.protobuf.Any", "crate::proto::Any")
        // The messages of Polaris are generated in `crates/polaris`.
        .extern_path(".v1", "::thuban_polaris::v1")
        .include_file("proto.rs")
        .compile_fds_with_config(descriptors, config)?;
    Ok(())
}

fn protos_in(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            protos_in(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    Ok(())
}
