//! Summaries: when they are made, of what, and what stands behind them.

use std::sync::Arc;

use async_trait::async_trait;
use everturn::core::chat::{Chat, TurnEnd};
use everturn::core::command::Command;
use everturn::core::context::CompactionThreshold;
use everturn::core::limits::Limits;
use everturn::core::message::{Body, Meta, Stop, Summary};
use everturn::core::prompt::{Request, Target, ToolChoice, WireFormat};
use everturn::stores::SubmitError;
use everturn::{Agent, Background, Hook};
use everturn_understudy::{Script, Understudy, call, reply_meta, script, stop, text, usage, wait};
use expect_test::expect;
use serde_json::json;

use crate::read::{asks_summary, brief_lines, rows, shown, words};
use crate::stage::{Stage, agent, counter, echo};

/// A model that reads ten thousand tokens. Three bytes make one, until it says otherwise.
pub fn small(scripts: impl IntoIterator<Item = Script>) -> Understudy {
    Understudy::new(scripts).with(|facts| facts.context_limit = Some(10_000))
}

/// An answer of so many bytes.
pub fn long(bytes: usize) -> String {
    "abcdefghi ".repeat(bytes / 10)
}

pub fn says(words: impl Into<String>) -> Script {
    script([text(words), stop(Stop::End)])
}

async fn summaries(stage: &Stage) -> Vec<Summary> {
    let transcript = stage.transcript().await;
    let summaries = transcript.iter().filter_map(|message| match &message.body {
        Body::Summary(summary) => Some((**summary).clone()),
        _ => None,
    });
    summaries.collect()
}

/// CR54, CR55, CR57, CR61: at the threshold a summary is made. Subscribers see it begin and end, it is stored, and the
/// step goes on with it, and with the newest message as it was written.
#[tokio::test(start_paused = true)]
async fn a_full_window_is_summarised_before_the_next_step() {
    let scripts = [
        says(long(24_000)),
        script([wait(3), text("They said letters."), usage(8_500, 9), stop(Stop::End)]),
        says("More it is."),
    ];
    let agent = agent().system("Be brief.").tool(echo("echo", &counter())).unwrap();
    let stage = Stage::new(small(scripts), agent).await;
    stage.run("Letters, please.").await;
    expect![[r#"
        t=000.0 message 3 user "More!"
        t=000.0 running
        t=000.0 running compacting Automatic
        t=003.0 message 4 summary Automatic "They said letters."
        t=003.0 running
        t=003.0 delta 1 attempt 2 First understudy/one
        t=003.0 delta 2 Text("More it is.")
        t=003.0 message 5 reply ["More it is."] End
        t=003.0 running
        t=003.0 idle Done
    "#]]
    .assert_eq(&stage.run("More!").await);
    let requests = stage.understudy.requests();
    let [first, summary, next] = &requests[..] else { panic!("{}", requests.len()) };
    expect![[r#"
        user "Letters, please."
        model "abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi … 24000 bytes"
        user "More!"
        user "Summarise this conversation so that it can go on from your s… 404 bytes"
    "#]]
    .assert_eq(&shown(summary));
    expect![[r#"
        user "Summary of the conversation so far, in place of it:\n\nThey sa… 71 bytes"
        user "(The newest message before this point, word for word:)"
        user "More!"
    "#]]
    .assert_eq(&shown(next));
    assert!(summary.entries.iter().zip(first.entries.iter()).all(|(one, other)| one == other), "the cached beginning");
    assert_eq!((&summary.system, &summary.tools), (&first.system, &first.tools));
    assert_eq!((&summary.tool_choice, &next.tool_choice), (&ToolChoice::None, &ToolChoice::Auto));
    assert_eq!((&next.system, &next.tools), (&first.system, &first.tools));
    expect![[r#"
        1.1 understudy/one Answered 0.0s known 0+0 guess 68+8000 0.000000
        3.1 understudy/one Answered 3.0s known 8500+9 guess 0+0 0.000000
        3.2 understudy/one Answered 0.0s known 0+0 guess 110+4 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// CR56: below the threshold nothing is shown, and no summary is requested.
#[tokio::test(start_paused = true)]
async fn a_window_with_room_is_left_alone() {
    let stage = Stage::new(small([says(long(20_900)), says("Here.")]), agent()).await;
    stage.run("Letters, please.").await;
    expect![[r#"
        t=000.0 message 3 user "More!"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Text("Here.")
        t=000.0 message 4 reply ["Here."] End
        t=000.0 running
        t=000.0 idle Done
    "#]]
    .assert_eq(&stage.run("More!").await);
    assert_eq!(stage.understudy.requests().len(), 2);
}

/// CR57, CR58: one large result lies between two requests. The second is measured before it is sent, the turn goes
/// on from the summary, and nothing is summarised again at its end.
#[tokio::test(start_paused = true)]
async fn the_next_request_decides_and_not_the_last() {
    let scripts = [
        script([call("echo", json!({"say": long(24_000)})), usage(90, 9_000), stop(Stop::ToolUse)]),
        says("Echoed letters."),
        says("All done."),
    ];
    let stage = Stage::new(small(scripts), agent().tool(echo("echo", &counter())).unwrap()).await;
    expect![[r#"
        t=000.0 message 1 user "Say letters."
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 call echo
        t=000.0 delta 3 CallInput { slot: 0, json: "{\"say\":\"abcdefghi abcdefghi abcde… 24061 bytes
        t=000.0 delta 4 CallEnded { slot: 0 }
        t=000.0 delta 5 usage Some((90, 9000))
        t=000.0 message 2 reply [echo({"say":"abcdefghi abcdefghi abcdefghi abcdefghi ab… 24050 bytes
        t=000.0 running
        t=000.0 running
        t=000.0 message 3 result 1.0 echo Done "heard abcdefghi abcdefghi abcdefghi abcd… 16301 bytes
        t=000.0 running
        t=000.0 running compacting Automatic
        t=000.0 message 4 summary Automatic "Echoed letters."
        t=000.0 running
        t=000.0 delta 1 attempt 2 First understudy/one
        t=000.0 delta 2 Text("All done.")
        t=000.0 message 5 reply ["All done."] End
        t=000.0 running
        t=000.0 idle Done
    "#]]
    .assert_eq(&brief_lines(&stage.run("Say letters.").await));
    expect![[r#"
        user "Summary of the conversation so far, in place of it:\n\nEchoed … 68 bytes"
        user "(The newest message before this point, word for word:)"
        user "Say letters."
    "#]]
    .assert_eq(&shown(stage.understudy.requests().last().unwrap()));
    assert_eq!(stage.understudy.scripts_left(), 0);
}

/// The usage that a provider reports calibrates the size of later requests, in the same turn and in later ones.
#[tokio::test(start_paused = true)]
async fn reported_usage_calibrates_the_measure() {
    // Five bytes a token: 30,000 bytes are 6,000 tokens, and fit. Two bytes a token: they are 15,000, and do not.
    for (tokens, summaries) in [(3_000, 0), (7_500, 1)] {
        let understudy = Understudy::improvising(move |request| match request.entries.len() {
            _ if asks_summary(request) => says("Short."),
            1 => says(long(15_000)),
            _ => script([text("Yes."), usage(tokens, 1), stop(Stop::End)]),
        });
        let understudy = understudy.with(|facts| facts.context_limit = Some(10_000));
        let stage = Stage::new(understudy, agent()).await;
        for words in ["Letters!".to_string(), "Are you sure?".into(), long(15_000)] {
            stage.run(&words).await;
        }
        let asked = stage.understudy.requests().iter().filter(|request| asks_summary(request)).count();
        assert_eq!(asked, summaries, "{tokens}");
    }
}

/// CL45: a window that the provider reported, and that is not configured, counts from the next turn on.
#[tokio::test(start_paused = true)]
async fn a_window_the_provider_told_is_kept_in_mind() {
    let told = Meta::from([("understudy".to_string(), json!({"context_window": 10_000}))]);
    let scripts = [script([text(long(24_000)), reply_meta(told), stop(Stop::End)]), says("Letters."), says("More.")];
    let stage = Stage::new(Understudy::new(scripts), agent()).await;
    stage.run("Letters!").await;
    stage.run("More!").await;
    assert_eq!(stage.told().await.lines().filter(|line| line.contains("summary")).count(), 1);
}

/// CL30, MC15: a requested summary is written: below the threshold, without usage, with automatic ones off. With nothing
/// new to summarise there is none, and no model is asked.
#[tokio::test(start_paused = true)]
async fn a_summary_that_was_asked_for_is_made() {
    let mut traces = Vec::new();
    for compaction in [CompactionThreshold::default(), CompactionThreshold::OFF] {
        let agent = Agent { compaction, ..agent() };
        let stage = Stage::new(small([says("Hello."), says("They said hello.")]), agent).await;
        stage.run("Hi.").await;
        for _ in 0..2 {
            let watch = stage.watch();
            stage.chat.submit(Command::Compact, None).await.unwrap();
            traces.push(watch.until_rest().await);
        }
        assert_eq!(stage.understudy.requests().len(), 2);
    }
    assert_eq!(traces[..2], traces[2..]);
    expect![[r#"
        t=000.0 running
        t=000.0 running compacting Asked
        t=000.0 message 3 summary Asked "They said hello."
        t=000.0 running
        t=000.0 idle Done
    "#]]
    .assert_eq(&traces[0]);
    expect![[r#"
        t=000.0 running
        t=000.0 idle Done
    "#]]
    .assert_eq(&traces[1]);
}

/// A handle says that there is nothing to summarise, before and after a summary, and nothing begins.
#[tokio::test(start_paused = true)]
async fn nothing_to_summarise_is_an_error() {
    let stage = Stage::new(small([says("Hello."), says("They said hello.")]), agent()).await;
    assert_eq!(stage.chat.compact().await, Err(SubmitError::NothingToCompact));
    stage.run("Hi.").await;
    stage.chat.compact().await.unwrap();
    stage.ended().await;
    let version = stage.chat.standing().await.unwrap().version;
    assert_eq!(stage.chat.compact().await, Err(SubmitError::NothingToCompact));
    assert_eq!(stage.chat.standing().await.unwrap().version, version);
    assert_eq!(stage.understudy.requests().len(), 2);
}

/// A reply alone behind a summary is something to summarise.
#[tokio::test(start_paused = true)]
async fn messages_after_a_summary_can_be_summarised() {
    let letters = script([call("echo", json!({"say": long(24_000)})), stop(Stop::ToolUse)]);
    let scripts = [letters, says("Echoed letters."), says("All done."), says("It is done.")];
    let stage = Stage::new(small(scripts), agent().tool(echo("echo", &counter())).unwrap()).await;
    stage.run("Say letters.").await;
    stage.chat.compact().await.unwrap();
    stage.ended().await;
    let texts: Vec<String> = summaries(&stage).await.into_iter().map(|summary| summary.text).collect();
    assert_eq!(texts, ["Echoed letters.", "It is done."]);
}

/// A summary is not requested in the background: no later process could use it.
#[tokio::test(start_paused = true)]
async fn a_summary_is_not_made_in_the_background() {
    let understudy = Understudy::new([says("Hello."), says("They said hello.")]);
    let understudy = understudy.with(|facts| facts.target = Target::new(WireFormat::OpenAiResponses, "understudy"));
    let stage = Stage::new(understudy, Agent { background: Background::On, ..agent() }).await;
    stage.run("Hi.").await;
    stage.chat.compact().await.unwrap();
    stage.ended().await;
    assert_eq!(stage.understudy.requests().iter().map(|r| r.background).collect::<Vec<_>>(), [true, false]);
}

/// CL33, MC08–MC10: a summary says why it was made, of how much, and how long that took.
#[tokio::test(start_paused = true)]
async fn a_summary_says_why_and_of_how_much() {
    let slow = script([wait(7), text("Short."), usage(1_234, 2), stop(Stop::End)]);
    let stage =
        Stage::new(small([says("Hello."), slow, says(long(24_000)), says("Letters."), says("Bye.")]), agent()).await;
    stage.run("Hi.").await;
    stage.chat.compact().await.unwrap();
    stage.ended().await;
    stage.run("Letters!").await;
    stage.run("Bye!").await;
    let summaries = summaries(&stage).await;
    let figures: Vec<_> = summaries.iter().map(|s| (s.source, s.tokens_before, s.runtime.as_secs())).collect();
    expect!["[(Asked, 1234, 7), (Automatic, 8178, 0)]"].assert_eq(&format!("{figures:?}"));
}

/// Constraints that one summary wrote down are in every later one, whatever the model makes of them.
#[tokio::test(start_paused = true)]
async fn constraints_outlive_every_summary() {
    let first = "We build a boat.\n\n## Constraints\n- no plastic\n- under 5 m";
    let scripts =
        [says("Ok."), says(first), says("Ok."), says("Half done."), says("Ok."), says("Done.\n## Constraints\n- blue")];
    let stage = Stage::new(Understudy::new(scripts), agent()).await;
    for words in ["A boat!", "Go on.", "Go on!"] {
        stage.run(words).await;
        stage.chat.compact().await.unwrap();
        stage.ended().await;
    }
    let last = summaries(&stage).await.pop().unwrap();
    expect![[r#"
        Done.
        ## Constraints
        - blue
        - no plastic
        - under 5 m"#]]
    .assert_eq(&last.text);
}

/// Everything a person said since the model last spoke is in the next prompt word for word, however often and whenever
/// summaries are made.
#[tokio::test(start_paused = true)]
async fn the_newest_words_are_never_summarised_away() {
    let understudy = Understudy::improvising(|request| {
        let many = request.entries.len() > 2;
        match asks_summary(request) {
            true => says("Something was said."),
            false if many => says(long(6_000)),
            false => script([text(long(9_000)), call("echo", json!({"say": long(9_000)})), stop(Stop::ToolUse)]),
        }
    });
    let understudy = understudy.with(|facts| facts.context_limit = Some(10_000));
    let stage = Stage::new(understudy, agent().tool(echo("echo", &counter())).unwrap()).await;
    let mut newest = Vec::new();
    for turn in 0..12 {
        let words = format!("Request {turn}: {}", long(turn * 300));
        stage.run(&words).await;
        if turn % 5 == 4 {
            stage.chat.compact().await.unwrap();
            stage.ended().await;
        }
        newest.push(words);
        let requests = stage.understudy.requests();
        let asked: Vec<&Request> = requests.iter().filter(|request| !asks_summary(request)).collect();
        assert!(words_of(asked.last().unwrap()).contains(newest.last().unwrap()), "turn {turn}");
    }
    let count = summaries(&stage).await.len();
    assert!(count >= 6, "{count}");
}

fn words_of(request: &Request) -> Vec<String> {
    words(request).into_iter().map(String::from).collect()
}

/// The text of the step hook comes after a summary that is made between hook and step.
#[tokio::test(start_paused = true)]
async fn the_text_of_the_hook_is_not_lost() {
    struct Clock;
    #[async_trait]
    impl Hook for Clock {
        async fn before_step(&self, _: &Chat) -> Option<String> {
            Some("It is noon.".into())
        }
    }
    let agent = Agent { hook: Some(Arc::new(Clock)), ..agent() };
    let stage = Stage::new(small([says(long(24_000)), says("Letters."), says("Noon.")]), agent).await;
    stage.run("Letters!").await;
    stage.run("What time is it?").await;
    expect![[r#"
        message 1 user "Letters!"
        message 2 context "It is noon."
        message 3 reply ["abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi ab… 24024 bytes
        message 4 user "What time is it?"
        message 5 context "It is noon."
        message 6 summary Automatic "Letters."
        message 7 context "It is noon."
        message 8 reply ["Noon."] End
    "#]]
    .assert_eq(&brief_lines(&stage.told().await));
    expect![[r#"
        user "Summary of the conversation so far, in place of it:\n\nLetters… 61 bytes"
        user "(The newest message before this point, word for word:)"
        user "What time is it?"
        user "It is noon."
    "#]]
    .assert_eq(&shown(stage.understudy.requests().last().unwrap()));
}

/// The instructions of hooks are sent with every request, also that for a summary, and in the next process.
#[tokio::test(start_paused = true)]
async fn the_instructions_of_the_hook_are_sent_with_every_request() {
    struct Rules;
    #[async_trait]
    impl Hook for Rules {
        async fn before_step(&self, _: &Chat) -> Option<String> {
            None
        }

        async fn instructions(&self, chat: &Chat) -> Option<String> {
            Some(format!("Rules of {}.", chat.agent))
        }
    }
    let hooks: Vec<Arc<dyn Hook>> = vec![Arc::new(Rules), Arc::new(Rules)];
    let agent = Agent { hook: Some(Arc::new(hooks)), ..agent().system("Be brief.") };
    let stage = Stage::new(small([says(long(24_000)), says("Letters."), says("Noon.")]), agent.clone()).await;
    stage.run("Letters!").await;
    stage.run("What time is it?").await;
    let before = stage.understudy.requests();
    let stage = stage.moved(small([says("Moved.")]), agent).await;
    stage.chat.compact().await.unwrap();
    stage.chat.rest().await.unwrap();
    let after = stage.understudy.requests();
    assert_eq!((before.len(), after.len()), (3, 1));
    for request in before.iter().chain(&after) {
        assert_eq!(request.system, ["Be brief.", "Rules of it.\n\nRules of it."]);
    }
}

/// CR60, MC14: summaries let the turn go on, at most so often; after that it goes on as long as it fits.
#[tokio::test(start_paused = true)]
async fn a_turn_is_summarised_a_bounded_number_of_times() {
    let understudy = Understudy::improvising(|request| match request.entries.len() {
        _ if asks_summary(request) => says("Echoed."),
        5.. => says("Enough."),
        _ => script([call("echo", json!({"say": long(5_500)})), stop(Stop::ToolUse)]),
    });
    let understudy = understudy.with(|facts| facts.context_limit = Some(10_000));
    let limits = Limits { compactions_max: 2, same_call_max: 99, ..Limits::default() };
    let stage = Stage::new(understudy, agent().limits(limits).tool(echo("echo", &counter())).unwrap()).await;
    stage.run("Say letters for ever.").await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    let asked: String = stage.understudy.requests().iter().map(|r| if asks_summary(r) { 'S' } else { '.' }).collect();
    expect!["..S..S..."].assert_eq(&asked);
}

/// Where even a summary stays above the threshold, it is not made before every step; and where it went below, the
/// next one is made when its time comes, also by another driver.
#[tokio::test(start_paused = true)]
async fn a_threshold_out_of_reach_is_not_reached_for_again_and_again() {
    for (instructions, answer, summaries) in [(21_600, 600, 1), (1_000, 7_000, 3)] {
        let understudy = Understudy::improvising(move |request| match asks_summary(request) {
            true => says("Short."),
            false => says(long(answer)),
        });
        let understudy = understudy.with(|facts| facts.context_limit = Some(10_000));
        let stage = Stage::new(understudy, agent().system(long(instructions))).await;
        for turn in 0..10 {
            stage.run(&format!("Turn {turn}.")).await;
        }
        assert_eq!(stage.told().await.matches(" summary ").count(), summaries, "{instructions}");
    }
}

/// After a summary the transcript grows as before: what was sent once is sent again unchanged, so caches hold.
#[tokio::test(start_paused = true)]
async fn after_a_summary_requests_grow_at_their_end() {
    let step = || script([text("Hm."), call("echo", json!({"say": "a"})), stop(Stop::ToolUse)]);
    let scripts = [says(long(24_000)), says("Letters."), step(), step(), says("Done."), step(), says("Done again.")];
    let stage = Stage::new(small(scripts), agent().tool(echo("echo", &counter())).unwrap()).await;
    for words in ["Letters!", "Go.", "Again."] {
        stage.run(words).await;
    }
    let requests = stage.understudy.requests();
    let after: Vec<&Request> = requests.iter().skip_while(|request| !asks_summary(request)).skip(1).collect();
    assert_eq!(after.len(), 5);
    for pair in after.windows(2) {
        let (short, long) = (&pair[0].entries, &pair[1].entries);
        assert!(short.len() < long.len() && short.iter().eq(long.iter().take(short.len())));
    }
}
