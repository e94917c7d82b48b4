//! Sub-agents: tools that hand a task to another agent, in a chat of its own.
//!
//! The chat is created under a key made of the parent's chat and call, so a call that is run again after a crash finds it
//! instead of a second one. The parent's call rests meanwhile ([`ToolReturn::Rests`]): it holds no work slot, so parents
//! cannot starve their children, and whichever process has the parent looks at the child's chat.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everturn_core::chat::{AskBelow, Chat, Effect, TurnEnd};
use everturn_core::command::{Command, Delivery};
use everturn_core::cost::Micros;
use everturn_core::ids::{CallUid, ChatId};
use everturn_core::limits::Limits;
use everturn_core::message::Part;
use everturn_core::parent::{DEPTH_MAX, ParentCall, ParentChat, SubAgentsMax};
use everturn_core::prompt::ToolSpec;
use everturn_stores::{NewChat, StoreError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::engine::{CreateError, Engine};
use crate::handle::{ChatHandle, SubAgentState};
use crate::tool::{LookResult, Policy, RestingCall, Tool, ToolContext, ToolError, ToolReturn};

/// How much of a sub-agent's answer the model is shown.
const SHOWN_BYTES_MAX: usize = 16 * 1024;
/// How long one look waits for the end. Shorter than the engine lets it.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// A tool `ask_NAME` that gives a task to the agent called NAME and returns its answer.
///
/// ```
/// # use everturn::{Agent, Engine, SubAgent};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let reviewer = Agent::new("anthropic/claude-sonnet-4-5".parse()?).system("You review changes.");
/// let coder = Agent::new("anthropic/claude-sonnet-4-5".parse()?)
///     .tool(SubAgent::new("reviewer", "Reviews a change and lists what is wrong with it."))?;
/// let builder = Engine::builder().agent("coder", coder).agent("reviewer", reviewer);
/// # drop(builder);
/// # Ok(())
/// # }
/// ```
pub struct SubAgent {
    agent: String,
    spec: ToolSpec,
}

#[derive(Deserialize, JsonSchema)]
struct Task {
    /// What to do. The sub-agent knows nothing but this and `context`.
    task: String,
    /// What it needs to know, word for word.
    #[serde(default)]
    context: Option<String>,
}

impl SubAgent {
    /// A tool that asks the agent of this name. `description` tells the model what it is good for.
    #[must_use]
    pub fn new(agent: impl Into<String>, description: impl Into<String>) -> Self {
        let agent = agent.into();
        let schema = Value::from(schemars::schema_for!(Task));
        Self { spec: ToolSpec::new(format!("ask_{agent}"), description, schema), agent }
    }

    /// Returns the tool under another name.
    #[must_use]
    pub fn called(mut self, name: impl Into<String>) -> Self {
        self.spec.name = name.into();
        self
    }

    async fn begin(&self, engine: &Engine, context: &ToolContext, task: Task) -> Result<ChatHandle, ToolError> {
        let key = format!("sub-agent {} {}", context.chat, context.call);
        let parent = ParentCall { call: context.call, above: context.caller.above.clone() };
        let new = NewChat {
            parent: Some(Arc::new(parent)),
            key: Some(key.clone()),
            ..NewChat::of(engine.new_id(), &self.agent, &context.owner)
        };
        let child = engine.make(&new).await.map_err(|error| match error {
            CreateError::NoSuchAgent(agent) => ToolError::new(format!("There is no agent `{agent}` any more.")),
            error => error.into(),
        })?;
        let words = match task.context {
            Some(context) => format!("{}\n\n{context}", task.task),
            None => task.task,
        };
        let send = Command::Send { parts: Arc::new([Part::text(words)]), when: Delivery::Queue };
        child.submit(send, Some(key)).await?;
        Ok(child)
    }
}

/// What a call knows of the chat that makes it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    /// The chats that will be above a sub-agent's: this one last.
    above: Vec<ParentChat>,
    /// How many of them there may be.
    depth_max: usize,
    /// What is noted of calls below that wait for people.
    asks_below: Vec<AskBelow>,
}

impl Caller {
    pub(crate) fn of(chat: &Chat, call: CallUid, limits: &Limits) -> Self {
        let Some(open) = chat.calls.iter().find(|open| open.uid == call && open.delegates) else {
            return Self::default();
        };
        // The turn's tokens include what is known of the chats below. So however much of it is known, the sum is the same.
        let (tokens, cost) = chat.turn.as_ref().map_or((0, Micros(0)), |turn| (turn.tokens, turn.cost));
        let tokens_left = limits.turn_tokens_max.saturating_sub(tokens);
        let cost_left = Micros(limits.turn_cost_max.0.saturating_sub(cost.0));
        let most = SubAgentsMax {
            tokens: chat.delegated.tokens.saturating_add(tokens_left),
            cost: chat.delegated.cost.plus(cost_left),
        };
        let mut above = chat.parent.as_ref().map(|parent| parent.above.clone()).unwrap_or_default();
        above.push(ParentChat { chat: chat.id, agent: chat.agent.clone(), most });
        let depth_max = limits.sub_agents_depth_max.min(DEPTH_MAX);
        Self { above, depth_max, asks_below: open.asks_below.clone() }
    }
}

#[async_trait]
impl Tool for SubAgent {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn delegates(&self) -> bool {
        true
    }

    fn policy(&self) -> Policy {
        Policy { effect: Effect::Idempotent, shown_bytes_max: SHOWN_BYTES_MAX, ..Policy::default() }
    }

    async fn run(&self, context: ToolContext, input: Value) -> Result<ToolReturn, ToolError> {
        let Caller { above, depth_max, .. } = &context.caller;
        if above.len() > *depth_max {
            let told = match depth_max {
                0 => "Sub-agents are switched off here: do the task yourself.".into(),
                most => format!("Sub-agents may be {most} deep, and this is one: do the task yourself."),
            };
            return Err(ToolError::new(told));
        }
        let engine = engine_of(&context)?;
        let child = self.begin(engine, &context, serde_json::from_value(input)?).await?;
        let handle = json!({"chat": child.id().to_string()});
        Ok(ToolReturn::Rests(RestingCall { handle, look_after: Duration::ZERO }))
    }

    async fn look(&self, context: ToolContext, handle: Value) -> Result<LookResult, ToolError> {
        let child = child_of(&context, &handle)?;
        match timeout(WAIT_MAX, child.ended_or_asks(&context.caller.asks_below)).await {
            Err(_) => Ok(LookResult::Pending(Duration::ZERO)),
            Ok(Err(StoreError::NoSuchChat)) => Err("The sub-agent's chat was deleted.".into()),
            Ok(Err(error)) => Ok(LookResult::Unreachable(error.to_string())),
            Ok(Ok(SubAgentState::Asks(asks))) => Ok(LookResult::AsksBelow(asks)),
            Ok(Ok(SubAgentState::Ended(ended))) => {
                let said = match child.newest_reply().await {
                    Ok(said) => said.unwrap_or_default(),
                    Err(error) => return Ok(LookResult::Unreachable(error.to_string())),
                };
                let agent = &self.agent;
                let chat = child.id();
                match ended {
                    Some(TurnEnd::Done | TurnEnd::StopAfter(_)) => {
                        Ok(LookResult::Done(format!("{said}\n\n[answer of `{agent}`, chat {chat}]").into()))
                    }
                    ended => Err(ToolError::new(unfinished(agent, chat, ended.as_ref(), &said))),
                }
            }
        }
    }

    async fn let_go(&self, context: ToolContext, handle: Value) {
        if let Ok(child) = child_of(&context, &handle) {
            let _ = child.interrupt().await; // One that has ended needs none.
        }
    }
}

fn engine_of(context: &ToolContext) -> Result<&Engine, ToolError> {
    context.engine.as_ref().ok_or_else(|| "Sub-agents need an engine.".into())
}

fn child_of(context: &ToolContext, handle: &Value) -> Result<ChatHandle, ToolError> {
    let chat = handle["chat"].as_str().and_then(|chat| chat.parse::<ChatId>().ok());
    let chat = chat.ok_or_else(|| ToolError::unknown("The handle of the sub-agent cannot be read."))?;
    Ok(engine_of(context)?.chat(chat))
}

/// What the model is told of a sub-agent that did not come to its end.
fn unfinished(agent: &str, chat: ChatId, ended: Option<&TurnEnd>, said: &str) -> String {
    let why = match ended {
        Some(TurnEnd::Failed(failure)) if failure.detail.is_empty() => failure.message.clone(),
        Some(TurnEnd::Failed(failure)) => format!("{} ({})", failure.message, failure.detail),
        Some(TurnEnd::Interrupted) => "it was interrupted".into(),
        Some(TurnEnd::Length) => "its answer was longer than it may be".into(),
        Some(TurnEnd::Filtered) => "the provider cut its answer".into(),
        Some(TurnEnd::Empty) => "it said nothing".into(),
        Some(TurnEnd::SameCallMax) => "it repeated itself".into(),
        Some(TurnEnd::StepsMax | TurnEnd::TimeMax | TurnEnd::TokensMax | TurnEnd::CostMax) => {
            "it used up what a turn may use".into()
        }
        Some(TurnEnd::Done | TurnEnd::StopAfter(_)) | None => "it never began".into(),
    };
    let said = if said.is_empty() { String::new() } else { format!(" It said so far:\n\n{said}") };
    format!("`{agent}` (chat {chat}) did not finish: {why}.{said}")
}
