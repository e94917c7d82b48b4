//! Sessions of other agents' tools, and pieces of ids, given to the doctor.

use serde_json::{Value, json};

use crate::daemon::{Scratch, everturn};

async fn ran(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = everturn(arguments).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// An entry of Claude Code after the previous one.
fn asked(number: u32, content: Value) -> Value {
    entry(number, "user", json!({"role": "user", "content": content}))
}

/// A piece of an answer.
fn answered(number: u32, content: Value) -> Value {
    entry(number, "assistant", json!({"id": "msg_1", "role": "assistant", "model": "claude-x", "content": content}))
}

fn entry(number: u32, kind: &str, message: Value) -> Value {
    let parent = (number > 1).then(|| (number - 1).to_string());
    json!({"type": kind, "uuid": number.to_string(), "parentUuid": parent, "sessionId": "s", "isSidechain": false,
        "timestamp": "2026-01-02T03:04:05.678Z", "message": message})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "ls"}})
}

/// A session of Claude Code in which a call has no result.
fn claude_code() -> Vec<Value> {
    vec![asked(1, json!("List the kelp.")), answered(2, json!([call("toolu_1")])), asked(3, json!("Well?"))]
}

/// An entry of the Codex CLI.
fn codex() -> Vec<Value> {
    let line =
        |kind: &str, payload: Value| json!({"timestamp": "2026-01-02T03:04:05Z", "type": kind, "payload": payload});
    let says =
        |text: &str| json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]});
    let call = json!({"type": "function_call", "name": "shell", "arguments": "{\"command\":[\"ls\"]}", "call_id": "a"});
    vec![
        line("session_meta", json!({"id": "x", "cwd": "/", "instructions": "Be brief."})),
        line("response_item", says("List the kelp.")),
        line("response_item", call),
        line("response_item", says("Well?")),
    ]
}

/// A session of either is explained, becomes a chat in which nothing is wrong, and can be gone on with; and
/// the doctor and the replay know that chat by six letters.
#[tokio::test]
async fn sessions_of_other_tools_become_chats() {
    for (session, format) in [(claude_code(), "Claude Code"), (codex(), "Codex CLI")] {
        let scratch = Scratch::new();
        std::fs::create_dir_all(scratch.path()).unwrap();
        let (file, data) = (scratch.path().join("session.jsonl"), scratch.path().join("data"));
        let lines: Vec<String> = session.iter().map(Value::to_string).collect();
        std::fs::write(&file, lines.join("\n")).unwrap();
        let (file, data) = (file.to_str().unwrap(), data.to_str().unwrap());
        let (code, told, error) = ran(&["doctor", file]).await;
        assert_eq!(code, Some(1), "{told}{error}");
        assert!(told.contains(format) && told.contains("1 flaw"), "{told}");
        let (code, told, error) = ran(&["doctor", file, "--fix", "--data", data, "--agent", "defualt"]).await;
        assert_eq!(code, Some(2), "{told}{error}");
        assert!(error.contains("no agent `defualt` is configured; configured are default"), "{error}");
        let (code, told, error) = ran(&["doctor", file, "--fix", "--data", data]).await;
        assert_eq!(code, Some(0), "{told}{error}");
        let chat = told.trim().rsplit(' ').next().unwrap().to_owned();
        let short = &chat[chat.len() - 6..];
        let (code, told, error) = ran(&["doctor", short, "--data", data]).await;
        assert_eq!(code, Some(0), "{told}{error}");
        assert!(told.contains("the transcript has no flaws"), "{told}");
        let (code, told, error) = ran(&["replay", short, "--data", data]).await;
        assert_eq!(code, Some(0), "{told}{error}");
        assert!(told.contains("> List the kelp.") && told.contains("> Well?"), "{told}");
        let more = ["run", "--resume", short, "--data", data, "--model", "understudy/numbered", "count to 3"];
        let (code, told, error) = ran(&more).await;
        assert_eq!((code, told.as_str()), (Some(0), "t1 t2 t3\n"), "{error}");
        let (code, _, error) = ran(&["doctor", "zzzzzz", "--data", data]).await;
        assert_eq!(code, Some(1));
        assert!(error.contains("no chat's id begins or ends with zzzzzz"), "{error}");
    }
}

/// What was asked wrongly ends with 2, and a file that is there stays.
#[tokio::test]
async fn wrong_usage_is_told_apart() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path()).unwrap();
    let file = scratch.path().join("messages.json");
    std::fs::write(&file, json!([{"role": "user", "content": "Hi."}]).to_string()).unwrap();
    let (file, there) = (file.to_str().unwrap(), scratch.path().join("there"));
    std::fs::write(&there, "mine").unwrap();
    for (arguments, code) in [
        (vec!["doctor", "--fix", "--out", "x"], 2),
        (vec!["doctor", "9n2x4c", "--fix", "--out", "x"], 2),
        (vec!["doctor", "no-such-file.json"], 2),
        (vec!["doctor", file, "--fix", "--out", there.to_str().unwrap()], 1),
    ] {
        let (found, told, error) = ran(&arguments).await;
        assert_eq!(found, Some(code), "{arguments:?}: {told}{error}");
    }
    assert_eq!(std::fs::read_to_string(there).unwrap(), "mine");
}

/// Runs the doctor on these lines and gives what it wrote, with what it said.
async fn mended(scratch: &Scratch, name: &str, text: &str) -> (String, String) {
    std::fs::create_dir_all(scratch.path()).unwrap();
    let (file, to) = (scratch.path().join(name), scratch.path().join(format!("mended-{name}")));
    std::fs::write(&file, text).unwrap();
    let (code, told, error) = ran(&["doctor", file.to_str().unwrap(), "--fix", "--out", to.to_str().unwrap()]).await;
    assert_eq!(code, Some(0), "{told}{error}");
    let written = std::fs::read_to_string(&to).unwrap();
    let (code, again, error) = ran(&["doctor", to.to_str().unwrap()]).await;
    assert_eq!(code, Some(0), "{again}{error}\n{written}");
    assert!(again.contains("it has no flaws"), "{again}\n{written}");
    (written, told)
}

fn as_lines(session: &[Value]) -> String {
    session.iter().map(|line| format!("{line}\n")).collect()
}

/// A session of either is mended in its own lines: a result that was missing is a line more behind its call,
/// what was healthy is there to the byte, and mending it again changes nothing.
#[tokio::test]
async fn sessions_of_other_tools_are_mended_in_their_own_format() {
    let scratch = Scratch::new();
    for (name, session, call) in [("claude.jsonl", claude_code(), "toolu_1"), ("codex.jsonl", codex(), "a")] {
        let text = as_lines(&session);
        let (written, told) = mended(&scratch, name, &text).await;
        assert!(!told.contains("as messages"), "{told}");
        let (old, new): (Vec<&str>, Vec<&str>) = (text.lines().collect(), written.lines().collect());
        assert_eq!(new.len(), old.len() + 1, "{written}");
        let at = old.len() - 1; // The last line is what was said when the result was missing.
        assert_eq!(new[..at], old[..at]);
        assert!(new[at].contains(call) && new[at].contains("not known"), "{}", new[at]);
        match name {
            "codex.jsonl" => assert_eq!(new[at + 1], old[at]),
            _ => {
                let [made, last]: [Value; 2] = [at, at + 1].map(|at| serde_json::from_str(new[at]).unwrap());
                assert_eq!((&made["parentUuid"], &made["sessionId"]), (&json!("2"), &json!("s")));
                assert_eq!(new[at + 1].replace(made["uuid"].as_str().unwrap(), "2"), old[at], "but for its parent");
                assert_eq!(last["parentUuid"], made["uuid"]);
            }
        }
        assert_eq!(mended(&scratch, &format!("again-{name}"), &written).await.0, written, "twice changes nothing");
    }
}

/// An answer of Claude Code comes in several lines. A result that was missing comes behind the last of them,
/// also where results of others stand between.
#[tokio::test]
async fn results_come_behind_all_lines_of_an_answer() {
    let result = json!([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "kelp.txt"}]);
    let calls = |number, id| answered(number, json!([call(id)]));
    let (first, then) = (asked(1, json!("List the kelp.")), |number| asked(number, json!("Well?")));
    let apart = vec![first.clone(), calls(2, "toolu_1"), asked(3, result), calls(4, "toolu_2"), then(5)];
    let together = vec![first, calls(2, "toolu_1"), calls(3, "toolu_2"), then(4)];
    let scratch = Scratch::new();
    for (name, session, missing) in
        [("together.jsonl", together, vec!["toolu_1", "toolu_2"]), ("apart.jsonl", apart, vec!["toolu_2"])]
    {
        let text = as_lines(&session);
        let (written, told) = mended(&scratch, name, &text).await;
        assert!(!told.contains("as messages"), "{told}");
        let (old, new): (Vec<&str>, Vec<&str>) = (text.lines().collect(), written.lines().collect());
        let at = old.len() - 1;
        assert_eq!(new[..at], old[..at], "{name}");
        let made = &new[at..new.len() - 1];
        assert_eq!(made.len(), missing.len(), "{written}");
        assert!(made.iter().zip(missing).all(|(line, id)| line.contains(id)), "{written}");
    }
}

/// Results are moved behind their calls, copies go, and what answers no call becomes a note, each as lines of
/// the file.
#[tokio::test]
async fn lines_are_moved_taken_out_and_made() {
    let line =
        |payload: Value| json!({"timestamp": "2026-01-02T03:04:05Z", "type": "response_item", "payload": payload});
    let says = |role: &str, kind: &str, text: &str| {
        line(json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]}))
    };
    let call = line(json!({"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "a"}));
    let result = |id: &str| line(json!({"type": "function_call_output", "call_id": id, "output": format!("of {id}")}));
    let event = json!({"timestamp": "2026-01-02T03:04:05Z", "type": "event_msg", "payload": {"type": "token_count"}});
    let (first, then) = (says("user", "input_text", "List."), says("user", "input_text", "Well?"));
    let done = says("assistant", "output_text", "Done.");
    let scratch = Scratch::new();
    let shown = |lines: &[&Value]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();

    let text = shown(&[&first, &call, &event, &then, &result("a"), &done]);
    let (written, _) = mended(&scratch, "moved.jsonl", &text).await;
    assert_eq!(written, shown(&[&first, &call, &result("a"), &event, &then, &done]));

    let text = shown(&[&first, &call, &result("a"), &event, &result("a"), &done]);
    let (written, _) = mended(&scratch, "copied.jsonl", &text).await;
    assert_eq!(written, shown(&[&first, &call, &result("a"), &event, &done]));

    let text = shown(&[&first, &result("z"), &event, &done]);
    let (written, told) = mended(&scratch, "orphan.jsonl", &text).await;
    let lines: Vec<&str> = written.lines().collect();
    assert!(!told.contains("as messages") && lines.len() == 4 && lines[1].contains("of z"), "{told}{written}");
    assert_eq!([lines[0], lines[2], lines[3]], [first, event, done].map(|line| line.to_string()));
}

/// Where something inside an entry has to be changed, the session is written as messages, and that is said.
#[tokio::test]
async fn what_its_format_cannot_say_is_written_as_messages() {
    let mut session = codex();
    session[2]["payload"]["arguments"] = json!("{\"command\": \"ls");
    let (written, told) = mended(&Scratch::new(), "codex.jsonl", &as_lines(&session)).await;
    assert!(told.contains("as messages"), "{told}");
    assert!(serde_json::from_str::<Value>(&written).unwrap()["input"].is_array(), "{written}");

    let mut session = claude_code();
    session.insert(1, answered(9, json!([{"type": "thinking", "thinking": "Hm.", "signature": ""}])));
    let (written, told) = mended(&Scratch::new(), "claude.jsonl", &as_lines(&session)).await;
    assert!(told.contains("as messages") && !written.contains("Hm."), "a thought without a seal: {told}{written}");
}
