//! The `thuban` binary: parses the command line and calls the library.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    thuban::cli::run(thuban::cli::parse())
}
