//! Whole outputs of earlier calls, in whole turns.

use std::path::Path;
use std::sync::Arc;

use everturn::core::ids::ChatId;
use everturn::core::message::Stop;
use everturn::stores::Sqlite;
use everturn::stores::sqlite::SqliteOptions;
use everturn::{Agent, ChatHandle, Engine, ToolContext, ToolOutput, tool};
use everturn_tools::Recall;
use everturn_understudy::{Cue, Understudy, call, script, stop, text};
use serde_json::{Value, json};

/// Bytes of the output: as many as an engine keeps.
const BYTES: usize = 10 << 20;
/// Bytes of its first line.
const FIRST_LINE: usize = 4 << 20;

/// One very long line, then numbered ones; each place looks different.
fn flood() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..FIRST_LINE / 8).flat_map(|word| format!("{word:07x} ").into_bytes()).collect();
    bytes.push(b'\n');
    let lines = (2..).flat_map(|line| format!("line {line}\n").into_bytes());
    bytes.extend(lines.take(BYTES - bytes.len()));
    bytes
}

/// An engine on the chats of a directory, as after a restart, with a model that plays these calls and then ends.
fn engine(directory: &Path, steps: impl IntoIterator<Item = Cue>) -> (Engine, Understudy) {
    let steps = steps.into_iter().map(|cue| script([cue, stop(Stop::ToolUse)]));
    let model = Understudy::new(steps.chain([script([text("Done."), stop(Stop::End)])]));
    let flood = tool("flood", "Prints a lot.", |_: ToolContext, _: Value| async {
        Ok(ToolOutput { bytes: flood(), ..ToolOutput::default() })
    });
    let agent = Agent::new("understudy/any".parse().unwrap()).tool(flood).unwrap().tool(Recall).unwrap();
    let store = Arc::new(Sqlite::open(directory, &SqliteOptions::default()).unwrap());
    (Engine::builder().store(store).provider(model.clone()).agent("a", agent).start(), model)
}

/// The outputs of a turn's calls, the oldest first.
async fn turn(chat: &ChatHandle, len: usize) -> Vec<String> {
    chat.send("Go on.").await.unwrap();
    chat.rest().await.unwrap();
    let mut results = chat.newest_results(len).await.unwrap();
    results.reverse();
    results.into_iter().map(|result| result.output.text).collect()
}

async fn later(directory: &Path, id: ChatId, steps: impl IntoIterator<Item = Value>) -> Vec<String> {
    let calls: Vec<Cue> = steps.into_iter().map(|input| call("recall", input)).collect();
    let len = calls.len();
    let (engine, _) = engine(directory, calls);
    let outputs = turn(&engine.chat(id), len).await;
    engine.shutdown().await;
    outputs
}

/// TW11: a result shows both ends and says how to read the rest, which can be read by lines, bytes and pattern after a
/// restart and after the result was summarised.
#[tokio::test]
async fn the_whole_output_of_a_call_can_be_read_later() {
    let directory = tempfile::tempdir().unwrap();
    let all = flood();
    let (first, _) = engine(directory.path(), [call("flood", json!({}))]);
    let chat = first.create("a").await.unwrap();
    let id = chat.id();
    let shown = turn(&chat, 1).await.remove(0);
    assert!(shown.len() <= 48 * 1024 && shown.ends_with(&String::from_utf8_lossy(&all[all.len() - 32_000..])[..]));
    let advice = "To read them, call `recall` with call \"1.0\".]\n";
    assert!(
        shown.contains(" bytes are left out here: lines 1 to ") && shown.contains(advice),
        "{}",
        &shown[16_000..17_000]
    );
    first.shutdown().await;
    drop((first, chat)); // And with them the directory.

    let (second, _) = engine(directory.path(), []);
    let chat = second.chat(id);
    chat.compact().await.unwrap();
    chat.rest().await.unwrap();
    second.shutdown().await;
    drop((second, chat));

    let asked = [
        json!({"call": "1.0", "from": 70_001, "lines": 3}),
        json!({"call": "1.0", "byte": 3_000_000}),
        json!({"call": "1.0", "pattern": "^line 4321.$"}),
        json!({"call": "1.0", "pattern": "00ffff"}),
        json!({"call": "9.9"}),
        json!({}),
    ];
    let told = later(directory.path(), id, asked).await;
    let total = all.split_inclusive(|byte| *byte == b'\n').count();
    let lines = " 70001\tline 70001\n 70002\tline 70002\n 70003\tline 70003\n";
    let title = format!("call 1.0 (flood): lines 70001–70003 of {total}, {BYTES} bytes\n");
    assert_eq!(told[0], format!("{title}{lines}[go on with from 70004]\n"));
    let part = String::from_utf8_lossy(&all[3_000_000..3_040_960]);
    let title = format!("call 1.0 (flood): bytes 3000000–3040960 of {BYTES}\n");
    assert_eq!(told[1], format!("{title}{part}\n[go on with byte 3040960]"));
    let hits: String = (43_210..43_220).map(|line| format!("{line:>6}: line {line}\n")).collect();
    assert_eq!(told[2], format!("call 1.0 (flood): 10 lines match\n{hits}"));
    assert!(told[3].starts_with("call 1.0 (flood): 1 lines match\n     1: [from byte 524181] "), "{}", told[3]);
    assert_eq!(told[4], "there is no result of a call 9.9 in this chat; without `call` the newest calls are listed");
    assert!(told[5].contains(&format!("\n1.0\tflood\t{BYTES} bytes\t0000000 ")), "{}", told[5]);
}
