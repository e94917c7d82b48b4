use super::*;
use crate::tests::cuts;

/// A stream means the same in any pieces, and no part of it passes for the whole.
pub(super) fn check(name: &str, text: &str) {
    cuts::check(name, text.as_bytes(), || Messages::new("anthropic"));
}

/// P14: so do streams with other line ends, a byte order mark, comments, and data in several lines.
#[test]
fn line_ends_do_not_matter() {
    let plain = read(fixture("text"));
    let windows = fixture("text").replace('\n', "\r\n");
    let old = fixture("text").replace('\n', "\r");
    let marked = format!("\u{feff}: hello\n{}", fixture("text").replace("event:", ":\nretry: 9\nevent:"));
    let split = fixture("text").replace(",\"index\"", ",\ndata:\"index\"").replace("data: ", "data:");
    for (name, text) in [("windows", windows), ("old", old), ("marked", marked), ("split", split)] {
        assert_eq!(read(&text), plain, "{name}");
        check(name, &text);
    }
}
