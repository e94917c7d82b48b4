//! Every violation, made on purpose: a valid request, one change, and the validator names it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, json};

use super::RequestViolation::{self, *};
use crate::message::{Meta, Seal, Text};
use crate::prompt::{
    CacheMarks, Effort, HostedCall, HostedResult, PromptCall, PromptEntry, PromptFile, PromptMedia, PromptPart,
    PromptResult, Request, ResponseChain, Role, SealedReasoning, TakesSampling, Target, ToolChoice, ToolSpec,
    WireFormat, validate,
};

/// A request that every wire takes, in pieces that can be broken.
#[derive(Clone)]
struct Case {
    target: Target,
    entries: Vec<PromptEntry>,
    request: Request,
}

impl Case {
    /// Entry 1 holds reasoning, words and two calls; entry 2 their results; entry 3 words and a file; entry 4 a search.
    fn new(wire: WireFormat) -> Self {
        let able = vec!["image/png".to_string(), "audio/*".to_string()];
        let target = Target {
            reasoning: true,
            prefill: true,
            replays: vec!["web_search".into()],
            user_media: able.clone(),
            result_media: able,
            ..Target::new(wire, "p")
        };
        let text = PromptPart::text;
        let entries = vec![
            PromptEntry::new(Role::User, vec![text("go")]),
            PromptEntry::new(Role::Assistant, vec![sealed("sig"), text("I look."), call("call_1"), call("call_2")]),
            PromptEntry::new(Role::Tool, vec![result("call_1"), result("call_2")]),
            PromptEntry::new(Role::User, vec![text("and this?"), file("image/png", b"png")]),
            PromptEntry::new(Role::Assistant, vec![search("srvtoolu_1"), found("srvtoolu_1"), text("kelp")]),
            PromptEntry::new(Role::User, vec![text("thanks")]),
        ];
        let tools = [ToolSpec::new("look", "Looks.", json!({"properties": {"at": {"type": "string"}}}))];
        let request = Request::new("p/m".parse().unwrap(), &target, Vec::new().into());
        let request = Request { system: vec!["You are a crab.".into()], tools: tools.into(), ..request };
        let marks = CacheMarks { system: true, entries: [Some(4), Some(5)] };
        let marks = if wire == WireFormat::Anthropic { marks } else { CacheMarks::default() };
        Self { target, entries, request: Request { marks, ..request } }
    }

    fn violations(self) -> Vec<RequestViolation> {
        let request = Request { entries: self.entries.into(), ..self.request };
        validate(&request, &self.target).err().unwrap_or_default()
    }

    fn part(&mut self, entry: usize, part: usize) -> &mut PromptPart {
        &mut self.entries[entry].parts[part]
    }

    fn cut(&mut self, len: usize) {
        self.entries.truncate(len);
        self.request.marks = CacheMarks::default();
    }

    fn tool(&mut self, change: impl FnOnce(&mut ToolSpec)) {
        let mut tool = self.request.tools[0].clone();
        change(&mut tool);
        self.request.tools = Arc::new([tool]);
    }
}

fn sealed(seal: &str) -> PromptPart {
    PromptPart::Reasoning(SealedReasoning {
        provider: "p".into(),
        text: String::new(),
        seal: Seal::Signature(seal.into()),
        meta: Meta::new(),
    })
}

fn call(id: &str) -> PromptPart {
    let (id, provider_id, tool) = (id.into(), "theirs".into(), "look".into());
    PromptPart::Call(PromptCall { id, provider_id, tool, input: Map::new(), meta: Meta::new() })
}

fn result(id: &str) -> PromptPart {
    let (id, provider_id, tool, text) = (id.into(), "theirs".into(), "look".into(), "seen".into());
    let (media, is_error, meta) = (vec![shot("image/png", b"png")], false, Meta::new());
    PromptPart::Result(PromptResult { id, provider_id, tool, text, media, is_error, meta })
}

fn shot(media_type: &str, bytes: &[u8]) -> PromptMedia {
    PromptMedia { media_type: media_type.into(), bytes: Arc::from(bytes) }
}

fn file(media_type: &str, bytes: &[u8]) -> PromptPart {
    PromptPart::File(PromptFile { name: "a".into(), media: shot(media_type, bytes), meta: Meta::new() })
}

fn search(id: &str) -> PromptPart {
    let (id, provider, tool) = (id.into(), "p".into(), "web_search".into());
    PromptPart::HostedCall(HostedCall { id, provider, tool, input: Map::new(), meta: Meta::new() })
}

fn found(id: &str) -> PromptPart {
    let (id, provider, tool) = (id.into(), "p".into(), "web_search".into());
    PromptPart::HostedResult(HostedResult { id, provider, tool, output: json!([]), meta: Meta::new() })
}

macro_rules! of {
    ($case:expr, $entry:expr, $part:expr, $kind:ident) => {
        match $case.part($entry, $part) {
            PromptPart::$kind(part) => part,
            other => panic!("not what was expected: {other:?}"),
        }
    };
}

type Break = fn(&mut Case);
use WireFormat::{Anthropic as A, Gemini as G, OpenAiChat as C, OpenAiResponses as R};

/// Every rule about entries, with a request that breaks it and nothing else.
const ENTRIES: &[(WireFormat, RequestViolation, Break)] = &[
    (A, OtherWire, |case| case.request.wire = WireFormat::Gemini),
    (A, OtherProvider, |case| case.request.model = "q/m".parse().unwrap()),
    (A, NoEntries, |case| case.cut(0)),
    (G, FirstNotUser, |case| drop(case.entries.remove(0))),
    (A, LastNotUser, |case| {
        case.target.prefill = false;
        case.cut(5);
    }),
    (A, LastNotUser, |case| {
        case.cut(5);
        of!(case, 4, 2, Text).text = "kelp ".into();
    }),
    (A, LastNotUser, |case| {
        case.cut(5);
        case.request.effort = Some(Effort::Low);
    }),
    (A, LastNotUser, |case| {
        case.cut(5);
        case.entries[4].parts.insert(0, sealed("sig"));
    }),
    (R, LastNotUser, |case| {
        case.cut(5);
        case.entries[4].parts.pop();
    }),
    (C, SameRole { entry: 1 }, |case| case.entries.insert(0, case.entries[0].clone())),
    (G, SameRole { entry: 1 }, |case| case.entries.insert(0, case.entries[0].clone())),
    (A, SameRole { entry: 5 }, |case| {
        case.entries.insert(5, PromptEntry::new(Role::Assistant, vec![PromptPart::text("x")]))
    }),
    (A, EmptyEntry { entry: 5 }, |case| case.entries[5].parts.clear()),
    (A, WrongRole { entry: 5, part: 0 }, |case| *case.part(5, 0) = search("srvtoolu_2")),
    (A, WrongRole { entry: 5, part: 1 }, |case| case.entries[5].parts.push(sealed("sig"))),
    (A, WrongRole { entry: 4, part: 3 }, |case| case.entries[4].parts.push(file("image/png", b"png"))),
    (A, WrongRole { entry: 2, part: 2 }, |case| case.entries[2].parts.push(PromptPart::text("x"))),
    (A, BlankText { entry: 5, part: 0 }, |case| of!(case, 5, 0, Text).text = " \n".into()),
    (A, Nul { entry: 5, part: 0 }, |case| of!(case, 5, 0, Text).text = "a\0".into()),
    (A, Nul { entry: 2, part: 1 }, |case| of!(case, 2, 1, Result).text = "a\0".into()),
    (A, Nul { entry: 3, part: 1 }, |case| of!(case, 3, 1, File).name = "\0".into()),
    (A, EmptyResult { entry: 2, part: 0 }, |case| {
        let result = of!(case, 2, 0, Result);
        (result.text, result.media) = (" ".into(), vec![]);
    }),
    (A, ForeignMeta { entry: 0, part: 0 }, |case| {
        let meta = Meta::from([("q".to_string(), json!(1)), ("p".to_string(), json!(1))]);
        *case.part(0, 0) = PromptPart::Text(Text { text: "go".into(), meta });
    }),
    (A, EmptyMedia { entry: 3, part: 1 }, |case| *case.part(3, 1) = file("image/png", b"")),
    (A, MediaType { entry: 3, part: 1 }, |case| *case.part(3, 1) = file("image/gif", b"gif")),
    (A, MediaType { entry: 3, part: 1 }, |case| *case.part(3, 1) = file("audio/ogg; x=1", b"ogg")),
    (A, MediaType { entry: 2, part: 0 }, |case| of!(case, 2, 0, Result).media[0] = shot("application/zip", b"zip")),
    (A, MediaType { entry: 3, part: 1 }, |case| *case.part(3, 1) = file("image/png", b"\xff\xd8\xff")),
    (A, ReasoningUnwanted { entry: 1, part: 0 }, |case| case.target.reasoning = false),
    (A, ReasoningForeign { entry: 1, part: 0 }, |case| of!(case, 1, 0, Reasoning).provider = "q".into()),
    (A, ReasoningUnsealed { entry: 1, part: 0 }, |case| *case.part(1, 0) = sealed(" ")),
    (A, ReasoningNotFirst { entry: 1 }, |case| case.entries[1].parts.swap(0, 1)),
    (A, ReasoningLast { entry: 1 }, |case| case.entries[1].parts.push(sealed("sig"))),
    (R, ReasoningLast { entry: 1 }, |case| case.entries[1].parts.push(sealed("sig"))),
    (G, ReasoningAlone { entry: 4 }, |case| case.entries[4].parts = vec![sealed("sig")]),
    (A, ReasoningMissing { entry: 1 }, |case| {
        case.cut(3);
        case.target.leading_reasoning = true;
        case.request.effort = Some(Effort::Low);
        case.entries[1].parts.remove(0);
    }),
];

const PAIRS: &[(WireFormat, RequestViolation, Break)] = &[
    (A, BadId { entry: 1, part: 2 }, |case| {
        of!(case, 1, 2, Call).id = "call 1".into();
        of!(case, 2, 0, Result).id = "call 1".into();
    }),
    (C, BadId { entry: 1, part: 2 }, |case| {
        of!(case, 1, 2, Call).id = "x".repeat(65);
        of!(case, 2, 0, Result).id = "x".repeat(65);
    }),
    (A, BadId { entry: 4, part: 0 }, |case| {
        of!(case, 4, 0, HostedCall).id = "ws_1".into();
        of!(case, 4, 1, HostedResult).id = "ws_1".into();
    }),
    (A, RepeatedId { entry: 1, part: 3 }, |case| {
        of!(case, 1, 3, Call).id = "call_1".into();
        of!(case, 2, 1, Result).id = "call_1".into();
    }),
    (A, RepeatedId { entry: 4, part: 3 }, |case| {
        case.entries[4].parts.extend([search("srvtoolu_1"), found("srvtoolu_1")]);
    }),
    (A, BadName { entry: 1, part: 2 }, |case| {
        of!(case, 1, 2, Call).tool = "look at".into();
        of!(case, 2, 0, Result).tool = "look at".into();
    }),
    (G, BadName { entry: 1, part: 2 }, |case| {
        of!(case, 1, 2, Call).tool = "7zip".into();
        of!(case, 2, 0, Result).tool = "7zip".into();
    }),
    (A, Unanswered { entry: 1 }, |case| drop(case.entries[2].parts.pop())),
    (A, Unanswered { entry: 1 }, |case| case.entries[2].parts.swap(0, 1)),
    (A, Unanswered { entry: 1 }, |case| case.entries.swap(2, 3)),
    (R, Unanswered { entry: 4 }, |case| {
        case.cut(5);
        case.entries[4].parts.push(call("call_3"));
    }),
    (A, Unasked { entry: 5 }, |case| case.entries.insert(5, PromptEntry::new(Role::Tool, vec![result("call_2")]))),
    (A, NameDiffers { entry: 2, part: 1 }, |case| of!(case, 2, 1, Result).tool = "see".into()),
    (A, HostedForeign { entry: 4, part: 0 }, |case| of!(case, 4, 0, HostedCall).provider = "q".into()),
    (A, HostedUnwanted { entry: 4, part: 1 }, |case| case.target.replays.clear()),
    (A, HostedUnpaired { entry: 4, part: 0 }, |case| drop(case.entries[4].parts.remove(1))),
    (A, HostedUnpaired { entry: 4, part: 0 }, |case| drop(case.entries[4].parts.remove(0))),
    (A, HostedUnpaired { entry: 4, part: 0 }, |case| case.entries[4].parts.swap(0, 1)),
    (A, HostedUnpaired { entry: 4, part: 1 }, |case| of!(case, 4, 1, HostedResult).tool = "web_fetch".into()),
];

const OFFERS: &[(WireFormat, RequestViolation, Break)] = &[
    (A, BlankSystem { piece: 1 }, |case| case.request.system.push("\t".into())),
    (C, TooManyTools, |case| {
        let tool = |n| ToolSpec::new(format!("t{n}"), "", json!({}));
        case.request.tools = (0..129).map(tool).collect();
    }),
    (A, BadToolName { tool: 0 }, |case| case.tool(|tool| tool.name = "ö".into())),
    (R, BadToolName { tool: 0 }, |case| case.tool(|tool| tool.name = "x".repeat(65))),
    (G, BadToolName { tool: 0 }, |case| case.tool(|tool| tool.name = "-x".into())),
    (A, RepeatedTool { tool: 1 }, |case| {
        case.request.tools = [case.request.tools[0].clone(), case.request.tools[0].clone()].into();
    }),
    (A, BadSchema { tool: 0, why: "it is no object" }, |case| case.tool(|tool| tool.input_schema = json!(null))),
    (A, BadSchema { tool: 0, why: "its top is not of type object" }, |case| {
        case.tool(|tool| tool.input_schema = json!({"type": "string"}));
    }),
    (A, BadSchema { tool: 0, why: "its top is a choice" }, |case| {
        case.tool(|tool| tool.input_schema["anyOf"] = json!([{}]));
    }),
    (A, BadSchema { tool: 0, why: "it has no properties" }, |case| {
        case.tool(|tool| tool.input_schema["properties"] = json!(null));
    }),
    (A, BadSchema { tool: 0, why: "a property has a name the wire does not take" }, |case| {
        case.tool(|tool| tool.input_schema["properties"]["$filter"] = json!({}));
    }),
    (R, BadSchema { tool: 0, why: "a type is no single word" }, |case| {
        case.tool(|tool| tool.input_schema["properties"]["at"]["type"] = json!(["string", "null"]));
    }),
    (R, BadSchema { tool: 0, why: "an array does not say what is in it" }, |case| {
        case.tool(|tool| tool.input_schema["properties"]["at"]["anyOf"] = json!([{"type": "array"}]));
    }),
    (R, BadSchema { tool: 0, why: "properties are no object" }, |case| {
        case.tool(|tool| tool.input_schema["properties"]["at"]["properties"] = json!([]));
    }),
    (R, BadSchema { tool: 0, why: "an empty list is required" }, |case| {
        case.tool(|tool| tool.input_schema["required"] = json!([]));
    }),
    (R, BadSchema { tool: 0, why: "a schema is no object" }, |case| {
        case.tool(|tool| tool.input_schema["properties"]["at"] = json!(null));
    }),
    (A, NoTools, |case| case.request.tools = Arc::new([])),
    (A, UnknownChoice, |case| case.request.tool_choice = ToolChoice::Tool("see".into())),
    (R, UnknownChoice, |case| {
        case.request.tools = Arc::new([]);
        case.request.tool_choice = ToolChoice::Required;
    }),
    (A, ForcedWhileReasoning, |case| {
        case.request.tool_choice = ToolChoice::Required;
        case.request.effort = Some(Effort::Minimal);
    }),
    (A, NoOutput, |case| case.request.max_output = 0),
    (A, RequestViolation::Sampling { name: "temperature" }, |case| case.request.sampling.temperature = Some(1.1)),
    (R, RequestViolation::Sampling { name: "temperature" }, |case| {
        case.target.takes_sampling = TakesSampling::IfNotReasoning;
        case.request.sampling.temperature = Some(0.5);
    }),
    (A, RequestViolation::Sampling { name: "top_p" }, |case| {
        case.request.sampling.temperature = Some(0.5);
        case.request.sampling.top_p = Some(0.5);
    }),
    (R, RequestViolation::Sampling { name: "top_k" }, |case| case.request.sampling.top_k = Some(9)),
    (A, RequestViolation::Sampling { name: "seed" }, |case| case.request.sampling.seed = Some(9)),
    (A, RequestViolation::Sampling { name: "stop" }, |case| case.request.sampling.stop = vec!["\n".into()]),
    (R, RequestViolation::Sampling { name: "stop" }, |case| case.request.sampling.stop = vec!["END".into()]),
    (A, NoBackground, |case| case.request.background = true),
    (R, TooManyMarks, |case| case.request.marks.entries = [None, Some(0)]),
    (A, MisplacedMark, |case| case.request.marks.entries = [Some(5), Some(6)]),
    (A, MisplacedMark, |case| case.request.marks.entries = [Some(5), Some(5)]),
    (A, MisplacedMark, |case| case.request.system.clear()),
    (A, NoChains, |case| case.request.chain = Some(ResponseChain { response_id: "r".into(), from: 5 })),
    (R, EmptyChain, |case| case.request.chain = Some(ResponseChain { response_id: " ".into(), from: 5 })),
    (R, EmptyChain, |case| case.request.chain = Some(ResponseChain { response_id: "r".into(), from: 6 })),
    (R, MisplacedChain, |case| case.request.chain = Some(ResponseChain { response_id: "r".into(), from: 2 })),
    (R, MisplacedChain, |case| case.request.chain = Some(ResponseChain { response_id: "r".into(), from: 0 })),
    (R, ChainLosesId { entry: 2, part: 1 }, |case| {
        case.cut(4);
        case.request.chain = Some(ResponseChain { response_id: "r".into(), from: 2 });
        of!(case, 2, 1, Result).provider_id = String::new();
    }),
];

fn cases() -> impl Iterator<Item = &'static (WireFormat, RequestViolation, Break)> {
    ENTRIES.iter().chain(PAIRS).chain(OFFERS)
}

#[test]
fn the_request_that_is_broken_below_is_sound() {
    for wire in WireFormat::ALL {
        assert_eq!(Case::new(wire).violations(), [], "{wire:?}");
    }
    let mut chained = Case::new(WireFormat::OpenAiResponses);
    chained.request.chain = Some(ResponseChain { response_id: "r".into(), from: 5 });
    assert_eq!(chained.violations(), []);
    let mut prefilled = Case::new(WireFormat::Anthropic);
    prefilled.cut(5);
    assert_eq!(prefilled.violations(), []);
}

/// SA02, CR46: each violation is named, with its place.
#[test]
fn each_violation_is_named_with_its_place() {
    for (wire, violation, break_it) in cases() {
        let mut case = Case::new(*wire);
        break_it(&mut case);
        let found = case.violations();
        assert!(found.contains(violation), "{wire:?}: expected {violation:?}, found {found:?}");
    }
}

#[test]
fn every_kind_of_violation_is_tried() {
    let kinds: BTreeSet<String> = cases()
        .map(|(_, violation, _)| format!("{violation:?}").split([' ', '{']).next().unwrap_or_default().to_string())
        .collect();
    let declared = include_str!("../validate.rs").matches("#[error(").count();
    assert_eq!(kinds.len(), declared, "{kinds:?}");
}

#[test]
fn a_violation_says_what_is_wrong_and_where() {
    let said = Unanswered { entry: 3 }.to_string();
    assert_eq!(said, "entry 3 has calls, and the next entry is not their results in their order");
    for (_, violation, _) in cases() {
        let text = violation.to_string();
        assert!(!text.ends_with('.') && text.starts_with(char::is_lowercase), "{text}");
    }
}
