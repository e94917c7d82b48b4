//! Sessions of other programs.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::shown;
use crate::doctor::foreign::{ForeignSession, NotASession, SessionFormat, read};
use crate::ids::{MessageId, Timestamp};
use crate::message::{Body, Part};

fn session(text: &str) -> ForeignSession {
    read(text.as_bytes(), Timestamp(0)).unwrap()
}

/// What is read, and what is not.
fn check(text: &str, expected: Expect) {
    let session = session(text);
    let mut told = format!("{}", session.format);
    session.system.iter().for_each(|system| write!(told, ", told {system:?}").unwrap());
    writeln!(told, "\n{}", shown(&session.messages).trim_end()).unwrap();
    for skipped in &session.skipped {
        writeln!(told, "not read: {} × {} from {} ({:?})", skipped.count, skipped.what, skipped.place, skipped.harm)
            .unwrap();
    }
    expected.assert_eq(&told);
}

fn lines(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn openai_chat_messages() {
    let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{\"q\":1}"}});
    let image = "data:image/png;base64,cG5n";
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": image}}]},
        {"role": "assistant", "content": null, "reasoning_content": "Hm.", "tool_calls": [call("a", "look"), call("b", "find")]},
        {"role": "tool", "tool_call_id": "b", "content": "found"},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "seen"}]},
        {"role": "tool", "tool_call_id": "zz", "content": "stray"},
        {"role": "assistant", "content": "Done.", "function_call": {"name": "old", "arguments": "{}"}},
        {"role": "function", "name": "old", "content": "worked"},
        {"role": "developer", "content": "Hurry."},
        {"role": "critic", "content": "No."},
    ]);
    let expected = expect![[r#"
        OpenAI Chat messages, told "Be brief."
        1 user "Look." file image/png Some(3)
        2 reply 1 [open "Hm."] look({"q":1}) find({"q":1})
        3 result 1.1 find Done "found"
        4 result 1.0 look Done "seen"
        5 result 0.1 unknown_tool Done "stray"
        6 reply 2 "Done." old({})
        7 result 2.0 old Done "worked"
        8 context "Hurry."
        not read: 1 × a message of critic from 10 (Lost)
    "#]];
    check(&messages.to_string(), expected);
    assert_eq!(session(&json!({"messages": messages}).to_string()).format, SessionFormat::OpenAiChat);
    let each: Vec<Value> = messages.as_array().unwrap().clone();
    assert_eq!(session(&lines(&each)).messages.len(), session(&messages.to_string()).messages.len());
}

#[test]
fn openai_responses_items() {
    let items = json!({"model": "gpt-5", "instructions": "Be brief.", "input": [
        {"role": "user", "content": "Look."},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "gAAAA"},
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "kelp"}},
        {"type": "function_call_output", "call_id": "a", "output": "seen"},
        {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "{\"output\":\"no\",\"metadata\":{\"exit_code\":1}}"},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Done.", "annotations": []}]},
        {"type": "item_reference", "id": "x"},
    ]});
    check(
        &items.to_string(),
        expect![[r#"
        OpenAI Responses items, told "Be brief."
        1 user "Look."
        2 reply 1 [sealed "Hm."] look({}) web_search({"query":"kelp","type":"search"}) found by web_search
        3 result 1.0 look Done "seen"
        4 reply 2 patch({"input":"*** Begin"})
        5 result 2.0 patch Error "{\"output\":\"no\",\"metadata\":{\"exit_code\":1}}"
        6 reply 3 "Done."
        not read: 1 × an item `item_reference` from 9 (Lost)
    "#]],
    );
}

#[test]
fn anthropic_messages() {
    let messages = json!({"system": [{"type": "text", "text": "Be brief."}], "messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "abc"},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "kelp"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"title": "T", "url": "u"}]},
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"q": 1}},
            {"type": "mystery"},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": true, "content": [
                {"type": "text", "text": "broken"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"}},
            ]},
            {"type": "text", "text": "And now?"},
            {"type": "document", "title": "a.txt", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
        ]},
    ]});
    check(
        &messages.to_string(),
        expect![[r#"
        Anthropic messages, told "Be brief."
        1 user "Look."
        2 reply 1 [sealed "Hm."] [sealed ""] web_search({"query":"kelp"}) found by web_search "Let me see." look({"q":1})
        3 result 1.1 look Error "broken"
        4 user "And now?" file text/plain Some(5)
        not read: 1 × a block `mystery` from 2 (Lost)
    "#]],
    );
    let bare = &messages["messages"];
    assert_eq!(session(&bare.to_string()).format, SessionFormat::Anthropic);
}

#[test]
fn claude_code_sessions() {
    let entry = |uuid: &str, parent: Value, kind: &str, message: Value| {
        json!({
            "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "isSidechain": false,
            "timestamp": "2026-01-02T03:04:05.678Z", "message": message,
        })
    };
    let said = |block: Value| json!({"id": "msg_1", "role": "assistant", "model": "claude-x", "content": [block]});
    let answered =
        |id: &str| json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "ok"}]});
    let call = |id: &str| said(json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "ls"}}));
    let mut compact = entry("9", json!("8"), "user", json!({"role": "user", "content": "So far: nothing."}));
    compact["isCompactSummary"] = true.into();
    let mut side = entry("s1", json!(null), "user", json!({"role": "user", "content": "You are a sub-agent."}));
    side["isSidechain"] = true.into();
    let mut meta = entry("m", json!(null), "user", json!({"role": "user", "content": "Caveat."}));
    meta["isMeta"] = true.into();
    let file = [
        json!({"type": "file-history-snapshot", "messageId": "0", "snapshot": {}}),
        meta,
        entry("1", json!("m"), "user", json!({"role": "user", "content": "Left behind."})),
        entry(
            "2",
            json!("1"),
            "assistant",
            json!({"id": "msg_0", "role": "assistant", "content": [{"type": "text", "text": "Gone."}]}),
        ),
        entry("1b", json!("m"), "user", json!({"role": "user", "content": "List."})),
        entry("3", json!("1b"), "assistant", said(json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}))),
        entry("4", json!("3"), "assistant", call("toolu_1")),
        entry("5", json!("4"), "user", answered("toolu_1")),
        entry("6", json!("4"), "assistant", call("toolu_2")),
        entry("6", json!("4"), "assistant", call("toolu_2")),
        entry("7", json!("6"), "user", answered("toolu_2")),
        entry("8", json!("7"), "user", answered("toolu_gone")),
        side,
        json!({"type": "system", "subtype": "compact_boundary", "uuid": "c", "content": "Compacted"}),
        compact,
        entry("10", json!("9"), "user", json!({"role": "user", "content": "Go on."})),
    ];
    let text = lines(&file) + "{\"type\":\"assistant\",\"mess";
    check(
        &text,
        expect![[r#"
        a Claude Code session
        1 context "Caveat."
        2 user "List."
        3 reply 1 [sealed "Hm."] Bash({"command":"ls"}) Bash({"command":"ls"})
        4 result 1.0 Bash Done "ok"
        5 result 1.1 Bash Done "ok"
        6 result 0.1 unknown_tool Done "ok"
        7 summary "So far: nothing."
        8 user "Go on."
        not read: 1 × an entry `file-history-snapshot` from 1 (None)
        not read: 2 × a message on a way that was left from 3 (None)
        not read: 1 × an entry that is there already from 10 (None)
        not read: 1 × an entry of a sub-agent from 13 (None)
        not read: 1 × an entry `system` from 14 (None)
    "#]],
    );
    let session = session(&text);
    assert_eq!(session.cut, Some(17), "the file ends in the middle of it");
    assert_eq!(session.messages[1].at, Timestamp(1_767_323_045_678));
    assert_eq!(session.place(MessageId(2)), Some(5));
    let Body::Reply(reply) = &session.messages[2].body else { panic!("a reply") };
    assert_eq!(reply.model.to_string(), "anthropic/claude-x");
}

#[test]
fn codex_sessions() {
    let line =
        |kind: &str, payload: Value| json!({"timestamp": "2026-01-02T03:04:05Z", "type": kind, "payload": payload});
    let says = |role: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]});
    let file = [
        line("session_meta", json!({"id": "x", "cwd": "/", "instructions": "Be brief."})),
        line("response_item", says("developer", "Sandboxed.")),
        line("response_item", says("user", "<environment_context>…</environment_context>")),
        line("turn_context", json!({"model": "gpt-5-codex"})),
        line("response_item", says("user", "List.")),
        line("event_msg", json!({"type": "user_message", "message": "List."})),
        line("response_item", json!({"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"})),
        line(
            "response_item",
            json!({"type": "function_call", "name": "shell", "arguments": "{\"command\":[\"ls\"]}", "call_id": "a"}),
        ),
        line("event_msg", json!({"type": "token_count"})),
        line("response_item", json!({"type": "function_call_output", "call_id": "a", "output": "files"})),
        line(
            "response_item",
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}),
        ),
        line("response_item", says("user", "Forget this.")),
        line("event_msg", json!({"type": "thread_rolled_back", "num_turns": 1})),
        line("compacted", json!({"message": "So far: a list."})),
        line("response_item", says("user", "Go on.")),
        line("world_event", json!({})),
    ];
    check(
        &lines(&file),
        expect![[r#"
        a Codex CLI session, told "Be brief."
        1 context "Sandboxed."
        2 context "<environment_context>…</environment_context>"
        3 user "List."
        4 reply 1 [sealed ""] shell({"command":["ls"]})
        5 result 1.0 shell Done "files"
        6 reply 2 "Done."
        7 summary "So far: a list."
        8 user "Go on."
        not read: 1 × an event `user_message` from 6 (None)
        not read: 1 × an event `token_count` from 9 (None)
        not read: 1 × a message of a turn that was taken back from 13 (None)
        not read: 1 × an entry `world_event` from 16 (Lost)
    "#]],
    );
    let Body::Reply(reply) = &session(&lines(&file)).messages[3].body.clone() else { panic!("a reply") };
    assert_eq!(reply.model.to_string(), "openai/gpt-5-codex");
    assert!(matches!(&reply.parts[0], Part::Reasoning(reasoning) if reasoning.seal.is_some()));
}

#[test]
fn an_unknown_file_is_refused_as_no_session() {
    for (text, why) in [
        ("", NotASession::NotJson),
        ("Hello.", NotASession::NotJson),
        ("{\"name\": \"x\"}", NotASession::Unknown),
        ("[1, 2]", NotASession::Unknown),
        ("7", NotASession::Unknown),
    ] {
        assert_eq!(read(text.as_bytes(), Timestamp(0)), Err(why), "{text}");
    }
}

/// A result finds the nearest call of its id: used again, it is another call.
#[test]
fn ids_may_be_used_again() {
    let call =
        json!({"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "look", "arguments": "{}"}}]});
    let result = |text: &str| json!({"role": "tool", "tool_call_id": "x", "content": text});
    let twice = json!({"role": "assistant", "tool_calls": [call["tool_calls"][0], call["tool_calls"][0]]});
    let file = json!([call, result("one"), call, result("two"), twice, result("three"), result("four")]);
    let session = session(&file.to_string());
    let answered: Vec<String> = session
        .messages
        .iter()
        .filter_map(|message| match &message.body {
            Body::Result(result) => Some(format!("{} {}", result.call, result.output.text)),
            _ => None,
        })
        .collect();
    assert_eq!(answered, ["1.0 one", "2.0 two", "3.0 three", "3.1 four"]);
}

/// Wherever a file is cut, and whatever stands in the place of a value, reading it does not fall over, and what was read
/// can be mended.
#[test]
fn any_damage_is_survived() {
    let call = json!({"type": "tool_use", "id": "x", "name": "look", "input": {"q": [1]}});
    let said = json!({"id": "msg_1", "role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, call]});
    let line = json!({"type": "assistant", "uuid": "1", "parentUuid": null, "sessionId": "s", "message": said});
    let item = json!({"type": "response_item", "payload": {"type": "function_call", "call_id": "a", "name": "n", "arguments": "{}"}});
    let asked = json!([{"id": "a", "function": {"name": "look", "arguments": "{}"}}]);
    let chat =
        json!([{"role": "assistant", "content": null, "tool_calls": asked}, {"role": "tool", "tool_call_id": "a"}]);
    for text in [lines(&[line.clone(), line]), lines(&[item.clone(), item]), chat.to_string()] {
        for cut in 0..text.len() {
            survives(&text.as_bytes()[..cut]);
            for odd in ["null", "7", "[]", "\u{0}", "\""] {
                let mut damaged = text.clone().into_bytes();
                damaged.splice(cut..cut + 1, odd.bytes());
                survives(&damaged);
            }
        }
    }
}

fn survives(bytes: &[u8]) {
    if let Ok(session) = read(bytes, Timestamp(0)) {
        let once = crate::doctor::repair(&session.messages, crate::doctor::TranscriptOrigin::Foreign);
        let twice = crate::doctor::repair(&once.messages, crate::doctor::TranscriptOrigin::Foreign);
        assert_eq!(twice.findings, []);
    }
}
