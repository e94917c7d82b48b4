use everturn_core::delta::Delta;
use everturn_core::seam;
use serde_json::json;

use super::*;
use crate::heard::Told;

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
    let tool = |name: &str| Offered { name: name.into(), schema: schema.clone(), ..Offered::default() };
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
    heard.results.push(Told { tool: "search".into(), text: "seaweed".into() });
    let said = text_of(&answer(&heard, QUICK));
    assert!(said.contains("search said: seaweed") && said.contains("stand in"), "{said}");
}

#[test]
fn a_persona_goes_on_with_what_it_began() {
    let whole = text_of(&answer(&hears("hello"), QUICK));
    let half = &whole[..whole.len() / 2];
    let rest = text_of(&answer(&Heard { half_said: half.into(), ..hears("hello") }, QUICK));
    assert_eq!(format!("{half}{}", seam::join(half, &rest).text), whole);
}
