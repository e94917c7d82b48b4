use expect_test::expect;
use serde_json::json;

use super::*;

fn of(value: serde_json::Value) -> String {
    message(&serde_json::from_value(value).unwrap())
}

#[test]
fn a_turn_with_everything_reads_well() {
    let text = [
        of(json!({"id": 1, "at": 0, "kind": "user", "parts": [
            {"type": "text", "text": "Look:\n\n- *one*"},
            {"type": "file", "name": "a_b.png", "media_type": "image/png", "size": 8}]})),
        of(json!({"id": 2, "at": 1_000, "kind": "reply", "step": 1, "model": "understudy/persona", "runtime_ms": 1,
            "stop": {"why": "interrupted"}, "seams": 1, "parts": [
            {"type": "reasoning", "text": "Hm. ```", "began": 0, "ended": 0},
            {"type": "text", "text": "See <b>this</b>:\n```rust\nfn <main>"},
            {"type": "source", "url": "https://a.example/b", "title": "A [b]"},
            {"type": "call", "id": "1.0", "tool": "shell`s", "input": "{\"a\":1}", "whole": true, "run_by": "us", "at": 0}]})),
        of(json!({"id": 3, "at": 2_000, "kind": "result", "call": "1.0", "tool": "shell", "verdict": "error",
            "output": "````\n\u{1b}[31mred", "ended": 0})),
    ]
    .concat();
    expect![[r#"

        ## You

        *1970-01-01 00:00:00 UTC*

        Look:

        - *one*

        *File a\_b.png, image/png, 8 bytes*

        ## Model

        *1970-01-01 00:00:01 UTC, understudy/persona*

        <details>
        <summary>Reasoning</summary>

        ````
        Hm. ```
        ````

        </details>

        See &lt;b>this&lt;/b>:
        ```rust
        fn <main>
        ```

        Source: A \[b\], <https://a.example/b>

        **Call 1.0** of `shell's`:

        ```json
        {"a":1}
        ```

        *Put together from 2 attempts: the connection to the model broke in between.*

        *Interrupted.*

        **Result 1.0** of `shell`, which failed:

        `````
        ````
        \u{1b}[31mred
        `````
    "#]]
    .assert_eq(&text);
}

/// No text leaves a fence open, begins a tag, or contains a control character.
#[test]
fn no_text_changes_how_the_rest_is_read() {
    let pieces = ["```", "~~~", "````", "`", "<!--", "<details>", "\n", "    ```", "a", "\u{202e}", "\0", "```x`", " "];
    let mut seed = 1_u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..8 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(pieces[(seed >> 33) as usize % pieces.len()]);
        }
        let shown = format!("{}\n\n## Next\n", escape::prose(&text));
        assert!(is_heading_last(&shown), "{text:?} became {shown:?}");
        assert!(!shown.contains(['\0', '\u{202e}']));
        let block = format!("{}\n\n## Next\n", escape::fenced(&text, ""));
        assert!(is_heading_last(&block), "{text:?} became {block:?}");
    }
}

/// Whether a reader that knows fences and comments comes to the heading at the end.
fn is_heading_last(shown: &str) -> bool {
    let mut open: Option<String> = None;
    for line in shown.lines() {
        let bare = line.trim_start_matches(' ');
        let indented = line.len() - bare.len() > 3;
        let sign = bare.chars().next().unwrap_or(' ');
        let run: String = bare.chars().take_while(|other| *other == sign).collect();
        let rest = &bare[run.len()..];
        let is_run = !indented && run.len() >= 3 && matches!(sign, '`' | '~');
        match &open {
            Some(fence) if is_run && run.starts_with(fence.as_str()) && rest.trim().is_empty() => open = None,
            Some(_) => {}
            None if is_run && !(sign == '`' && rest.contains('`')) => open = Some(run),
            None if line.contains("<!--") || line.contains("<details") => return false,
            None => {}
        }
    }
    open.is_none() && shown.ends_with("## Next\n")
}
