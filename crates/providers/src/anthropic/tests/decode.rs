use everturn_core::error::Retry;
use expect_test::{Expect, expect};

use super::*;

fn check(name: &str, expected: Expect) {
    expected.assert_eq(&shown(&read(fixture(name))));
}

/// Words as they come; a ping is no progress.
#[test]
fn text() {
    check(
        "text",
        expect![[r#"
        ResponseId("msg_01XFDUDYJgAACzvnptvVoYEL")
        usage in 25 + 0 + 0, out 1 (?)
        Ping
        Text("Hello")
        Text(" wörld")
        Text(", it's \"9\" o'clock\n")
        Text("— 你好 👋")
        Ended
        usage in ? + ? + ?, out 15 (?)
        reply {"anthropic":{"model":"claude-opus-5-5","stop_reason":"end_turn"}}
        Stop(End)
    "#]],
    );
}

/// Thinking with its signature, thinking withheld, and calls: streamed, without input, and whole at once.
#[test]
fn thinking_and_tools() {
    check(
        "thinking_and_tools",
        expect![[r#"
        ResponseId("msg_01XFDUDYJgAACzvnptvVoYEL")
        usage in 472 + 2048 + 120, out 2 (?)
        Reasoning("")
        part {"anthropic":{}}
        Reasoning("Two cities,")
        Reasoning(" so two calls.\n")
        Sealed(Signature("EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds/n+AwxFm/3k8jDcQo=="))
        Ended
        Sealed(Redacted("EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpP"))
        part {"anthropic":{}}
        Ended
        Text("Let me")
        Text(" look.")
        Ended
        call 3 of get_weather by us: toolu_01T1x1fJ34qAmk2tNTrN7Up6 {"anthropic":{}}
        call 3 + {"loc
        call 3 + ation": "San
        call 3 +  Francisco, CA"
        call 3 + , "unit": "fahrenheit"}
        call 3 ended
        Ping
        call 4 of get_time by us: toolu_01B2 {"anthropic":{"caller":{"type":"direct"}}}
        call 4 ended
        call 5 of note by us: toolu_01C3 {"anthropic":{}}
        call 5 + {"text":"came at once"}
        call 5 ended
        usage in 472 + 2048 + 120, out 89 (31)
        reply {"anthropic":{"model":"claude-opus-5-5","stop_reason":"tool_use"}}
        Stop(ToolUse)
    "#]],
    );
}

/// Thinking may have no text at all, and is kept for its signature.
#[test]
fn thinking_without_text() {
    check(
        "omitted_thinking",
        expect![[r#"
        ResponseId("msg_01XFDUDYJgAACzvnptvVoYEL")
        usage in 25 + 0 + 0, out 1 (?)
        Reasoning("")
        part {"anthropic":{}}
        Sealed(Signature("EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds/n+AwxFm/3k8jDcQo=="))
        Ended
        Text("42.")
        Ended
        usage in ? + ? + ?, out 60 (55)
        reply {"anthropic":{"model":"claude-opus-5-5","stop_reason":"end_turn"}}
        Stop(End)
    "#]],
    );
}

/// A search, what it found, and which words rest on it. A source is told once.
#[test]
fn a_search() {
    check(
        "web_search",
        expect![[r#"
        ResponseId("msg_01XFDUDYJgAACzvnptvVoYEL")
        usage in 2679 + 0 + 0, out 3 (?)
        Text("I'll search for that.")
        Ended
        call 1 of web_search by provider: srvtoolu_014hJH82Qum7Td6UV8gDXThB {"anthropic":{}}
        call 1 + {"query
        call 1 + ":
        call 1 +  "height of the tower"}
        call 1 ended
        result Some(1) of web_search: [{"encrypted_content":"EqgfCioIARgBIiQ3YTAwMjY1","page_age":"April 30, 2026","title":"Tower","type":"web_search_result","url":"https://example.com/tower"},{"encrypted_content":"Ev0DCioIAhgBIiQ5","page_age":null,"title":"Other","type":"web_search_result","url":"https://example.org/other"}] {"anthropic":{"type":"web_search_tool_result"}}
        Text("It is ")
        Ended
        Text("330 metres")
        Text(" tall")
        part {"anthropic":{"citations":[{"cited_text":"The iron tower is 330 metres tall…","encrypted_index":"Eo8BCioIAhgBIiQyYjQ0OWJm","title":"Tower","type":"web_search_result_location","url":"https://example.com/tower"},{"cited_text":"in 1889","document_index":0,"document_title":"notes.txt","end_char_index":7,"file_id":null,"start_char_index":0,"type":"char_location"}]}}
        Ended
        source https://example.com/tower "Tower"
        source  "notes.txt"
        Text(", as of 2026.")
        part {"anthropic":{"citations":[{"cited_text":"The iron tower is 330 metres tall…","encrypted_index":"Eo8BCioIAhgBIiQyYjQ0OWJm","title":"Tower","type":"web_search_result_location","url":"https://example.com/tower"}]}}
        Ended
        usage in 10682 + 0 + 0, out 510 (?)
        reply {"anthropic":{"model":"claude-opus-5-5","stop_reason":"end_turn"}}
        Stop(End)
    "#]],
    );
}

/// A search that failed, a tool of a remote server, and a result without a call.
#[test]
fn other_tools_of_the_provider() {
    check(
        "search_failed",
        expect![[r#"
        ResponseId("msg_01XFDUDYJgAACzvnptvVoYEL")
        usage in 25 + 0 + 0, out 1 (?)
        call 0 of web_search by provider: srvtoolu_01E {"anthropic":{}}
        call 0 + {"query":"x"}
        call 0 ended
        result Some(0) of web_search: {"error_code":"max_uses_exceeded","type":"web_search_tool_result_error"} {"anthropic":{"type":"web_search_tool_result"}}
        call 2 of echo by provider: mcptoolu_01 {"anthropic":{"server_name":"files","type":"mcp_tool_use"}}
        call 2 + {"a":1}
        call 2 ended
        result Some(2) of echo: [{"text":"1","type":"text"}] {"anthropic":{"is_error":false,"type":"mcp_tool_result"}}
        result None of web_fetch: {"type":"web_fetch_result","url":"https://example.com"} {"anthropic":{"type":"web_fetch_tool_result"}}
        Text("No luck.")
        Ended
        usage in ? + ? + ?, out 9 (?)
        reply {"anthropic":{"model":"claude-opus-5-5","stop_reason":"end_turn"}}
        Stop(End)
    "#]],
    );
}

/// P27, P28: every way to stop.
#[test]
fn stops() {
    check(
        "refusal",
        expect![[r#"
        ResponseId("msg_01XFDUDYJgAACzvnptvVoYEL")
        usage in 25 + 0 + 0, out 1 (?)
        Text("I can")
        Ended
        usage in ? + ? + ?, out 4 (?)
        reply {"anthropic":{"model":"claude-opus-5-5","stop_details":{"category":"cyber","explanation":"This request could enable cyber harm.","type":"refusal"},"stop_reason":"refusal"}}
        Stop(Filtered { category: "cyber", detail: "This request could enable cyber harm." })
    "#]],
    );
    check(
        "refusal_bare",
        expect![[r#"
        ResponseId("msg_01XFDUDYJgAACzvnptvVoYEL")
        usage in 25 + 0 + 0, out 1 (?)
        usage in ? + ? + ?, out 0 (?)
        reply {"anthropic":{"model":"claude-opus-5-5","stop_reason":"refusal"}}
        Stop(Filtered { category: "", detail: "" })
    "#]],
    );
    check(
        "max_tokens",
        expect![[r#"
        ResponseId("msg_01XFDUDYJgAACzvnptvVoYEL")
        usage in 25 + 0 + 0, out 1 (?)
        call 0 of write by us: toolu_01A {"anthropic":{}}
        call 0 + {"text": "Once upon
        call 0 ended
        usage in ? + ? + ?, out 16 (?)
        reply {"anthropic":{"model":"claude-opus-5-5","stop_reason":"max_tokens"}}
        Stop(Length)
    "#]],
    );
    check(
        "context_full",
        expect![[r#"
        ResponseId("msg_01XFDUDYJgAACzvnptvVoYEL")
        usage in 25 + 0 + 0, out 1 (?)
        Text("So")
        Ended
        usage in ? + ? + ?, out 2 (?)
        reply {"anthropic":{"model":"claude-opus-5-5","stop_reason":"model_context_window_exceeded"}}
        Stop(Length)
    "#]],
    );
    check(
        "stop_sequence",
        expect![[r#"
        ResponseId("msg_01XFDUDYJgAACzvnptvVoYEL")
        usage in 25 + 0 + 0, out 1 (?)
        Text("1, 2, ")
        Ended
        usage in ? + ? + ?, out 5 (?)
        reply {"anthropic":{"model":"claude-opus-5-5","stop_reason":"stop_sequence","stop_sequence":"3"}}
        Stop(End)
    "#]],
    );
}

/// A pause is not an end, and no failure: the ladder goes on at once from what there is.
#[test]
fn a_pause_is_no_answer() {
    check(
        "pause",
        expect![[r#"
        ResponseId("msg_01XFDUDYJgAACzvnptvVoYEL")
        usage in 25 + 0 + 0, out 1 (?)
        Text("Searching.")
        Ended
        call 1 of web_search by provider: srvtoolu_01F {"anthropic":{}}
        call 1 + {"query":"x"}
        call 1 ended
        usage in ? + ? + ?, out 40 (?)
        reply {"anthropic":{"model":"claude-opus-5-5","stop_reason":"pause_turn"}}
        Truncated (ErrorFinish): the provider paused in the middle of its answer
    "#]],
    );
    let paused = read(fixture("pause"));
    assert_eq!((error(&paused).is_broken_stream(), error(&paused).retry), (true, Retry::Now));
}

/// P17: unknown blocks are kept and fail nothing, and they do not split text.
#[test]
fn unheard_of_things_are_kept() {
    check(
        "unheard_of",
        expect![[r#"
        ResponseId("msg_01XFDUDYJgAACzvnptvVoYEL")
        usage in 25 + 0 + 0, out 1 (?)
        other {"anthropic":{"mood":"fine","type":"model_mood"}}
        other {"anthropic":{"shape":"cube","type":"hologram"}}
        other {"anthropic":{"delta":{"facet":1,"type":"facet_delta"},"index":0,"type":"content_block_delta"}}
        Text("He")
        Text("l")
        Text("lo")
        Ended
        other {"anthropic":{"delta":{"glyph":"l","type":"glyph_delta"},"index":1,"type":"content_block_delta"}}
        other {"anthropic":{"mood":"good","type":"model_mood"}}
        usage in ? + ? + ?, out 3 (?)
        usage in ? + ? + ?, out 7 (?)
        reply {"anthropic":{"context_management":{"applied_edits":[]},"input_transformations":[{"index":1,"type":"thinking_dropped"}],"model":"claude-opus-5-5","stop_reason":"bedtime"}}
        Stop(End)
    "#]],
    );
}

/// An error in the middle keeps what came before it, and its request.
#[test]
fn an_error_in_the_stream() {
    check(
        "overloaded",
        expect![[r#"
        ResponseId("msg_01XFDUDYJgAACzvnptvVoYEL")
        usage in 25 + 0 + 0, out 1 (?)
        Text("Hel")
        Overloaded (ServerError): Overloaded
    "#]],
    );
    let broken = read(fixture("overloaded"));
    assert_eq!(error(&broken).request_id.as_deref(), Some("req_011CT"));
    assert!(error(&broken).is_broken_stream());
}

/// P21: a count that cannot be is unknown.
#[test]
fn absurd_usage_is_unknown() {
    check(
        "absurd_usage",
        expect![[r#"
        ResponseId("msg_01XFDUDYJgAACzvnptvVoYEL")
        usage in ? + ? + ?, out 1 (?)
        Text("Hi")
        Ended
        usage in ? + ? + ?, out 12 (?)
        reply {"anthropic":{"model":"claude-opus-5-5","stop_reason":"end_turn"}}
        Stop(End)
    "#]],
    );
}
