//! Drawing by lot, the same lot every time.

use std::future::Future;

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};

const SHRINKS_MAX: u32 = 400;

/// Runs `test` on `lives` lists of numbers, each at most `len_max` long. One that panics is made smaller as long as it
/// still does, and told. Every list runs as a task of its own, so the lists before it cannot matter but by the store.
pub(super) async fn for_each_life<F>(lives: u32, len_max: usize, test: impl Fn(Vec<u64>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let config = Config { rng_seed: RngSeed::Fixed(13), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let fails = async |numbers| tokio::spawn(test(numbers)).await.is_err();
    for _ in 0..lives {
        let mut tree = vec(any::<u64>(), 0..len_max).new_tree(&mut runner).expect("numbers can always be drawn");
        if !fails(tree.current()).await {
            continue;
        }
        let mut smallest = tree.current();
        let mut goes_on = tree.simplify();
        for _ in 0..SHRINKS_MAX {
            if !goes_on {
                break;
            }
            goes_on = if fails(tree.current()).await {
                smallest = tree.current();
                tree.simplify()
            } else {
                tree.complicate()
            };
        }
        panic!("fails for {smallest:?}; the first panic above says how");
    }
}
