//! Random walks of the time: steps of every size, confirmations, settings and late entries, in any order.

use proptest::prelude::*;

use super::time::tick;
use super::*;
use crate::catalog::time::{STEP_MAX_MS, TimeChange};

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

#[derive(Clone, Debug)]
enum Move {
    /// Entry stamped this many milliseconds after the newest stamp; negative for before.
    Entry(i64),
    Agree,
    Confirm,
    Set(i64),
    /// Entry of the previous epoch.
    Stale(i64),
}

fn some_move() -> impl Strategy<Value = Move> {
    let step = || {
        prop_oneof![
            4 => 0..120_000_i64,
            1 => -600_000..0_i64,
            2 => (STEP_MAX_MS as i64 - 5)..(STEP_MAX_MS as i64 + 5),
            2 => (2 * HOUR as i64)..(500 * DAY as i64),
        ]
    };
    prop_oneof![
        6 => step().prop_map(Move::Entry),
        1 => Just(Move::Agree),
        1 => Just(Move::Confirm),
        1 => (-(200 * DAY as i64)..(200 * DAY as i64)).prop_map(Move::Set),
        2 => step().prop_map(Move::Stale),
    ]
}

proptest! {
    #![proptest_config(crate::test_seed::cases(128))]

    #[test]
    fn the_sure_time_is_never_ahead_of_what_was_confirmed(moves in prop::collection::vec(some_move(), 1..40)) {
        let mut bench = Bench::trusting();
        // Far enough from the start that nothing is set to before 1970.
        let start = bench.now() + 1000 * DAY;
        bench.apply_at(start, 0, tick());
        let doubt = bench.doubt().expect("a doubt").index;
        bench.apply_at(start, 0, Command::Time(TimeChange::Agree { doubt }));
        let mut other = bench.clone();
        for one in moves {
            let (now, sure, epoch) = (bench.now(), bench.sure(), bench.catalog.time.epoch());
            let doubt = bench.doubt().map_or(0, |doubt| doubt.index);
            let (time, stamped, command) = match &one {
                Move::Entry(step) => (now.saturating_add_signed(*step), epoch, tick()),
                Move::Stale(step) => (now.saturating_add_signed(*step), epoch.wrapping_sub(1), tick()),
                Move::Agree => (now, epoch, Command::Time(TimeChange::Agree { doubt })),
                Move::Confirm => (now, epoch, Command::Time(TimeChange::Confirm { doubt })),
                Move::Set(by) => (now, epoch, Command::Time(TimeChange::Set { shift_ms: *by, epoch })),
            };
            bench.apply_at(time, stamped, command.clone());
            // Another node, loaded from its rows each time.
            other.catalog = other.reloaded();
            other.apply_at(time, stamped, command);
            prop_assert_eq!(&other, &bench);
            prop_assert!(bench.sure() <= bench.now());
            match one {
                Move::Entry(step) => {
                    let step = u64::try_from(step).unwrap_or(0);
                    let passed = if step > STEP_MAX_MS { 0 } else { step };
                    prop_assert_eq!(bench.now(), now + step);
                    prop_assert_eq!(bench.sure(), sure + passed);
                }
                Move::Stale(_) => prop_assert_eq!((bench.now(), bench.sure()), (now, sure)),
                Move::Agree | Move::Confirm => prop_assert_eq!((bench.now(), bench.sure()), (now, now)),
                Move::Set(by) => {
                    let set = now.saturating_add_signed(by);
                    prop_assert_eq!((bench.now(), bench.sure(), bench.doubt()), (set, set, None));
                }
            }
        }
    }
}
