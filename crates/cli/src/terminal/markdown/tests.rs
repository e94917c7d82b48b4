use super::super::style::Colours;
use super::*;

const WIDTH: usize = 40;

const SOURCE: &str = "# A heading\n\nSome **bold**, *leaning* and `coded` words that are longer than a window.\n\n\n- one\n  - two, which goes on and on until it is broken\n1986. A year\n> said _somebody_\n\n```rust\nfn main() { // says \"hello\"\n    let a = \"b\"; /* long\n  comment */ 7\n}\n```\n| name | what |\n|---|---|\n| kelp | a **plant** |\n\n[a link](https://example.com/path) and <https://example.com>\n---\nend";

fn words(lines: &[Line]) -> Vec<String> {
    lines.iter().map(|line| line.paint(Colours::Off).trim_end().to_owned()).collect()
}

fn whole(source: &str, width: usize) -> Vec<Line> {
    let mut markdown = Markdown::new(width);
    let mut made = markdown.push(source);
    made.extend(markdown.end());
    made
}

#[test]
fn a_page_looks_like_this() {
    expect_test::expect![[r#"
        A heading

        Some bold, leaning and coded words that
        are longer than a window.

        • one
          • two, which goes on and on until it
            is broken
        1986. A year
        │ said somebody

          rust
          fn main() { // says "hello"
              let a = "b"; /* long
            comment */ 7
          }
        name │ what
        ─────┼────────
        kelp │ a plant

        a link (https://example.com/path) and
        https://example.com
        ────────────────────────────────────────
        end"#]]
    .assert_eq(&words(&whole(SOURCE, WIDTH)).join("\n"));
}

#[test]
fn lines_do_not_depend_on_where_the_text_was_cut() {
    let expected = whole(SOURCE, WIDTH);
    for cut in (1..SOURCE.len()).filter(|cut| SOURCE.is_char_boundary(*cut)) {
        let mut markdown = Markdown::new(WIDTH);
        let mut made = markdown.push(&SOURCE[..cut]);
        let _ = markdown.open(); // Must not change the state.
        made.extend(markdown.push(&SOURCE[cut..]));
        made.extend(markdown.end());
        assert_eq!(made, expected, "cut at byte {cut}");
    }
}

#[test]
fn no_line_is_wider_than_the_window_and_control_characters_are_shown() {
    let hostile = format!("{SOURCE}\n\x1b[2J &#27;[31m \u{202e}abc `\x1b]0;title\x07`\n```\n\x1b[1A\n```\n");
    for width in [1, 5, 12, 30, 80] {
        for line in whole(&hostile, width) {
            // A letter of two columns needs a width of 2.
            assert!(line.width() <= width.max(2), "{} at {width}", line.paint(Colours::Off));
            assert!(!line.paint(Colours::Off).contains(|c: char| c.is_control() || c == '\u{202e}'));
        }
    }
}

#[test]
fn only_the_growing_line_is_rendered_again() {
    let mut markdown = Markdown::new(WIDTH);
    for _ in 0..1_000 {
        assert_eq!(markdown.push("a line\n").len(), 1);
        assert!(markdown.open().is_empty());
    }
    assert!(markdown.push("and *mo").is_empty());
    assert_eq!(words(&markdown.open()), ["and *mo"]);
    assert!(markdown.push("re*").is_empty());
    assert_eq!(words(&markdown.open()), ["and more"]);
}

#[test]
fn looks_follow_the_source() {
    let line = &whole("a **b** `c` ~~d~~", WIDTH)[0];
    let looks: Vec<(&str, Look)> = line.0.iter().map(|span| (span.text(), span.look)).collect();
    let struck = Look { struck: true, ..Look::PLAIN };
    assert!(looks.contains(&("b", Look::BOLD)));
    assert!(looks.contains(&("c", Look::ink(Ink::Yellow))));
    assert!(looks.contains(&("d", struck)));
    let code = whole("```py\n# note\nx = 'y' if z else f(1)\n```", WIDTH);
    let looks: Vec<(&str, Look)> = code.iter().flat_map(|line| &line.0).map(|span| (span.text(), span.look)).collect();
    for (text, ink) in
        [("# note", Ink::Grey), ("'y'", Ink::Green), ("if", Ink::Magenta), ("f", Ink::Blue), ("1", Ink::Yellow)]
    {
        assert!(looks.contains(&(text, Look::ink(ink))), "{text}: {looks:?}");
    }
}

/// Deeply nested quotations do not overflow the stack.
#[test]
fn quotations_have_a_depth() {
    assert_eq!(words(&whole("> a\n> > b\n>> - c", WIDTH)), ["│ a", "│ │ b", "│ │ • c"]);
    for (sign, times) in [(">", 1 << 20), ("> ", 1 << 16)] {
        let shown = words(&whole(&format!("{}end", sign.repeat(times)), WIDTH)).concat();
        assert!(shown.starts_with("│ ".repeat(QUOTES_MAX).trim_end()) && shown.ends_with("end"));
        assert_eq!(shown.matches('>').count(), times - QUOTES_MAX);
    }
}
