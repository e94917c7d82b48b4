//! Calls: which tool is found, which input it gets, and what is stored of its output.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everturn::core::blob::Blob;
use everturn::core::chat::Chat;
use everturn::core::ids::StepId;
use everturn::core::limits::Limits;
use everturn::core::message::{Body, CallResult, CallVerdict, Media, Meta, Stop};
use everturn::core::prompt::{PromptPart, PromptResult, Request};
use everturn::{Agent, Engine, Hook, LiveToolbox, Policy, Tool, ToolContext, ToolError, ToolOutput, tool};
use everturn_understudy::{Cue, Understudy, begin_call, call, script, stop, text};
use expect_test::expect;
use serde_json::{Value, json};

use crate::stage::{Diary, Stage, agent, count, counter, echo};
use crate::tools::{ANY, after_reply, calling, results};

/// A tool that gives what it has.
fn gives(name: &str, gives: impl Fn() -> Result<ToolOutput, ToolError> + Send + Sync + 'static) -> impl Tool {
    tool(name, "Gives.", move |_: ToolContext, _: Value| std::future::ready(gives()))
}

/// The results in a transcript.
async fn kept(stage: &Stage) -> Vec<CallResult> {
    let transcript = stage.transcript().await;
    let results = transcript.iter().filter_map(|message| match &message.body {
        Body::Result(result) => Some((**result).clone()),
        _ => None,
    });
    results.collect()
}

/// A call with this input.
fn raw(tool: &str, json: &str, slot: u32) -> Cue {
    let Cue::Say(mut deltas) = begin_call(tool, json) else { unreachable!("a call says something") };
    deltas.push(everturn::core::delta::Delta::CallEnded { slot });
    Cue::Say(deltas)
}

/// CL20: whatever is wrong with a call, it has a result that says so, and nothing else suffers.
#[tokio::test(start_paused = true)]
async fn every_way_to_fail_becomes_a_result() {
    let runs = counter();
    let agent = agent().tool(echo("echo", &runs)).unwrap();
    let agent = agent.tool(gives("breaks", || Err("the disk is full".into()))).unwrap();
    let panics = gives("panics", || panic!("index out of bounds"));
    let hangs = tool("hangs", "Hangs.", |_: ToolContext, _: Value| std::future::pending::<Result<String, ToolError>>());
    let hangs = hangs.with(Policy { time_max: Some(Duration::from_secs(30)), ..ANY });
    let agent = agent.tool(panics).unwrap().tool(hangs).unwrap();
    let calls = [
        call("hangs", json!({})),
        call("ehco", json!({"say": "a"})),
        call("echo", json!({"say": 7})),
        call("echo", json!({"sya": "b"})),
        call("panics", json!({})),
        call("breaks", json!({})),
        call("echo", json!({"say": "c"})),
        raw("echo", "[1]", 7),
        raw("echo", "{\"say\": }}} what", 8),
    ];
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    expect![[r#"
        t=000.0 message 2 reply [hangs({}) ehco({"say":"a"}) echo({"say":7}) echo({"sya":"b"}) panics({}) breaks({}) echo({"say":"c"}) echo([1]) echo({"say": }}} what)] ToolUse
        t=000.0 running
        t=000.0 message 3 result 1.1 ehco Error "There is no tool `ehco`. The tools are: breaks, echo, hangs, panics."
        t=000.0 running
        t=000.0 message 4 result 1.2 echo Error "The input does not fit the tool's schema: /say: value is not of type \"string\"."
        t=000.0 running
        t=000.0 message 5 result 1.3 echo Error "The input does not fit the tool's schema: \"say\" is a required property."
        t=000.0 running
        t=000.0 message 6 result 1.7 echo Error "The input must be a JSON object."
        t=000.0 running
        t=000.0 message 7 result 1.8 echo Error "The input is not valid JSON (expected value at line 1 column 9). Call the tool again with a JSON object."
        t=000.0 running
        t=000.0 running
        t=000.0 message 8 result 1.4 panics Error "The tool panicked: index out of bounds"
        t=000.0 running
        t=000.0 message 9 result 1.5 breaks Error "the disk is full"
        t=000.0 running
        t=000.0 message 10 result 1.6 echo Done "heard c"
        t=000.0 running
        t=031.0 message 11 result 1.0 hangs Error "The tool did not finish within 30 seconds and was stopped. Whether it took effect is unknown."
        t=031.0 running
        t=031.0 message 12 reply ["Done."] End
        t=031.0 running
        t=031.0 idle Done
    "#]].assert_eq(&after_reply(&stage.run("go").await));
    assert_eq!(count(&runs), 1);
}

/// A tool over its time is cancelled and has a grace period: a result within it counts, because the model would repeat the
/// call otherwise; after it the tool is dropped.
#[tokio::test(start_paused = true)]
async fn a_late_tool_has_a_moment() {
    let late = |name: &'static str, after: u64| {
        let run = move |context: ToolContext, _: Value| async move {
            context.cancel.cancelled().await;
            tokio::time::sleep(Duration::from_millis(after)).await;
            if after == 0 { Err("gave up".into()) } else { Ok::<_, ToolError>("paid") }
        };
        tool(name, "Is late.", run).with(Policy { time_max: Some(Duration::from_secs(30)), ..ANY })
    };
    let agent = agent().tool(late("soon", 500)).unwrap().tool(late("never", 5000)).unwrap();
    let agent = agent.tool(late("heeds", 0)).unwrap();
    let calls = ["soon", "never", "heeds"].map(|tool| call(tool, json!({})));
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    expect![[r#"
        t=000.0 message 2 reply [soon({}) never({}) heeds({})] ToolUse
        t=000.0 running
        t=000.0 running
        t=030.0 message 3 result 1.2 heeds Error "The tool did not finish within 30 seconds and was stopped. Whether it took effect is unknown. It said: gave up"
        t=030.0 running
        t=030.5 message 4 result 1.0 soon Done "paid"
        t=030.5 running
        t=031.0 message 5 result 1.1 never Error "The tool did not finish within 30 seconds and was stopped. Whether it took effect is unknown."
        t=031.0 running
        t=031.0 message 6 reply ["Done."] End
        t=031.0 running
        t=031.0 idle Done
    "#]].assert_eq(&after_reply(&stage.run("go").await));
}

/// Input that is almost JSON is made JSON; an empty one is an empty object.
#[tokio::test(start_paused = true)]
async fn almost_json_is_repaired() {
    let diary = Diary::new();
    let agent = agent().tool(diary.tool("look", 0, ANY)).unwrap();
    let inputs = ["", "  ", r#"{"a": 1,}"#, "{'a': 'b'}", r#"{a: True, "b": [1, 2}"#, "```json\n{\"a\": 1}\n```"];
    let calls = (0..).zip(inputs).map(|(slot, input)| raw("look", input, slot));
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    stage.run("go").await;
    let begun: String =
        diary.read().lines().filter(|line| line.ends_with("begins")).map(|l| format!("{l}\n")).collect();
    expect![[r#"
        t=000.0 look {} begins
        t=000.0 look {} begins
        t=000.0 look {"a":1} begins
        t=000.0 look {"a":"b"} begins
        t=000.0 look {"a":true,"b":[1,2]} begins
        t=000.0 look {"a":1} begins
    "#]]
    .assert_eq(&begun);
    let next = format!("{:?}", stage.understudy.requests()[1].entries.get(1));
    assert!(next.contains(r#""b": Array [Number(1), Number(2)]"#), "the model is shown what was run: {next}");
}

/// An input that ends before it is over did not arrive: its call never runs, and the model is told to call again.
#[tokio::test(start_paused = true)]
async fn a_call_whose_input_was_cut_never_runs() {
    let diary = Diary::new();
    let agent = agent().tool(diary.tool("delete", 0, ANY)).unwrap();
    let inputs = [r#"{"path":"/notes/projects/old"#, r#"{"paths":["/a""#, r#"{"path":"/a""#, "{'path': '/a}"];
    let calls = (0..).zip(inputs).map(|(slot, input)| raw("delete", input, slot));
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    stage.run("go").await;
    assert_eq!(diary.read(), "");
    let kept = kept(&stage).await;
    assert_eq!(kept.len(), inputs.len());
    for result in kept {
        assert_eq!(result.verdict, CallVerdict::Error);
        assert!(result.output.text.contains("cut off"), "{}", result.output.text);
    }
}

/// CL23, PR14: bytes that are no text are shown as text and kept as bytes; media go along as they are; what is too long is
/// shown head and tail, and kept whole up to its own bound; the next request is valid and holds what fits.
#[tokio::test(start_paused = true)]
async fn outputs_are_made_fit_and_kept_whole() {
    let long: Vec<u8> = (0..8000).flat_map(|n| format!("line {n:06}\n").into_bytes()).collect();
    let image = Media { media_type: "image/png".into(), bytes: [0x89, b'P', b'N', b'G', 0, 255].into() };
    let huge = Media { media_type: "image/png".into(), bytes: vec![7; 120_000].into() };
    let (shot, all) = (image.clone(), long.clone());
    let agent = agent()
        .tool(gives("bytes", || Ok(ToolOutput { bytes: b"caf\xe9 \0 end".to_vec(), ..ToolOutput::default() })))
        .unwrap()
        .tool(gives("long", move || Ok(ToolOutput { bytes: all.clone(), ..ToolOutput::default() })))
        .unwrap()
        .tool(gives("shot", move || Ok(ToolOutput { media: vec![shot.clone(), huge.clone()], .."two".into() })))
        .unwrap()
        .tool(gives("wails", || Err("no\u{0}! ".repeat(40_000).into())))
        .unwrap();
    let agent = agent.limits(Limits { tool_output_bytes_max: 100_000, ..Limits::default() });
    let calls = ["bytes", "long", "shot", "wails"].map(|tool| call(tool, json!({})));
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    stage.run("go").await;
    let kept = kept(&stage).await;
    let [bytes, long_kept, shot, wails] = kept.as_slice() else { panic!("{kept:?}") };
    assert_eq!(bytes.output.text, "caf\u{fffd} ␀ end");
    assert_eq!(bytes.output.full, Some(b"caf\xe9 \0 end"[..].into()));
    let text = &long_kept.output.text;
    assert!(text.starts_with("line 000000\n") && text.ends_with("line 007999\n") && text.len() <= 64 * 1024);
    assert!(text.contains("bytes are left out here"), "the model is told");
    assert_eq!(long_kept.output.full, Some(long[..].into()));
    assert_eq!(shot.output.media, [image]);
    assert_eq!(shot.output.text, "two\n[1 of 2 attachments were too large and are left out.]");
    assert!(wails.output.text.len() <= 64 * 1024, "also an error");
    assert_eq!(wails.output.full.as_ref().unwrap().len(), 100_000, "nothing grows without a bound");
    let sent = sent(&stage.understudy.requests()[1]);
    let shown: Vec<Blob> = sent[2].media.iter().map(|media| media.bytes.clone().into()).collect();
    let kept: Vec<Blob> = shot.output.media.iter().map(|media| media.bytes.clone()).collect();
    assert_eq!(shown, kept, "bytes, encoded on the wire alone");
}

/// The results in a request.
fn sent(request: &Request) -> Vec<PromptResult> {
    let parts = request.entries.iter().flat_map(|entry| &entry.parts);
    let results = parts.filter_map(|part| match part {
        PromptPart::Result(result) => Some(result.clone()),
        _ => None,
    });
    results.collect()
}

/// CL24: an old name runs the tool, and its result keeps the old name. CL25: one that leads nowhere is an unknown tool.
/// CL26: a tool that is not advertised runs when it is called.
#[tokio::test(start_paused = true)]
async fn names_lead_to_tools() {
    let diary = Diary::new();
    let mut agent = agent().tool(diary.tool("read_file", 0, ANY)).unwrap();
    agent.toolbox.add_unoffered(diary.tool("rare", 0, ANY)).unwrap();
    agent.toolbox.alias("cat", "read_file");
    agent.toolbox.alias("gone", "nowhere");
    let calls = ["cat", "gone", "rare"].map(|tool| call(tool, json!({})));
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    stage.run("go").await;
    expect![[r#"
        [
            (
                "cat",
                false,
                "read_file did {}",
            ),
            (
                "gone",
                true,
                "There is no tool `gone`. The tools are: read_file.",
            ),
            (
                "rare",
                false,
                "rare did {}",
            ),
        ]
    "#]]
    .assert_debug_eq(&results(&stage.understudy.requests()[1]));
    assert_eq!(offered(&stage.understudy.requests()[0]), ["read_file"]);
}

fn offered(request: &Request) -> Vec<&str> {
    request.tools.iter().map(|spec| spec.name.as_str()).collect()
}

/// CR12: a call of an inactive tool gets an error and does not run. CR13, CR14: a provider-defined tool with a local
/// half runs whatever the filter says, and may attach metadata to its result, or not.
#[tokio::test(start_paused = true)]
async fn the_filter_holds_for_all_but_provider_defined_tools() {
    let diary = Diary::new();
    let meta = Meta::from([("understudy".to_string(), json!({"screen": 1})), ("other".to_string(), json!(2))]);
    let own = meta.clone();
    let click = tool("computer", "Clicks.", move |_: ToolContext, input: Value| {
        let meta = if input["click"] == true { own.clone() } else { Meta::new() };
        std::future::ready(Ok(ToolOutput { meta, ..ToolOutput::from("clicked") }))
    });
    let click = click.defined_by_provider(json!({"type": "computer_2025", "width": 800}));
    let agent = agent().tool(click).unwrap();
    let mut agent = agent.tool(diary.tool("look", 0, ANY)).unwrap().tool(diary.tool("edit", 0, ANY)).unwrap();
    agent.toolbox.activate(["look"]);
    let calls = [call("edit", json!({})), call("computer", json!({"click": true})), call("computer", json!({}))];
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    stage.run("go").await;
    assert_eq!(diary.read(), "", "the inactive tool did not run");
    let (requests, kept) = (stage.understudy.requests(), kept(&stage).await);
    assert_eq!(offered(&requests[0]), ["computer", "look"]);
    expect![[r#"
        [
            (
                "edit",
                true,
                "The tool `edit` is not available in this turn.",
            ),
            (
                "computer",
                false,
                "clicked",
            ),
            (
                "computer",
                false,
                "clicked",
            ),
        ]
    "#]]
    .assert_debug_eq(&results(&requests[1]));
    assert_eq!(kept.iter().map(|result| &result.meta).collect::<Vec<_>>(), [&Meta::new(), &meta, &Meta::new()]);
    let own = Meta::from([("understudy".to_string(), json!({"screen": 1}))]);
    let sent: Vec<Meta> = sent(&requests[1]).into_iter().map(|result| result.meta).collect();
    assert_eq!(sent, [Meta::new(), own, Meta::new()], "only the provider's own goes back to it");
}

/// CR50, CR51: a tool that appears between two steps is offered and can be called at the next, also past a filter.
#[tokio::test(start_paused = true)]
async fn a_tool_may_appear_between_two_steps() {
    let diary = Diary::new();
    let live = LiveToolbox::default();
    let (shelf, new) = (live.clone(), diary.clone());
    let install = tool("install", "Installs a tool.", move |_: ToolContext, _: Value| {
        shelf.change(|tools| tools.add(new.tool("fresh", 0, ANY))).unwrap();
        std::future::ready(Ok("installed"))
    });
    live.change(|tools| {
        tools.add(install).unwrap();
        tools.add(diary.tool("hidden", 0, ANY)).unwrap();
        tools.activate(["install"]);
    });
    let understudy = Understudy::new([
        script([call("install", json!({})), stop(Stop::ToolUse)]),
        script([call("fresh", json!({})), stop(Stop::ToolUse)]),
        script([text("Done."), stop(Stop::End)]),
    ]);
    let stage = Stage::new(understudy, agent().live_tools(live)).await;
    stage.run("go").await;
    let requests = stage.understudy.requests();
    assert_eq!(offered(&requests[0]), ["install"]);
    assert_eq!(offered(&requests[1]), ["fresh", "install"]);
    assert_eq!(diary.read(), "t=000.0 fresh {} begins\nt=000.0 fresh {} ends\n");
}

/// A tool that a copy of an agent is given is the copy's alone, also while both work in one engine.
#[tokio::test(start_paused = true)]
async fn a_tool_added_to_a_clone_stays_there() {
    let diary = Diary::new();
    let reader = agent().tool(diary.tool("look", 0, ANY)).unwrap();
    let writer = reader.clone().tool(diary.tool("delete", 0, ANY)).unwrap();
    let deletes = |request: &Request| match request.entries.len() {
        1 => script([call("delete", json!({})), stop(Stop::ToolUse)]),
        _ => script([text("Done."), stop(Stop::End)]),
    };
    let understudy = Understudy::improvising(deletes);
    let builder = Engine::builder().provider(understudy.clone()).agent("reader", reader).agent("writer", writer);
    let engine = builder.start();
    for (name, offers, ran) in [("reader", vec!["look"], 0), ("writer", vec!["delete", "look"], 1)] {
        let asked = understudy.requests().len();
        let chat = engine.create(name).await.unwrap();
        chat.send("go").await.unwrap();
        chat.rest().await.unwrap();
        assert_eq!(offered(&understudy.requests()[asked]), offers);
        assert_eq!(diary.read().matches("begins").count(), ran, "{name}");
    }
}

/// Of a toolbox and a live one beside it, each keeps its own filter, and the toolbox decides about a name that is in both.
#[tokio::test(start_paused = true)]
async fn live_tools_stand_beside_those_of_the_toolbox() {
    let diary = Diary::new();
    let live = LiveToolbox::default();
    live.change(|tools| ["a", "b", "look"].iter().try_for_each(|name| tools.add(diary.tool(name, 5, ANY)))).unwrap();
    let mut agent = agent().tool(diary.tool("look", 0, ANY)).unwrap().tool(diary.tool("c", 0, ANY)).unwrap();
    agent.toolbox.activate(["look"]);
    let understudy = Understudy::new([
        script([call("look", json!({})), call("c", json!({})), call("a", json!({})), stop(Stop::ToolUse)]),
        script([text("Done."), stop(Stop::End)]),
    ]);
    let stage = Stage::new(understudy, agent.live_tools(live)).await;
    stage.run("go").await;
    assert_eq!(offered(&stage.understudy.requests()[0]), ["a", "b", "look"]);
    let begun: Vec<_> = diary.read().lines().map(str::to_string).collect();
    assert_eq!(begun.iter().filter(|line| line.contains("look")).count(), 2, "{begun:?}");
    assert!(begun.iter().any(|line| line.contains("t=000.0 look {} ends")), "the toolbox's own: {begun:?}");
    assert!(!begun.iter().any(|line| line.contains(" c ")), "{begun:?}");
}

/// A tool that the provider runs is offered as the provider defines it, and nothing runs here; not even if a model calls it
/// as if something did.
#[tokio::test(start_paused = true)]
async fn a_hosted_tool_needs_no_runner() {
    let definition = json!({"type": "web_search", "max_uses": 2});
    let mut agent = agent().hosted("search", definition.clone()).unwrap();
    agent.toolbox.activate(["nothing"]);
    let understudy = Understudy::new([
        script([call("search", json!({"q": "kelp"})), stop(Stop::ToolUse)]),
        script([text("Done."), stop(Stop::End)]),
    ]);
    let stage = Stage::new(understudy, agent).await;
    stage.run("go").await;
    let requests = stage.understudy.requests();
    assert_eq!(
        requests[0].tools.iter().map(|spec| spec.provider_defined.clone()).collect::<Vec<_>>(),
        [Some(definition)]
    );
    let told = sent(&requests[1]).into_iter().map(|result| format!("{result:?}")).collect::<String>();
    assert!(told.contains("runs at the provider"), "{told}");
}

/// Has something to say before a step.
struct Briefing(StepId);

#[async_trait]
impl Hook for Briefing {
    async fn before_step(&self, chat: &Chat) -> Option<String> {
        (chat.step == self.0).then(|| "The build is green.".into())
    }
}

/// CR48, CR49: the text of the step hook is in the next request, once, although that request is refused at first and more
/// follow.
#[tokio::test(start_paused = true)]
async fn words_between_steps_are_said_once() {
    let diary = Diary::new();
    let agent = agent().tool(diary.tool("look", 0, ANY)).unwrap();
    let understudy = Understudy::new([
        script([call("look", json!({})), stop(Stop::ToolUse)]),
        script([everturn_understudy::refuse(529)]),
        script([call("look", json!({})), stop(Stop::ToolUse)]),
        script([text("Done."), stop(Stop::End)]),
    ]);
    let stage = Stage::new(understudy, Agent { hook: Some(Arc::new(Briefing(StepId(2)))), ..agent }).await;
    stage.run("go").await;
    let said = |request: &Request| format!("{:?}", request.entries).matches("The build is green.").count();
    assert_eq!(stage.understudy.requests().iter().map(said).collect::<Vec<_>>(), [0, 1, 1, 1]);
    expect![[r#"
        message 1 user "go"
        message 2 reply [look({})] ToolUse
        message 3 result 1.0 look Done "look did {}"
        message 4 context "The build is green."
        message 5 reply [look({})] ToolUse
        message 6 result 2.0 look Done "look did {}"
        message 7 reply ["Done."] End
    "#]]
    .assert_eq(&stage.told().await);
}
