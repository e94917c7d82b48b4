#![no_main]

mod half;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| everturn_fuzz::gemini(bytes));
libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], len: usize, max: usize, seed: u32| {
    half::half(data, len, max, seed)
});
