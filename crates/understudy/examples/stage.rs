//! A stage for strangers: the understudy over HTTP, with scenes that other people's clients are to see exactly.
//!
//! The model's name chooses the scene. The first line on stdout is JSON: where it listens, the key, and what each scene
//! says, folded from the very script that is played. It serves until its stdin is closed. `cargo xtask interop` runs it.

use std::collections::BTreeMap;
use std::io::Write as _;

use everturn_core::cost::{TokenCount, UsageReport};
use everturn_core::delta::Delta;
use everturn_core::message::Stop;
use everturn_understudy::http::{KEY, UnderstudyOptions, UnderstudyServer};
use everturn_understudy::{
    Cue, Script, Understudy, call, ended, ping, reasoning, script, sealed, stop, text, usage, words,
};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let understudy = Understudy::hearing(|heard| {
        // Faults may follow the scene's name.
        let name = heard.model.split("-faults:").next().unwrap_or_default();
        scenes().remove(name).unwrap_or_else(|| script([text("There is no such scene."), stop(Stop::End)]))
    });
    let server = UnderstudyServer::start(understudy, UnderstudyOptions::default()).await?;
    let expected: BTreeMap<_, _> = scenes().into_iter().map(|(name, scene)| (name, told(&scene))).collect();
    println!("{}", json!({"url": server.url(), "key": KEY, "scenes": expected}));
    std::io::stdout().flush()?;
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    Ok(())
}

fn scenes() -> BTreeMap<&'static str, Script> {
    let spent = UsageReport {
        input: TokenCount::Known(100),
        output: TokenCount::Known(50),
        reasoning: TokenCount::Known(20),
        cache_read: TokenCount::Known(30),
        cache_write: TokenCount::Unknown,
    };
    BTreeMap::from([
        ("text", script([text("Hello, "), ping(), text("wörld. 🦀\n"), usage(11, 7), stop(Stop::End)])),
        ("long", script([words(&"word after word ".repeat(200)), usage(11, 600), stop(Stop::End)])),
        (
            "thought",
            script([
                reasoning("Let me "),
                reasoning("think."),
                sealed("c2lnbmVk"),
                text("Done."),
                Cue::Say(vec![Delta::Usage(spent.into())]),
                stop(Stop::End),
            ]),
        ),
        (
            "calls",
            script([
                reasoning("Two tools."),
                sealed("c2lnbmVk"),
                text("Let me look."),
                ended(),
                call("weather", json!({"city": "Utqiaġvik \"Barrow\"", "days": [1, 2.5], "deep": {"a": null}})),
                call("now", json!({})),
                usage(40, 30),
                stop(Stop::ToolUse),
            ]),
        ),
        ("length", script([text("And then"), usage(5, 2), stop(Stop::Length)])),
        (
            "filtered",
            script([usage(5, 1), stop(Stop::Filtered { category: "SAFETY".into(), detail: "not this".into() })]),
        ),
    ])
}

/// What a client should see of a script.
fn told(scene: &Script) -> Value {
    let (mut said, mut thought, mut calls) = (String::new(), String::new(), Vec::<(String, String)>::new());
    let (mut report, mut end) = (UsageReport::default(), "");
    for cue in scene {
        match cue {
            Cue::Say(deltas) => {
                for delta in deltas {
                    match delta {
                        Delta::Text(text) => said.push_str(text),
                        Delta::Reasoning(text) => thought.push_str(text),
                        Delta::CallBegan(call) => calls.push((call.tool.clone(), String::new())),
                        Delta::CallInput { slot, json } => calls[*slot as usize].1.push_str(json),
                        Delta::Usage(later) => report.update(later),
                        _ => {}
                    }
                }
            }
            Cue::Stop(Stop::End) => end = "end",
            Cue::Stop(Stop::ToolUse) => end = "calls",
            Cue::Stop(Stop::Length) => end = "length",
            Cue::Stop(_) => end = "filtered",
            _ => {}
        }
    }
    let call = |(tool, input): (String, String)| {
        let input: Value = serde_json::from_str(&input).expect("scenes have whole inputs");
        json!({"tool": tool, "input": input})
    };
    let count = |count: TokenCount| count.known().unwrap_or(0);
    json!({
        "text": said, "reasoning": thought, "calls": calls.into_iter().map(call).collect::<Vec<_>>(), "stop": end,
        "usage": {
            "input": count(report.input), "output": count(report.output), "reasoning": count(report.reasoning),
            "cache_read": count(report.cache_read),
        },
    })
}
