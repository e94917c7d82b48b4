use everturn_core::delta::Delta;
use everturn_core::seam;
use serde_json::json;

use super::*;
use crate::heard::ToolAnswer;

const QUICK: Manner = Manner { pace: Duration::ZERO, seed: 0 };

fn text_of(script: &Script) -> String {
    let deltas = script.iter().filter_map(|cue| match cue {
        Cue::Say(deltas) => Some(deltas),
        _ => None,
    });
    let texts = deltas.flatten().filter_map(|delta| match delta {
        Delta::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn hears(words: &str) -> Heard {
    Heard { words: words.into(), ..Heard::default() }
}

#[test]
fn as_many_tokens_as_the_prompt_says() {
    assert_eq!(text_of(&numbered(&hears("count to 5, please"), QUICK)), "t1 t2 t3 t4 t5");
    assert_eq!(text_of(&numbered(&hears("count"), QUICK)).split(' ').count(), TOKENS);
    assert_eq!(text_of(&numbered(&hears("99999999999999999999999"), QUICK)).split(' ').count(), TOKENS_MAX);
}

#[test]
fn wherever_it_was_cut_it_goes_on_so_that_the_seam_is_whole() {
    let whole = tokens(60);
    let mut again = 0;
    for seed in 0..8 {
        for cut in 1..whole.len() {
            let heard = Heard { half_said: whole[..cut].trim_end().into(), ..hears("60") };
            let went_on = text_of(&numbered(&heard, Manner { seed, ..QUICK }));
            let joined = format!("{}{}", &whole[..cut], seam::join(&whole[..cut], &went_on).text);
            assert_eq!(joined, whole, "cut at {cut} with seed {seed}, went on with {went_on:?}");
            again += usize::from(went_on.len() > whole.len() - cut + 1);
        }
    }
    assert!(again > 100, "some must repeat words: {again}");
}

#[test]
fn it_tries_a_tool_once_with_input_that_fits() {
    let schema = json!({
        "type": "object", "required": ["q", "limit", "kind", "tags", "deep"],
        "properties": {
            "q": {"type": "string"}, "limit": {"type": "integer", "minimum": 3}, "kind": {"enum": ["b", "a"]},
            "tags": {"type": "array", "items": {"type": "boolean"}}, "optional": {"type": "string"},
            "deep": {"type": "object", "required": ["url"], "properties": {"url": {"type": "string", "format": "uri"}}},
        },
    });
    let tool = |name: &str| OfferedTool { name: name.into(), schema: schema.clone(), ..OfferedTool::default() };
    let mut heard = Heard { tools: vec![tool("look"), tool("search")], ..hears("use search for kelp") };
    let script = answer(&heard, QUICK);
    let calls: Vec<&Delta> = script
        .iter()
        .filter_map(|cue| match cue {
            Cue::Say(deltas) => deltas.iter().find(|delta| matches!(delta, Delta::CallBegan(_))),
            _ => None,
        })
        .collect();
    assert!(matches!(calls.as_slice(), [Delta::CallBegan(call)] if call.tool == "search"), "{calls:?}");
    assert_eq!(
        input::plausible(&schema, &heard.words),
        json!({"q": "use search for kelp", "limit": 3, "kind": "b", "tags": [true], "deep": {"url": "https://example.com/"}})
    );
    heard.results.push(ToolAnswer { tool: "search".into(), text: "seaweed".into() });
    let said = text_of(&answer(&heard, QUICK));
    assert!(said.contains("search said: seaweed") && said.contains("stand in"), "{said}");
}

/// An agent as a server without a key has it.
fn stock(words: &str) -> Heard {
    let tool = |name: &str| OfferedTool { name: name.into(), ..OfferedTool::default() };
    Heard { tools: vec![tool(DICE_TOOL), tool(NOTE_TOOL)], ..hears(words) }
}

fn called(script: &Script) -> Option<&str> {
    let deltas = script.iter().filter_map(|cue| match cue {
        Cue::Say(deltas) => Some(deltas),
        _ => None,
    });
    deltas.flatten().find_map(|delta| match delta {
        Delta::CallBegan(call) => Some(call.tool.as_str()),
        _ => None,
    })
}

/// C12: a user without a key asks in their own words, and sees what they asked for.
#[test]
fn a_wish_is_recognised_and_its_scene_is_played() {
    for (words, has) in [
        ("What can you do?", "| `note` |"),
        ("help", "# A tour of Everturn"),
        ("Please write something long, with a table and code", "```rust"),
        ("make it slow so I can kill you", "The twelfth sheep"),
        ("roll 3 dice", "I roll the dice."),
        ("show me an approval", "waits for you"),
        ("hello", "You said: hello"),
    ] {
        let said = text_of(&answer(&stock(words), QUICK));
        assert!(said.contains(has), "{words}: {said}");
    }
    assert_eq!(called(&answer(&stock("roll 3 dice"), QUICK)), Some(DICE_TOOL));
    assert_eq!(called(&answer(&stock("note: buy kelp"), QUICK)), Some(NOTE_TOOL));
    assert_eq!(
        called(&answer(&stock("hello"), QUICK)),
        None,
        "a tool for a scene is not tried without being asked for"
    );
    assert!(text_of(&answer(&hears("approval"), QUICK)).contains("no tool that I could call"));
    assert!(!text_of(&answer(&hears("tour"), QUICK)).contains("`note`"), "what is not there is not shown");
    let long = "please summarise this table of code and tools for somebody who has never seen one before";
    assert_eq!(SceneChoice::of(long), None, "a word in a long message is there by chance");
}

/// C12: it says that it is a stand-in wherever it may be taken for something else.
#[test]
fn every_scene_says_that_it_is_played_by_a_stand_in() {
    let mut all: Vec<Heard> = ["tour", "long", "break", "hello"].into_iter().map(stock).collect();
    for tool in [DICE_TOOL, NOTE_TOOL, "search"] {
        all.push(Heard { results: vec![ToolAnswer { tool: tool.into(), text: "it".into() }], ..stock("go") });
    }
    for heard in all {
        let said = text_of(&answer(&Heard { half_said: " ".into(), ..heard.clone() }, QUICK));
        assert!(
            ["stand-in", "stand in", "None of this was written by a model"].iter().any(|word| said.contains(word)),
            "{said}"
        );
    }
}

/// C12: its own stream breaks, once, and the rest of the answer is the rest.
#[test]
fn an_answer_that_breaks_by_itself_goes_on() {
    let broken = answer(&stock("break"), QUICK);
    assert!(matches!(broken.last(), Some(Cue::Cut)), "{broken:?}");
    let begun = text_of(&broken);
    let gone_on = answer(&Heard { half_said: begun.trim_end().into(), ..stock("break") }, QUICK);
    assert!(matches!(gone_on.last(), Some(Cue::Stop(Stop::End))));
    let whole = format!("{begun}{}", seam::join(&begun, &text_of(&gone_on)).text);
    assert!(
        whole.contains("breaks right here, and the engine asked") && whole.ends_with("killing the server."),
        "{whole}"
    );
}

/// Each scene goes on from wherever it was cut, and its call follows.
#[test]
fn a_persona_goes_on_with_what_it_began() {
    for words in ["hello", "tour", "long", "slow", "note"] {
        let heard = stock(words);
        let whole = text_of(&answer(&heard, QUICK));
        // It says whole words, so that is where an answer of its own is cut.
        for cut in whole.match_indices([' ', '\n']).map(|(at, _)| at + 1) {
            let half = &whole[..cut];
            let rest = answer(&Heard { half_said: half.into(), ..heard.clone() }, QUICK);
            assert_eq!(format!("{half}{}", seam::join(half, &text_of(&rest)).text), whole, "{words} cut at {cut}");
            assert_eq!(called(&rest).is_some(), words == "note");
        }
    }
}

/// C12: it speaks at the pace of a model, and the slow answer gives a person time to break something.
#[test]
fn it_speaks_at_a_pace_people_can_follow() {
    let seconds = |words: &str| {
        let waits = answer(&stock(words), Manner::default()).into_iter().filter_map(|cue| match cue {
            Cue::Wait(time) => Some(time),
            _ => None,
        });
        waits.sum::<Duration>().as_secs()
    };
    assert!(seconds("hello") <= 3 && (5..=20).contains(&seconds("long")), "{} {}", seconds("hello"), seconds("long"));
    assert!((30..=90).contains(&seconds("slow")), "{}", seconds("slow"));
}

/// A workspace in memory: answers calls as the real tools do.
struct Bench {
    source: String,
    want: &'static str,
    loses_edit: Option<usize>,
    edits: usize,
}

impl Bench {
    fn answer(&mut self, tool: &str, input: &serde_json::Value) -> String {
        match tool {
            "list" => ".: 2 entries\ncalc.sh\ntest.sh\n".into(),
            "search" => {
                let pattern = input["pattern"].as_str().unwrap();
                assert!(pattern.contains("add"), "{pattern}");
                "1 matches\ncalc.sh\n     2: add() {\n".into()
            }
            "read" => {
                let lines = self.source.lines().zip(1..).map(|(line, n)| format!("{n:>6}\t{line}\n"));
                format!("calc.sh: lines 1–9 of 9, sha 12345678\n{}", lines.collect::<String>())
            }
            "edit" => {
                self.edits += 1;
                let (old, new) = (&input["edits"][0]["old"], &input["edits"][0]["new"]);
                let (old, new) = (old.as_str().unwrap(), new.as_str().unwrap());
                assert_eq!(self.source.matches(old).count(), 1, "{old}");
                let is_lost = self.loses_edit == Some(self.edits);
                if !is_lost || self.edits.is_multiple_of(2) {
                    self.source = self.source.replacen(old, new, 1);
                }
                match is_lost {
                    true => "The result of this call was lost. It is not known whether it ran, or how it ended.".into(),
                    false => format!("calc.sh: written\n--- calc.sh\n+++ calc.sh\n@@ -3 +3 @@\n-{old}\n+{new}\n"),
                }
            }
            "shell" if self.source.contains(self.want) => {
                "all tests pass\n[exit 0 · 0.1 s · confined: no network]\n".into()
            }
            "shell" => "add 2 3: expected 5, got 6\n[exit 1 · 0.1 s · confined: no network]\n".into(),
            tool => panic!("{tool} was called"),
        }
    }
}

/// An agent with a workspace.
fn at_work(words: &str) -> Heard {
    let tool = |name: &&str| OfferedTool { name: (*name).into(), ..OfferedTool::default() };
    Heard { tools: ["read", "list", "search", "write", "edit", "shell"].iter().map(tool).collect(), ..hears(words) }
}

/// Plays a session to its end: the tools that were called, and the last words.
fn played(words: &str, bench: &mut Bench) -> (Vec<String>, String) {
    let (mut heard, mut called) = (at_work(words), Vec::new());
    loop {
        let part = part(&heard);
        let Some((tool, input)) = part.call else { return (called, part.text) };
        let text = bench.answer(&tool, &input);
        called.push(tool.clone());
        heard.results.push(ToolAnswer { tool, text });
        assert!(called.len() < 60, "{called:?}");
    }
}

fn bench(want: &'static str) -> Bench {
    let source = "# Adds.\nadd() {\n    echo $(($1 * $2))\n}\n\nless() {\n    [ $1 - $2 ]\n}\n".into();
    Bench { source, want, loses_edit: None, edits: 0 }
}

/// Issue 22, 7: a newcomer asks for a coding session and sees one that really works.
#[test]
fn it_fixes_a_test_by_what_the_tools_answer() {
    let mut bench = bench("$1 + $2");
    let (called, said) = played("Please fix the failing test", &mut bench);
    assert_eq!(called, ["list", "shell", "search", "read", "edit", "shell"], "{said}");
    assert!(said.contains("passes now") && said.contains("stand-in") && said.contains("```diff"), "{said}");
    let (called, said) = played("run the tests", &mut bench);
    assert_eq!(called, ["list", "shell"]);
    assert!(said.contains("nothing to fix"), "{said}");
}

/// A change that does not help is taken back, and when none helps the file is as it was.
#[test]
fn it_leaves_nothing_behind_that_does_not_help() {
    let mut second = bench("$1 / $2");
    let (called, said) = played("fix the bug", &mut second);
    assert!(said.contains("passes now"), "{said}");
    assert_eq!(called.iter().filter(|tool| *tool == "edit").count(), 3, "{called:?}");
    let mut never = bench("nothing of the kind");
    let before = never.source.clone();
    let (_, said) = played("fix the bug", &mut never);
    assert!(said.contains("none made the tests pass") && said.contains("stand-in"), "{said}");
    assert_eq!(never.source, before);
}

/// An edit whose outcome is unknown is looked at, and made if it was not.
#[test]
fn it_looks_before_it_repeats_an_edit() {
    for lost in 1..=4 {
        let mut bench = bench("$1 / $2");
        bench.loses_edit = Some(lost);
        let (called, said) = played("fix the failing test", &mut bench);
        assert!(said.contains("passes now"), "{lost}: {called:?} {said}");
        assert!(bench.source.contains("$1 / $2") && bench.source.contains("[ $1 - $2 ]"), "{}", bench.source);
    }
}

/// The tools of a workspace are used when a person asks for work, and not tried out.
#[test]
fn it_does_not_try_out_what_changes_files() {
    for words in ["hello", "edit", "what about the shell?", "write something"] {
        assert_eq!(called(&answer(&at_work(words), QUICK)), None, "{words}");
    }
    assert_eq!(called(&answer(&at_work("look around in my workspace"), QUICK)), Some("list"));
    assert_eq!(called(&answer(&at_work("please read the README"), QUICK)), Some("read"));
    assert!(text_of(&answer(&at_work("tour"), QUICK)).contains("`fix the failing test`"));
    assert!(!text_of(&answer(&stock("tour"), QUICK)).contains("failing"));
}
