//! What parents and their sub-agents share: bounds, budgets, rules, asks, and their end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everturn::core::budget::{Allowance, Budget};
use everturn::core::chat::{AskBelow, TurnEnd};
use everturn::core::command::{AnswerContent, CallAnswer};
use everturn::core::ids::{ChatId, MessageId};
use everturn::core::limits::Limits;
use everturn::core::message::Stop;
use everturn::core::permission::Permissions;
use everturn::core::prompt::{PromptPart, Request};
use everturn::core::status::Status;
use everturn::stores::{ChatQuery, Heading, NewChat, Store as _, SubAgentChats};
use everturn::{Agent, Approval, Builder, ChatHandle, Policy, SubAgent};
use everturn_understudy::{Cue, Script, Understudy, call, script, stop, text, usage, wait};
use serde_json::json;
use tokio::time::sleep;

use crate::stage::{Stage, agent, count, counter, echo};
use crate::tools::{ANY, results};

/// What the model was asked first.
fn task(request: &Request) -> String {
    let texts = request.entries.iter().flat_map(|entry| &entry.parts).filter_map(|part| match part {
        PromptPart::Text(text) => Some(text.text.to_string()),
        _ => None,
    });
    texts.take(1).collect()
}

/// Plays a script by what was asked first and how many replies there were; then says that it is done.
fn cast(scripts: impl IntoIterator<Item = ((&'static str, usize), Script)>) -> Understudy {
    let scripts: BTreeMap<(String, usize), Script> =
        scripts.into_iter().map(|((task, step), script)| ((task.to_owned(), step), script)).collect();
    Understudy::improvising(move |request| {
        let step = request.entries.iter().filter(|entry| is_reply(entry)).count();
        scripts.get(&(task(request), step)).cloned().unwrap_or_else(|| says("Done."))
    })
}

fn is_reply(entry: &everturn::core::prompt::PromptEntry) -> bool {
    entry.role == everturn::core::prompt::Role::Assistant
}

fn says(words: &str) -> Script {
    script([text(words), usage(90, 10), stop(Stop::End)])
}

fn calls(calls: impl IntoIterator<Item = Cue>) -> Script {
    script(calls.into_iter().chain([usage(90, 10), stop(Stop::ToolUse)]))
}

fn ask(task: &str) -> Cue {
    call("ask_helper", json!({ "task": task }))
}

/// A parent and its helper, which may ask the helper too.
fn parent() -> Agent {
    agent().tool(SubAgent::new("helper", "Helps.")).unwrap()
}

async fn built(understudy: Understudy, parent: Agent, helper: Agent) -> Stage {
    Stage::built(understudy, parent, |builder| builder.agent("helper", helper)).await
}

async fn children(stage: &Stage, parent: ChatId) -> Vec<Heading> {
    let query = ChatQuery { sub_agents: SubAgentChats::Of(parent), ..ChatQuery::default() };
    stage.store.headings(&query).await.unwrap()
}

async fn child(stage: &Stage, parent: ChatId) -> ChatHandle {
    stage.engine.chat(children(stage, parent).await[0].id)
}

/// Waits until the model was asked so often.
async fn asked(stage: &Stage, times: usize) {
    while stage.understudy.requests().len() < times {
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until a chat waits for people.
async fn awaiting(chat: &ChatHandle) {
    while chat.standing().await.unwrap().status != Status::Awaiting {
        sleep(Duration::from_millis(10)).await;
    }
}

/// How the turn of a chat ended, that may wait for its sub-agents' asks meanwhile.
async fn finished(chat: &ChatHandle) -> Option<TurnEnd> {
    loop {
        let standing = chat.standing().await.unwrap();
        if matches!(standing.status, Status::Idle | Status::Failed) {
            return standing.ended;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// TA04: of five sub-agents two work at once, the next begins when one has ended, and the fourth and fifth are refused with the
/// reason. The parent goes on.
#[tokio::test(start_paused = true)]
async fn so_many_sub_agents_work_at_once_and_in_a_turn() {
    let slow = |words: &str| script([wait(10), text(words), usage(1, 1), stop(Stop::End)]);
    let understudy = cast([
        (("go", 0), calls(["one", "two", "three", "four", "five"].map(ask))),
        (("one", 0), slow("1")),
        (("two", 0), slow("2")),
        (("three", 0), slow("3")),
    ]);
    let limits = Limits { sub_agents_max: 3, sub_agents_at_once_max: 2, ..Limits::default() };
    let stage = built(understudy, parent().limits(limits), agent()).await;
    stage.chat.send("go").await.unwrap();
    sleep(Duration::from_secs(9)).await;
    let tasks = |stage: &Stage| stage.understudy.requests().iter().map(task).collect::<Vec<_>>();
    assert_eq!(tasks(&stage), ["go", "one", "two"]);
    assert_eq!(children(&stage, stage.chat.id()).await.len(), 2);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(tasks(&stage), ["go", "one", "two", "three"], "it begins as soon as one has ended");
    assert_eq!(stage.ended().await, TurnEnd::Done);
    let told = results(stage.understudy.requests().last().unwrap());
    let refused: Vec<bool> = told.iter().map(|(_, failed, _)| *failed).collect();
    assert_eq!(refused, [false, false, false, true, true], "{told:?}");
    assert!(told[3].2.contains("at most 3 sub-agents"), "{told:?}");
    assert_eq!(stage.replies().await, "|Done.");
}

/// TA04: what a sub-agent uses counts against its parent's turn. It is refused more than that had left, its parent is told
/// why, and its use is reported with the parent.
#[tokio::test(start_paused = true)]
async fn a_sub_agent_uses_no_more_than_its_parent_has_left() {
    let understudy = cast([
        (("go", 0), calls([ask("dig")])),
        (("dig", 0), calls([call("say", json!({"say": "a"}))])),
        (("dig", 1), calls([call("say", json!({"say": "b"}))])),
        (("dig", 2), calls([call("say", json!({"say": "c"}))])),
    ]);
    let limits = Limits { turn_tokens_max: 300, ..Limits::default() };
    let says = counter();
    let helper = agent().tool(echo("say", &says)).unwrap();
    let stage = built(understudy, parent().limits(limits), helper).await;
    stage.run("go").await;
    assert_eq!(count(&says), 2, "200 tokens were left, and each answer takes 100");
    assert_eq!(stage.ended().await, TurnEnd::TokensMax);
    let told = stage.told().await;
    assert!(told.contains("the turn of `it`, which asked, has used the tokens that a turn may use"), "{told}");
    let standing = stage.chat.standing().await.unwrap();
    assert_eq!((standing.totals.tally.total(), standing.delegated.tokens, standing.delegated.steps), (100, 200, 2));
    let of_child = child(&stage, stage.chat.id()).await.standing().await.unwrap();
    assert_eq!(of_child.totals.tally.total(), 200);
}

/// TA04: the budget of a chat holds for it and its sub-agents together.
#[tokio::test(start_paused = true)]
async fn a_chats_budget_bounds_its_sub_agents_too() {
    let scripts = || {
        cast([
            (("go", 0), calls([ask("dig")])),
            (("dig", 0), calls([call("say", json!({"say": "a"}))])),
            (("dig", 1), calls([call("say", json!({"say": "b"}))])),
        ])
    };
    let chat = Allowance { steps_max: Some(2), ..Allowance::default() };
    let budget = Budget { chat, ..Budget::default() };
    let runs = counter();
    let helper = agent().tool(echo("say", &runs)).unwrap();
    let change = |builder: Builder| builder.agent("helper", helper).budget(budget);
    let stage = Stage::built(scripts(), parent(), change).await;
    stage.run("go").await;
    assert_eq!(count(&runs), 1, "one step of the parent and one of the sub-agent");
    let told = stage.told().await;
    assert!(told.contains("2 of 2 steps made"), "{told}");
    assert!(matches!(stage.ended().await, TurnEnd::Failed(_)), "nor may the parent go on");
}

/// A sub-agent may do no more than the agents above it: what they deny is neither offered nor run, and what they ask about is
/// asked, whatever its own rules say.
#[tokio::test(start_paused = true)]
async fn rules_of_a_parent_hold_for_its_sub_agents() {
    let scripts = || {
        cast([
            (("go", 0), calls([ask("deeper")])),
            (("deeper", 0), calls([ask("dig")])),
            (("dig", 0), calls([call("say", json!({"say": "a"})), call("shout", json!({"say": "b"}))])),
        ])
    };
    let (said, shouted) = (counter(), counter());
    let equipped = |agent: Agent| agent.tool(echo("say", &said)).unwrap().tool(echo("shout", &shouted)).unwrap();
    let rules = Permissions::default().deny(["say"]).unwrap().ask(["shout"]).unwrap();
    let parent_agent = equipped(parent()).permissions(rules).unwrap();
    let allows = Permissions::default().allow(["say", "shout"]).unwrap();
    let helper = equipped(parent()).permissions(allows).unwrap();
    let stage = built(scripts(), parent_agent, helper).await;
    stage.chat.send("go").await.unwrap();
    asked(&stage, 3).await;
    let offered: Vec<String> = stage.understudy.requests()[2].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, ["ask_helper", "shout"]);
    let deeper = child(&stage, stage.chat.id()).await;
    let deepest = child(&stage, deeper.id()).await;
    awaiting(&deepest).await;
    let ask = deepest.standing().await.unwrap().asks[0].clone();
    assert_eq!(ask.ask.as_ref().unwrap().basis, r#"ask = "shout" of `it`"#);
    deepest
        .answer([CallAnswer { call: ask.uid, what: AnswerContent::Approve { input_hash: ask.input_hash } }])
        .await
        .unwrap();
    assert_eq!(finished(&stage.chat).await, Some(TurnEnd::Done));
    assert_eq!((count(&said), count(&shouted)), (0, 1));
    let told = stage.understudy.requests()[3..].iter().flat_map(results).map(|result| result.2).collect::<String>();
    assert!(told.contains(r#"not permitted here (deny = "say" of `it`)"#), "{told}");
}

/// TA06: an ask of a sub-agent's sub-agent is seen at the chat that a person began, which waits for people meanwhile. It is
/// answered at its chat, also by another process, and all of them go on.
#[tokio::test(start_paused = true)]
async fn an_ask_of_a_grandchild_is_seen_at_the_top() {
    let scripts = || {
        cast([
            (("go", 0), calls([ask("deeper"), call("look", json!({"say": "x"}))])),
            (("deeper", 0), calls([ask("dig")])),
            (("dig", 0), calls([call("say", json!({"say": "a"})), call("say", json!({"say": "b"}))])),
        ])
    };
    let runs = counter();
    let approved = Policy { approval: Approval::Needed, ..ANY };
    let say = everturn::tool("say", "Says it.", {
        let runs = runs.clone();
        move |_, _: serde_json::Value| {
            runs.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            async { Ok("said") }
        }
    })
    .with(approved);
    let helper = parent().tool(say).unwrap();
    let looks = counter();
    let top = parent().tool(echo("look", &looks)).unwrap();
    let stage = built(scripts(), top.clone(), helper.clone()).await;
    stage.chat.send("go").await.unwrap();
    awaiting(&stage.chat).await;
    let deeper = child(&stage, stage.chat.id()).await;
    let deepest = child(&stage, deeper.id()).await;
    let asks = deepest.standing().await.unwrap().asks;
    let below = |asks: &[everturn::core::chat::OpenCall]| -> Vec<AskBelow> {
        asks.iter().map(|open| AskBelow { chat: deepest.id(), call: open.uid }).collect()
    };
    for chat in [&stage.chat, &deeper] {
        let standing = chat.standing().await.unwrap();
        assert_eq!((standing.status, standing.asks), (Status::Awaiting, Vec::new()));
        assert_eq!(standing.asks_below, below(&asks));
    }
    assert_eq!(count(&looks), 1, "what stands beside it was done");
    let approve = |open: &everturn::core::chat::OpenCall| CallAnswer {
        call: open.uid,
        what: AnswerContent::Approve { input_hash: open.input_hash },
    };
    deepest.answer([approve(&asks[0])]).await.unwrap();
    while stage.chat.standing().await.unwrap().asks_below != below(&asks[1..]) {
        sleep(Duration::from_millis(10)).await;
    }
    let stage = stage.moved_as(scripts(), top, |builder| builder.agent("helper", helper)).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.chat.standing().await.unwrap().status, Status::Awaiting, "also in another process");
    stage.engine.chat(deepest.id()).answer([approve(&asks[1])]).await.unwrap();
    assert_eq!(finished(&stage.chat).await, Some(TurnEnd::Done));
    assert_eq!(count(&runs), 2);
    assert_eq!(stage.chat.standing().await.unwrap().asks_below, []);
    assert_eq!(stage.replies().await, "|Done.");
}

/// A parent with a sub-agent and one below that, which works for an hour.
async fn busy_family() -> Stage {
    let understudy = cast([
        (("go", 0), calls([ask("deeper")])),
        (("deeper", 0), calls([ask("dig")])),
        (("dig", 0), script([text("So far"), wait(3_600), stop(Stop::End)])),
    ]);
    let stage = built(understudy, parent(), parent()).await;
    stage.chat.send("go").await.unwrap();
    asked(&stage, 3).await;
    stage
}

async fn all(stage: &Stage) -> Vec<ChatId> {
    stage.store.headings(&ChatQuery::default()).await.unwrap().iter().map(|heading| heading.id).collect()
}

/// TA05: a chat is deleted with the chats of its sub-agents, also while they work. Other chats stay.
#[tokio::test(start_paused = true)]
async fn a_chat_is_deleted_with_its_sub_agents() {
    let stage = busy_family().await;
    let other = stage.engine.create("it").await.unwrap();
    assert_eq!(all(&stage).await.len(), 4);
    stage.chat.delete().await.unwrap();
    assert_eq!(all(&stage).await, [other.id()]);
}

/// TA05: a process that dies after it deleted a chat leaves the chats of its sub-agents to the next one, which deletes them
/// even if they were at work.
#[tokio::test(start_paused = true)]
async fn a_crash_while_a_chat_is_deleted_leaves_no_sub_agent() {
    let stage = busy_family().await;
    stage.engine.shutdown().await; // It dies: no turn has ended.
    let lease = stage.store.acquire(stage.chat.id()).await.unwrap();
    stage.store.delete(lease).await.unwrap();
    assert_eq!(all(&stage).await.len(), 2);
    let stage = stage.moved_as(Understudy::new([]), parent(), |builder| builder.agent("helper", parent())).await;
    let gone = async {
        while !all(&stage).await.is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), gone).await.expect("the next process deletes them");
}

/// TA05: an edit of the parent interrupts its sub-agents, and what they have said stays with them; a chat that is busy cannot
/// be archived, and its sub-agents go on.
#[tokio::test(start_paused = true)]
async fn an_edit_interrupts_sub_agents_and_archiving_waits() {
    let stage = busy_family().await;
    let deeper = child(&stage, stage.chat.id()).await;
    let deepest = child(&stage, deeper.id()).await;
    assert!(stage.chat.archive().await.is_err());
    assert_eq!(deepest.standing().await.unwrap().status, Status::Running);
    stage.chat.edit(MessageId(1), "never mind").await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Done);
    for chat in [&deeper, &deepest] {
        assert_eq!(chat.rest().await.unwrap().ended(), Some(TurnEnd::Interrupted));
    }
    assert_eq!(stage.replies().await, "Done.");
    assert_eq!(all(&stage).await.len(), 3, "they stay with the chat until it is deleted");
}

/// A fork of a chat with sub-agents has none of them, and metadata of a client makes no chat a sub-agent's.
#[tokio::test(start_paused = true)]
async fn only_a_call_makes_a_chat_a_sub_agents() {
    let stage = built(cast([(("go", 0), calls([ask("dig")]))]), parent(), agent()).await;
    stage.run("go").await;
    let fork = everturn::stores::Fork { chat: stage.chat.id(), at: MessageId(1) };
    let fork = NewChat { fork: Some(fork), ..NewChat::of(stage.engine.new_id(), "it", "") };
    let fork = stage.engine.make(&fork).await.unwrap();
    assert!(children(&stage, fork.id()).await.is_empty());
    let own = child(&stage, stage.chat.id()).await.id();
    let fork = everturn::stores::Fork { chat: own, at: MessageId(1) };
    let fork = NewChat { fork: Some(fork), ..NewChat::of(stage.engine.new_id(), "helper", "") };
    let fork = stage.engine.make(&fork).await.unwrap();
    assert_eq!(fork.standing().await.unwrap().parent, None, "a copy of a sub-agent's chat is a person's");
    let metadata = [("everturn.parent".to_owned(), stage.chat.id().to_string())].into();
    let setup = everturn::core::setup::Setup { metadata, ..Default::default() };
    let forged = NewChat { setup: Some(Arc::new(setup)), ..NewChat::of(stage.engine.new_id(), "it", "") };
    let forged = stage.engine.make(&forged).await.unwrap();
    assert_eq!(forged.standing().await.unwrap().parent, None);
    assert_eq!(children(&stage, stage.chat.id()).await.len(), 1);
}
