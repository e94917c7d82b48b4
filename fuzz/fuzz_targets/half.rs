//! Half of the mutations are ours, half libFuzzer's own.

use everturn_fuzz::dice::Dice;
use everturn_fuzz::mutate::mutated;

/// Changes the first `len` bytes of `data` within `max`, and says how many there are now.
pub fn half(data: &mut [u8], len: usize, max: usize, seed: u32) -> usize {
    let mut dice = Dice::new(u64::from(seed));
    if dice.below(2) == 0 {
        return libfuzzer_sys::fuzzer_mutate(data, len, max);
    }
    let new = mutated(&data[..len], &data[..len], &mut dice);
    let len = new.len().min(max);
    data[..len].copy_from_slice(&new[..len]);
    len
}
