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
