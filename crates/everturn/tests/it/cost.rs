//! Cost of attempts: one row per attempt, known apart from estimated, and totals that are their sum.

use everturn::core::chat::TurnEnd;
use everturn::core::cost::{Micros, Price, TokenCount, UsageReport};
use everturn::core::delta::Delta;
use everturn::core::error::{Cause, ErrorKind};
use everturn::core::fact::Totals;
use everturn::core::ids::Timestamp;
use everturn::core::limits::Limits;
use everturn::core::message::Stop;
use everturn::{Agent, Engine};
use everturn_understudy::{
    Cue, Script, Understudy, UnderstudyRequest, call, cut, fail, hang, refuse, response_id, script, stop, text, usage,
    wait,
};
use expect_test::expect;
use serde_json::json;

use crate::compaction::{long, says};
use crate::kept::{WAITS, background, begun, keeps};
use crate::read::{adds_up, rows};
use crate::stage::{Stage, agent, counter, echo};

/// A million tokens cost 3 in, 15 out, a tenth of that from the cache.
const PRICE: Price = Price {
    input: Micros::units(3),
    output: Micros::units(15),
    cache_read: Micros(300_000),
    cache_write: Micros(3_750_000),
    above: None,
};

fn priced(scripts: impl IntoIterator<Item = Script>) -> Understudy {
    Understudy::new(scripts).with(|facts| facts.price = Some(PRICE))
}

fn reports(report: UsageReport) -> Cue {
    Cue::Say(vec![Delta::Usage(report.into())])
}

async fn totals(stage: &Stage) -> Totals {
    stage.chat.view().await.unwrap().standing.unwrap().totals
}

/// I19: a chat may have any number of attempts, and they are read page by page, each once.
#[tokio::test(start_paused = true)]
async fn attempts_are_told_page_by_page() {
    const TURNS: usize = 520;
    let says = || script([text("Yes."), usage(1_000, 1), stop(Stop::End)]);
    let stage = Stage::new(priced((0..TURNS).map(|_| says())), agent()).await;
    for _ in 0..TURNS {
        stage.chat.send("And now?").await.unwrap();
        stage.chat.rest().await.unwrap();
    }
    let mut pages = Vec::new();
    for seen in [0, 500, TURNS, TURNS + 1] {
        pages.push(stage.chat.attempts(seen).await.unwrap().len());
    }
    assert_eq!(pages, [500, TURNS - 500, 0, 0]);
    adds_up(&stage.chat).await;
}

/// Without reported usage, or with 0, all is estimated; and a continuation is sent with what was said before it.
#[tokio::test(start_paused = true)]
async fn unreported_usage_is_estimated_with_all_that_was_sent() {
    let said = "Kelp is a large brown seaweed. ".repeat(100);
    let scripts = [
        script([usage(0, 0), text(&said), fail(ErrorKind::Timeout, Cause::Reset)]),
        script([text("It grows in cold water."), usage(0, 0), stop(Stop::End)]),
    ];
    let stage = Stage::new(priced(scripts), agent()).await;
    stage.run("What is kelp?").await;
    let attempts = stage.chat.attempts(0).await.unwrap();
    let [first, second] = attempts.as_slice() else { panic!("{attempts:?}") };
    assert_eq!((first.tally.known, second.tally.known), Default::default());
    let (sent, went_on) = (first.tally.estimated.input, second.tally.estimated.input);
    assert!(sent > 0 && went_on >= sent + said.len() as u64 / 4, "{sent}, then {went_on}");
    assert!(second.tally.estimated.output > 0);
}

/// AW03: a later report of an attempt replaces the earlier one; attempts, steps and turns add up.
#[tokio::test(start_paused = true)]
async fn usage_adds_up() {
    let cached = UsageReport {
        input: 100_u64.into(),
        output: 4_u64.into(),
        cache_read: 10_000_u64.into(),
        ..UsageReport::default()
    };
    let scripts = [
        script([
            usage(1_000, 1),
            text("Hm."),
            usage(1_000, 2),
            call("echo", json!({"say": "a"})),
            usage(1_000, 50),
            stop(Stop::ToolUse),
        ]),
        script([text("Done."), reports(cached), stop(Stop::End)]),
        script([text("Bye."), usage(2_000, 3), stop(Stop::End)]),
    ];
    let stage = Stage::new(priced(scripts), agent().tool(echo("echo", &counter())).unwrap()).await;
    stage.run("Go.").await;
    stage.run("Bye.").await;
    expect![[r#"
        1.1 understudy/one Answered 0.0s known 1000+50 guess 0+0 0.003750
        2.1 understudy/one Answered 0.0s known 10100+4 guess 0+0 0.003360
        4.1 understudy/one Answered 0.0s known 2000+3 guess 0+0 0.006045
    "#]]
    .assert_eq(&rows(&stage.chat).await);
    expect![[r#"
        Totals {
            tally: Tally {
                known: Usage {
                    input: 3100,
                    output: 57,
                    reasoning: 0,
                    cache_read: 10000,
                    cache_write: 0,
                },
                estimated: Usage {
                    input: 0,
                    output: 0,
                    reasoning: 0,
                    cache_read: 0,
                    cache_write: 0,
                },
            },
            spend: Spend {
                known: Micros(
                    13155,
                ),
                estimated: Micros(
                    0,
                ),
            },
            attempts: 3,
            steps: 3,
            time: 0ns,
            alive: 0ns,
        }
    "#]]
    .assert_debug_eq(&totals(&stage).await);
}

/// AW04: counts that cannot be are unknown, and estimated instead; no total shrinks or overflows.
#[tokio::test(start_paused = true)]
async fn impossible_counts_are_unknown() {
    let absurd = [(-5_i64).into(), i64::MIN.into(), u64::MAX.into(), TokenCount::Unknown];
    let answer = |count| {
        script([
            text("Yes."),
            reports(UsageReport { input: count, output: count, ..UsageReport::default() }),
            stop(Stop::End),
        ])
    };
    let stage = Stage::new(priced(absurd.map(answer)), agent()).await;
    let mut before = Totals::default();
    for _ in absurd {
        stage.run("Sure?").await;
        let now = totals(&stage).await;
        assert!(now.tally.total() > before.tally.total() && now.spend.total() > before.spend.total());
        assert_eq!((now.tally.known.total(), now.spend.known), (0, Micros(0)));
        before = now;
    }
    expect![[r#"
        1.1 understudy/one Answered 0.0s known 0+0 guess 2+2 0.000036
        3.1 understudy/one Answered 0.0s known 0+0 guess 5+2 0.000045
        5.1 understudy/one Answered 0.0s known 0+0 guess 8+2 0.000054
        7.1 understudy/one Answered 0.0s known 0+0 guess 11+2 0.000063
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// Attempts that broke, were refused, interrupted or overtaken by an edit have their row. What they reported is known,
/// what they had no time to report is estimated, and a refusal costs nothing.
#[tokio::test(start_paused = true)]
async fn every_attempt_has_its_row() {
    let scripts = [
        script([refuse(529)]),
        script([usage(1_000, 1), text(long(300)), cut()]),
        script([usage(1_100, 1), text("and so on and on"), hang()]),
        script([text("What is"), hang()]),
        script([usage(900, 2), text("Ok."), stop(Stop::End)]),
    ];
    let stage = Stage::new(priced(scripts), agent()).await;
    let mut watch = stage.watch();
    stage.chat.send("Go.").await.unwrap();
    watch.until_text("and so on").await;
    stage.chat.interrupt().await.unwrap();
    let receipt = stage.chat.send("Once more?").await.unwrap();
    stage.chat.outcome(receipt).await.unwrap().unwrap();
    watch.until_text("What is").await;
    let newest = watch.view.messages.last().unwrap().id;
    stage.chat.edit(newest, "Never mind.").await.unwrap();
    watch.until_rest().await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    expect![[r#"
        1.1 understudy/one Overloaded (Refused) 0.0s known 0+0 guess 0+0 0.000000
        1.2 understudy/one Truncated (Truncated) 0.0s known 1000+1 guess 0+99 0.004500
        1.3 understudy/one Interrupted 0.0s known 1100+1 guess 0+5 0.003390
        3.1 understudy/one Lost 0.0s known 0+0 guess 110+3 0.000375
        4.1 understudy/one Answered 0.0s known 900+2 guess 0+0 0.002730
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// An attempt of a process that is gone gets its row as well.
#[tokio::test(start_paused = true)]
async fn an_attempt_of_a_lost_process_has_its_row() {
    let understudy = priced([
        script([usage(1_000, 1), text("The quick brown "), wait(60), text("lost")]),
        script([text("fox."), usage(1_050, 2), stop(Stop::End)]),
    ]);
    let stage = Stage::new(understudy, agent()).await;
    let mut watch = stage.watch();
    stage.chat.send("Go.").await.unwrap();
    watch.until_text("brown").await;
    stage.engine.shutdown().await;
    let builder = Engine::builder().store(stage.store.clone()).provider(stage.understudy.clone()).agent("it", agent());
    let next = builder.seed(8).starting_at(Timestamp(3_600_000)).start();
    next.resume().await.unwrap();
    assert_eq!(next.chat(stage.chat.id()).rest().await.unwrap().ended(), Some(TurnEnd::Done));
    assert_eq!(stage.replies().await, "The quick brown fox.");
    expect![[r#"
        1.1 understudy/one Truncated (Resumed) 0.0s known 1000+1 guess 0+5 0.003090
        1.2 understudy/one Answered 0.0s known 1050+2 guess 0+0 0.003180
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// A generation that is found again is one generation, and paid once: by the attempt that ends it.
#[tokio::test(start_paused = true)]
async fn a_generation_found_again_is_paid_once() {
    let cut = |words: &str| script([text(words), usage(1_000, 1), fail(ErrorKind::Timeout, Cause::Reset)]);
    let understudy = priced([
        script([response_id("r1"), usage(1_000, 1), text("The quick "), fail(ErrorKind::Timeout, Cause::Reset)]),
        cut("brown "),
        script([text("fox."), usage(1_000, 20), stop(Stop::End)]),
    ]);
    let stage = Stage::new(understudy.with(keeps), background()).await;
    expect![[r#"
        t=000.0 message 1 user "Go."
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 ResponseId("r1")
        t=000.0 delta 3 Handle(GenerationHandle { id: "r1", cursor: "0" })
        t=000.0 delta 4 usage Some((1000, 1))
        t=000.0 delta 5 Text("The quick ")
        t=000.0 running retry Timeout until 0.9
        t=000.9 delta 6 attempt 2 Reattach understudy/one
        t=000.9 delta 7 Text("brown ")
        t=000.9 delta 8 usage Some((1000, 1))
        t=000.9 running retry Timeout until 1.5
        t=001.5 delta 9 attempt 3 Reattach understudy/one
        t=001.5 delta 10 Text("fox.")
        t=001.5 delta 11 usage Some((1000, 20))
        t=001.5 message 2 reply ["The quick brown fox."] End
        t=001.5 running
        t=001.5 idle Done
    "#]]
    .assert_eq(&stage.run("Go.").await);
    assert!(matches!(
        &stage.understudy.asked()[..],
        [UnderstudyRequest::Answer(_), UnderstudyRequest::Reattach(_), UnderstudyRequest::Reattach(_)]
    ));
    expect![[r#"
        1.1 understudy/one Timeout (Reset) 0.0s known 0+0 guess 0+0 0.000000
        1.2 understudy/one Timeout (Reset) 0.0s known 0+0 guess 0+0 0.000000
        1.3 understudy/one Answered 0.0s known 1000+20 guess 0+0 0.003300
    "#]]
    .assert_eq(&rows(&stage.chat).await);
    assert_eq!(totals(&stage).await.tally.total(), 1_020);
}

/// A generation of a million tokens that breaks, and can be found again.
fn dear() -> Script {
    script([response_id("r1"), usage(1_000_000, 1), text("The quick "), fail(ErrorKind::Timeout, Cause::Reset)])
}

fn thrifty(agent: Agent, cost_max: Micros) -> Agent {
    let mut limits = Limits::default();
    limits.retry.cost_max = cost_max;
    agent.limits(limits)
}

/// AW16: the budget of retries, too, pays once for a generation that is found again, however often it breaks.
#[tokio::test(start_paused = true)]
async fn a_generation_found_again_is_spent_once() {
    let cut = |words: &str| script([text(words), usage(1_000_000, 1), fail(ErrorKind::Timeout, Cause::Reset)]);
    let scripts = [dear(), cut("brown "), cut("fox "), script([text("jumps."), usage(1_000_000, 20), stop(Stop::End)])];
    let stage = Stage::new(priced(scripts).with(keeps), thrifty(background(), Micros::units(5))).await;
    stage.run("Go.").await;
    assert_eq!((stage.ended().await, stage.replies().await.as_str()), (TurnEnd::Done, "The quick brown fox jumps."));
}

/// AW16: and is billed for it, if it cannot be found again.
#[tokio::test(start_paused = true)]
async fn a_generation_that_is_lost_is_spent() {
    let stage = begun(priced([dear()]).with(keeps), WAITS).await;
    let next = priced([script([fail(ErrorKind::Timeout, Cause::Reset)]), says("never")]).with(keeps);
    let stage = stage.moved(next, thrifty(agent(), Micros::units(3))).await;
    let TurnEnd::Failed(failure) = stage.ended().await else { panic!("it failed") };
    assert_eq!((failure.detail.as_str(), failure.attempts), ("it cost more than retries may cost", 3));
}

/// AW16: trying again has a budget in money. When that is spent the turn fails, and what was shown stays.
#[tokio::test(start_paused = true)]
async fn retries_stop_when_they_have_cost_enough() {
    let mut limits = Limits::default();
    limits.retry.cost_max = Micros::units(5);
    let dear = |words: &str| script([usage(1_000_000, 1), text(words), fail(ErrorKind::Timeout, Cause::Reset)]);
    let stage = Stage::new(priced([dear("The quick "), dear("brown "), dear("fox ")]), agent().limits(limits)).await;
    stage.run("Go.").await;
    let TurnEnd::Failed(failure) = stage.ended().await else { panic!() };
    expect!["it cost more than retries may cost (2 attempts)"]
        .assert_eq(&format!("{} ({} attempts)", failure.detail, failure.attempts));
    expect![[r#"
        message 1 user "Go."
        message 2 reply ["The quick brown "] Broken
    "#]]
    .assert_eq(&stage.told().await);
    assert_eq!(stage.understudy.scripts_left(), 1);
}

/// A provider that refuses for a while costs nothing, so the money is there when it is back.
#[tokio::test(start_paused = true)]
async fn refusals_spend_no_money() {
    let mut limits = Limits::default();
    limits.retry.cost_max = Micros(1);
    limits.turn_cost_max = Micros(400_000);
    let scripts = [script([refuse(529)]), script([refuse(503)]), script([refuse(429)]), says("Back.")];
    let stage = Stage::new(priced(scripts), agent().limits(limits)).await;
    stage.run(&long(300_000)).await;
    assert_eq!((stage.ended().await, stage.replies().await.as_str()), (TurnEnd::Done, "Back."));
    assert_eq!(totals(&stage).await.spend.estimated, Micros(300_000 + 30));
}

/// A turn has a budget in money and in tokens, summaries and retries included.
#[tokio::test(start_paused = true)]
async fn a_turn_ends_when_it_has_cost_enough() {
    let step = || script([text("Hm."), call("echo", json!({"say": "a"})), usage(100_000, 10), stop(Stop::ToolUse)]);
    let dear = Limits { turn_cost_max: Micros(600_000), ..Limits::default() };
    let many = Limits { turn_tokens_max: 200_000, ..Limits::default() };
    for (limits, end) in [(dear, TurnEnd::CostMax), (many, TurnEnd::TokensMax)] {
        let agent = agent().limits(limits).tool(echo("echo", &counter())).unwrap();
        let stage = Stage::new(priced((0..5).map(|_| step())), agent).await;
        stage.run("Go.").await;
        assert_eq!((stage.ended().await, stage.understudy.scripts_left()), (end, 3));
    }
}

/// A bound that is reached between two attempts ends the turn by its name, and what was shown stays.
#[tokio::test(start_paused = true)]
async fn a_turn_that_has_cost_enough_keeps_what_it_has_shown() {
    let limits = Limits { turn_cost_max: Micros::units(1), ..Limits::default() };
    let dear = script([usage(1_000_000, 1), text("The quick "), fail(ErrorKind::Timeout, Cause::Reset)]);
    let stage = Stage::new(priced([dear, says("never")]), agent().limits(limits)).await;
    expect![[r#"
        t=000.0 message 1 user "Go."
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 usage Some((1000000, 1))
        t=000.0 delta 3 Text("The quick ")
        t=000.0 running retry Timeout until 0.9
        t=000.0 message 2 reply ["The quick "] Broken
        t=000.0 idle CostMax
    "#]]
    .assert_eq(&stage.run("Go.").await);
    assert_eq!((stage.ended().await, stage.understudy.scripts_left()), (TurnEnd::CostMax, 1));
}
