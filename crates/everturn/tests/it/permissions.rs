//! Rules about calls, and grants.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use everturn::core::chat::{Effect, OpenCall, TurnEnd};
use everturn::core::command::{CallAnswer, Refusal};
use everturn::core::ids::Timestamp;
use everturn::core::message::{Body, Stop};
use everturn::core::permission::{Otherwise, PatternKind, Permissions, RuleSubject};
use everturn::core::prompt::ToolSpec;
use everturn::stores::SubmitError;
use everturn::{Agent, Approval, Policy, Rest, Tool, ToolContext, ToolError, ToolReturn};
use everturn_understudy::{Script, Understudy, call, script, stop, text};
use expect_test::expect;
use serde_json::{Value, json};

use crate::stage::{Stage, agent, count, counter};
use crate::tools::{calling, results};

/// A tool that counts its runs. Its rules compare `command` or `path` of the input; links lead wherever `leads` says.
#[derive(Clone)]
struct Ruled {
    name: &'static str,
    pattern: PatternKind,
    approval: Approval,
    runs: Arc<AtomicUsize>,
    leads: Arc<AtomicUsize>,
}

impl Ruled {
    fn new(name: &'static str, pattern: PatternKind, approval: Approval) -> Self {
        Self { name, pattern, approval, runs: counter(), leads: counter() }
    }
}

#[async_trait]
impl Tool for Ruled {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(self.name, "Works.", json!({"type": "object"}))
    }

    fn policy(&self) -> Policy {
        Policy { effect: Effect::Once, approval: self.approval, ..Policy::default() }
    }

    fn pattern(&self) -> PatternKind {
        self.pattern
    }

    fn subject(&self, input: &Value) -> RuleSubject {
        let field = |name: &str| input[name].as_str().unwrap_or_default().to_owned();
        match (self.pattern, self.leads.load(Ordering::SeqCst)) {
            (PatternKind::Nothing, _) => RuleSubject::Nothing,
            (PatternKind::Command, _) => RuleSubject::Command(field("command")),
            (PatternKind::Path, 0) => RuleSubject::Path(field("path")),
            (PatternKind::Path, n) => RuleSubject::Path(format!("elsewhere/{n}")),
        }
    }

    fn confinement(&self) -> Option<String> {
        Some("full, no network".into())
    }

    async fn run(&self, _: ToolContext, _: Value) -> Result<ToolReturn, ToolError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        Ok("worked".into())
    }
}

fn shell() -> Ruled {
    Ruled::new("shell", PatternKind::Command, Approval::Needed)
}

fn runs(command: &str) -> everturn_understudy::Cue {
    call("shell", json!({ "command": command }))
}

/// One reply for each command, and one that says it is done after each.
fn turns(commands: &[&str]) -> Vec<Script> {
    commands.iter().flat_map(|command| calling([runs(command)])).collect()
}

/// Sends a message and returns what is asked then.
async fn asked(stage: &Stage) -> Vec<OpenCall> {
    stage.chat.send("go").await.unwrap();
    match stage.chat.rest().await.unwrap() {
        Rest::Awaiting(asks) => asks,
        Rest::Idle(ended) => panic!("it ended without an ask: {ended:?}"),
    }
}

/// Sends a message that leads to no ask.
async fn unasked(stage: &Stage) {
    stage.chat.send("go").await.unwrap();
    assert_eq!(stage.chat.rest().await.unwrap(), Rest::Idle(Some(TurnEnd::Done)));
}

async fn answer(stage: &Stage, answer: CallAnswer) {
    stage.chat.answer([answer]).await.unwrap();
    assert_eq!(stage.chat.rest().await.unwrap(), Rest::Idle(Some(TurnEnd::Done)));
}

/// An agent whose rules allow, ask and deny, and the runs of its tools: `shell`, `edit`, `erase`.
fn ruled() -> (Agent, Vec<Arc<AtomicUsize>>) {
    let rules = Permissions::default().allow(["shell(ls *)"]).unwrap().ask(["shell(git push *)", "edit"]).unwrap();
    let rules = rules.deny(["shell(* --force)", "erase", "photo"]).unwrap();
    let tools = [
        shell(),
        Ruled::new("edit", PatternKind::Path, Approval::NotNeeded),
        Ruled::new("erase", PatternKind::Nothing, Approval::NotNeeded),
    ];
    let ran: Vec<_> = tools.iter().map(|tool| tool.runs.clone()).collect();
    let mut agent = agent();
    agent.toolbox.add_client(ToolSpec::new("photo", "Takes a photo.", json!({"type": "object"}))).unwrap();
    let agent = tools.into_iter().fold(agent, |agent, tool| agent.tool(tool).unwrap()).permissions(rules).unwrap();
    (agent, ran)
}

/// One call for each rule.
fn calls() -> [everturn_understudy::Cue; 6] {
    [
        runs("ls -l"),
        runs("git push --force"),
        runs("git push origin"),
        call("edit", json!({"path": "src/lib.rs"})),
        call("erase", json!({})),
        call("photo", json!({})),
    ]
}

/// A rule that allows lifts what the tool's policy asks for; one that asks is named with what it asks; a denial is the
/// result at once, and the turn goes on. A tool that is denied whole is not offered.
#[tokio::test(start_paused = true)]
async fn rules_decide_on_calls() {
    let (agent, ran) = ruled();
    let stage = Stage::new(Understudy::new(calling(calls())), agent).await;
    let asks = asked(&stage).await;
    let offered = &stage.understudy.requests()[0].tools;
    assert_eq!(offered.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), ["edit", "shell"]);
    assert_eq!(ran.iter().map(count).collect::<Vec<_>>(), [1, 0, 0]);
    expect![[r#"
        [
            (
                Some(
                    "{\"command\":\"git push origin\"}",
                ),
                Some(
                    AskDetail {
                        basis: "ask = \"shell(git push *)\"",
                        effect: Once,
                        path: None,
                        confinement: Some(
                            "full, no network",
                        ),
                        grant: Some(
                            "shell(git push origin *)",
                        ),
                        terms: "551ffc7d9dc31bf1f6570124c68cff95",
                    },
                ),
            ),
            (
                Some(
                    "{\"path\":\"src/lib.rs\"}",
                ),
                Some(
                    AskDetail {
                        basis: "ask = \"edit\"",
                        effect: Once,
                        path: Some(
                            "src/lib.rs",
                        ),
                        confinement: Some(
                            "full, no network",
                        ),
                        grant: Some(
                            "edit(src/*)",
                        ),
                        terms: "d4f16114693aba15464bfd7e59d13255",
                    },
                ),
            ),
        ]
    "#]]
    .assert_debug_eq(&asks.iter().map(|open| (&open.input, &open.ask)).collect::<Vec<_>>());
    stage.chat.answer(asks.iter().map(CallAnswer::approve)).await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(ran.iter().map(count).collect::<Vec<_>>(), [2, 1, 0]);
    expect![[r#"
        message 1 user "go"
        message 2 reply [shell({"command":"ls -l"}) shell({"command":"git push --force"}) shell({"command":"git push origin"}) edit({"path":"src/lib.rs"}) erase({}) photo({})] ToolUse
        message 3 result 1.1 shell Denied "This call is not permitted here (deny = \"shell(* --force)\"). It was not run. Do not repeat it; find another way, or say so."
        message 4 result 1.4 erase Denied "This call is not permitted here (deny = \"erase\"). It was not run. Do not repeat it; find another way, or say so."
        message 5 result 1.5 photo Denied "This call is not permitted here (deny = \"photo\"). It was not run. Do not repeat it; find another way, or say so."
        message 6 result 1.0 shell Done "worked"
        message 7 result 1.2 shell Done "worked"
        message 8 result 1.3 edit Done "worked"
        message 9 reply ["Done."] End
    "#]].assert_eq(&stage.told().await);
}

/// TL06: a rule for a tool that the agent does not have is refused.
#[tokio::test]
async fn a_rule_for_no_tool_is_refused() {
    let refused = agent().tool(shell()).unwrap().permissions(Permissions::default().allow(["shel"]).unwrap());
    let told = refused.map(drop).unwrap_err().to_string();
    assert_eq!(told, "the rule \"shel\" can never match: the agent has no such tool; it has shell");
    let live = agent().live_tools(everturn::LiveToolbox::default());
    assert!(live.permissions(Permissions::default().allow(["later"]).unwrap()).is_ok());
}

fn granting(rules: Permissions) -> impl Fn(&Ruled) -> Agent {
    move |shell: &Ruled| agent().tool(shell.clone()).unwrap().permissions(rules.clone()).unwrap()
}

/// TL04: a grant is used by later calls, after a restart and in another process; revoked, expired, or with other rules the
/// next call asks.
#[tokio::test(start_paused = true)]
async fn a_grant_lasts_until_it_ends_or_is_revoked() {
    let tool = shell();
    let agent = granting(Permissions::default().deny(["shell(* --force)"]).unwrap());
    let commands = ["git push a", "git push a -v", "git push a --force", "git push b"];
    let stage = Stage::new(Understudy::new(turns(&commands)), agent(&tool)).await;
    let asks = asked(&stage).await;
    assert_eq!(asks[0].ask.as_ref().unwrap().grant.as_deref(), Some("shell(git push a *)"));
    let hour = |stage: &Stage, asks: &[OpenCall]| {
        let until = Timestamp(stage.chat.id().made_at().0 + 3_600_000);
        CallAnswer::grant(&asks[0], "laptop", until)
    };
    let granted = hour(&stage, &asks);
    answer(&stage, granted.clone()).await;
    unasked(&stage).await;
    unasked(&stage).await;
    assert_eq!(count(&tool.runs), 2, "the third is denied, whatever is granted");
    let asks = asked(&stage).await;
    answer(&stage, CallAnswer::deny(asks[0].uid, "no")).await;
    let grants = stage.chat.standing().await.unwrap().grants;
    assert_eq!((grants.len(), grants[0].rule.as_str(), grants[0].by.as_str()), (1, "shell(git push a *)", "laptop"));

    let stage = stage.moved(Understudy::new(turns(&["git push a", "git push a"])), agent(&tool)).await;
    unasked(&stage).await;
    assert_eq!(count(&tool.runs), 3, "the next process knows of it");
    assert_eq!(stage.chat.revoke(asks[0].uid).await, Err(SubmitError::Refused(Refusal::NotGranted)));
    stage.chat.revoke(granted.call).await.unwrap();
    let asks = asked(&stage).await;
    let again = hour(&stage, &asks);
    answer(&stage, again).await;
    assert_eq!(stage.chat.standing().await.unwrap().grants.len(), 1);

    let other = granting(Permissions::default().ask(["shell(rm *)"]).unwrap());
    let stage = stage.moved(Understudy::new(turns(&["git push a"])), other(&tool)).await;
    let asks = asked(&stage).await;
    answer(&stage, CallAnswer::deny(asks[0].uid, "the rules changed")).await;

    let stage = stage.moved(Understudy::new(turns(&["git push a", "git push a"])), agent(&tool)).await;
    unasked(&stage).await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let asks = asked(&stage).await;
    answer(&stage, CallAnswer::deny(asks[0].uid, "it is over")).await;
    assert_eq!(count(&tool.runs), 5);
}

/// A call of a tool that asks each time, or that rules do not understand, can only be allowed once.
#[tokio::test(start_paused = true)]
async fn some_calls_can_only_be_allowed_once() {
    let each = Ruled::new("erase", PatternKind::Nothing, Approval::EachTime);
    let agent = agent().tool(shell()).unwrap().tool(each).unwrap();
    let calls = [runs("git push > log"), call("erase", json!({}))];
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    for ask in asked(&stage).await {
        assert_eq!(ask.ask.as_ref().unwrap().grant, None);
        let refused = stage.chat.answer([CallAnswer::grant(&ask, "laptop", Timestamp(i64::MAX))]).await;
        assert_eq!(refused, Err(SubmitError::Refused(Refusal::NotGrantable(ask.uid))));
    }
}

/// TL09: what was allowed is what runs: not if the path leads elsewhere by then, and not if a rule denies it by then.
#[tokio::test(start_paused = true)]
async fn what_changed_since_the_approval_does_not_run() {
    let tool = Ruled::new("edit", PatternKind::Path, Approval::Needed);
    let edit = || calling([call("edit", json!({"path": "src/link"}))]);
    let stage = Stage::new(Understudy::new(edit()), agent().tool(tool.clone()).unwrap()).await;
    let asks = asked(&stage).await;
    assert_eq!(asks[0].ask.as_ref().unwrap().path.as_deref(), Some("src/link"));
    tool.leads.store(7, Ordering::SeqCst);
    answer(&stage, CallAnswer::approve(&asks[0])).await;
    let told = results(&stage.understudy.requests()[1]);
    assert!(told[0].2.contains("another path"), "{told:?}");
    tool.leads.store(0, Ordering::SeqCst);

    let stage = stage.moved(Understudy::new(edit()), agent().tool(tool.clone()).unwrap()).await;
    let asks = asked(&stage).await;
    let rules = Permissions::default().deny(["edit(src/**)"]).unwrap();
    let denies = agent().tool(tool.clone()).unwrap().permissions(rules).unwrap();
    let stage = stage.moved(Understudy::new([script([text("Then not."), stop(Stop::End)])]), denies).await;
    answer(&stage, CallAnswer::approve(&asks[0])).await;
    let told = results(&stage.understudy.requests()[0]);
    assert!(told[1].2.contains("deny = \"edit(src/**)\""), "{told:?}");
    assert_eq!(count(&tool.runs), 0);
}

/// With `else = "deny"` no call waits for a person: those that no rule allows get their result at once.
#[tokio::test(start_paused = true)]
async fn with_else_deny_nothing_waits_for_a_person() {
    let rules = Permissions::default().allow(["shell(ls)"]).unwrap().otherwise(Otherwise::Deny);
    let tool = shell();
    let agent = agent().tool(tool.clone()).unwrap().permissions(rules).unwrap();
    let stage = Stage::new(Understudy::new(calling([runs("ls"), runs("ls | wc")])), agent).await;
    unasked(&stage).await;
    let told = results(&stage.understudy.requests()[1]);
    assert!(!told[0].1 && told[1].2.contains("else = \"deny\""), "{told:?}");
    assert_eq!(count(&tool.runs), 1);
}

/// TL10: as many asks as a reply may make, answered one by one in any order by three clients that repeat themselves: each
/// call runs once, and the model reads the results in call order.
#[tokio::test(start_paused = true)]
async fn many_asks_are_answered_in_any_order() {
    const LEN: usize = 128;
    let tool = shell();
    let calls = (0..LEN).map(|n| runs(&format!("push {n}")));
    let stage = Stage::new(Understudy::new(calling(calls)), agent().tool(tool.clone()).unwrap()).await;
    let asks = asked(&stage).await;
    assert_eq!(asks.len(), LEN);
    let mut taken = 0;
    for n in 0..LEN {
        for factor in [37, 91, 5] {
            let ask = &asks[(n * factor) % LEN]; // Odd factors: every ask once, each client in an order of its own.
            match stage.chat.answer([CallAnswer::approve(ask)]).await {
                Ok(_) => taken += 1,
                Err(SubmitError::Refused(Refusal::NotAsked(_) | Refusal::Status(..))) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert_eq!(taken, LEN, "one of the three is taken, the others are told that it is over");
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(count(&tool.runs), LEN);
    let is_result = |message: &&Arc<everturn::core::message::Message>| matches!(message.body, Body::Result(_));
    assert_eq!(stage.transcript().await.iter().filter(is_result).count(), LEN);
    assert_eq!(results(&stage.understudy.requests()[1]).len(), LEN);
}
