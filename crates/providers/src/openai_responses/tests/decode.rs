//! Recorded streams, and what each says.

use expect_test::{ExpectFile, expect_file};

use super::super::decode::{ResponseRetention, Responses};
use crate::tests::cuts::{self, told};
use crate::tests::snapshot::{draft, shown};

fn check(name: &str, bytes: &[u8], keeps: ResponseRetention, expected: ExpectFile) {
    let decoder = || Responses::new("openai", keeps);
    let whole = told([bytes], decoder());
    draft(&whole.frames);
    expected.assert_eq(&shown(&whole));
    cuts::check(name, bytes, decoder);
}

/// What a recorded stream says stands beside it.
macro_rules! fixtures {
    ($($name:ident: $keeps:ident,)+) => {$(
        #[test]
        fn $name() {
            let bytes = include_bytes!(concat!("../../../fixtures/openai_responses/", stringify!($name), ".sse"));
            let expected = expect_file![concat!("../../../fixtures/openai_responses/", stringify!($name), ".frames")];
            check(stringify!($name), bytes, ResponseRetention::$keeps, expected);
        }
    )+};
}

fixtures! {
    text: Response,
    calls: Nothing,
    search: Nothing,
    refusal: Nothing,
    length_in_call: Nothing,
    filtered: Nothing,
    failed: Nothing,
    error: Nothing,
    background: Generation,
    cancelled: Generation,
    hosted: Nothing,
    parts: Nothing,
    terse: Response,
    only_completed: Response,
    no_item_ends: Nothing,
}
