//! Seed of the randomized tests. It is fixed in the repository, so each run tests the same cases.
//!
//! `scripts/explore` sets `THUBAN_SEED`, a decimal 64-bit number, to test other cases.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use proptest::test_runner::{Config, RngSeed};

/// Seed of the property tests.
const SEED: u64 = 20_261_128;
const VARIABLE: &str = "THUBAN_SEED";

/// Returns the configuration of a property test with this many cases.
pub fn cases(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(explored().unwrap_or(SEED)), ..Config::default() }
}

/// Returns the seed from the environment, if it is set.
fn explored() -> Option<u64> {
    let text = std::env::var(VARIABLE).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{VARIABLE}={text} is no decimal number of 64 bits")))
}

/// Runs a model with `count` seeds, after those that failed before. `failed` is a file in `proptest-regressions` of the
/// repository with one seed per line; a seed that fails during exploration is added to it.
pub fn each_seed(failed: &str, count: u64, mut run: impl FnMut(u64)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proptest-regressions").join(failed);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).for_each(&mut run);
    // Consecutive seeds must lead to unrelated cases.
    let first = explored().unwrap_or_default().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for seed in (0..count).map(|number| first.wrapping_add(number)) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) else { continue };
        if explored().is_some() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
            std::fs::write(&path, format!("{text}{seed}\n")).expect("the seed can be written down");
        }
        eprintln!("seed {seed}");
        resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::test_runner::TestRunner;

    use super::*;

    /// Returns the numbers that a property test with this configuration draws.
    fn drawn(config: Config) -> Vec<u64> {
        let mut runner = TestRunner::new(config);
        let mut draw = || proptest::num::u64::ANY.new_tree(&mut runner).expect("a number").current();
        (0..8).map(|_| draw()).collect()
    }

    #[test]
    fn equal_seeds_draw_equal_cases() {
        assert_eq!(drawn(cases(1)), drawn(cases(2)));
        let other = Config { rng_seed: RngSeed::Fixed(SEED + 1), ..cases(1) };
        assert_ne!(drawn(cases(1)), drawn(other));
    }
}
