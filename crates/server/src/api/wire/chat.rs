//! Chats, without their messages.

use std::collections::BTreeMap;

use everturn::core::chat::{self, CallState, OpenCall, RetryWait, TurnEnd};
use everturn::core::view;
use everturn::stores;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ask::ClientTool;
use super::mcp::ToolEffect;
use super::name::{AskKind, SourceOfSummary, Status};
use super::part::Part;
use super::usage::Usage;

/// A chat's entry in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Heading {
    /// Its id.
    #[schema(example = "01jgfj9a5v0000000000000000")]
    pub id: String,
    /// The chat's agent.
    pub agent: String,
    /// The chat whose call created this one, if it is a sub-agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The title; empty before the first message.
    pub title: String,
    /// The chat's status.
    pub status: Status,
    /// Whether the chat is archived.
    pub archived: bool,
    /// The number of commits.
    pub version: u64,
    /// When the last message was committed, or the chat was created.
    pub touched: i64,
}

/// A page of chats, most recently active first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Chats {
    /// The chats.
    pub chats: Vec<Heading>,
    /// The `after` parameter of the next page; none at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// A chat, without its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Chat {
    /// Its id.
    #[schema(example = "01jgfj9a5v0000000000000000")]
    pub id: String,
    /// The chat's agent.
    pub agent: String,
    /// The chat whose call created this one, if it is a sub-agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The chat's own instructions, sent after the agent's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instructions: String,
    /// The chat's own tools, which its clients run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ClientTool>,
    /// Metadata of clients.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The chat's status.
    #[serde(flatten)]
    pub standing: Standing,
}

/// Everything about a chat that is neither message nor draft. It replaces the status sent before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Standing {
    /// As of this commit.
    pub version: u64,
    /// The open step: a draft of an earlier one is over.
    pub step: u64,
    /// The title.
    pub title: String,
    /// The first model to use from the next turn on, if it is not the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "understudy/persona")]
    pub model: Option<String>,
    /// The chat's status.
    pub status: Status,
    /// The newest accepted request that this status includes, by the `id` of its receipt.
    #[serde(default)]
    pub received: u64,
    /// The `id`s of messages that were accepted and are not answered yet: those of the running turn, then the queued ones.
    /// A message that is `received` and not listed here is answered, or was deleted.
    #[serde(default)]
    pub unanswered: Vec<u64>,
    /// Whether the chat is archived.
    pub archived: bool,
    /// Whether the server records the requests and responses of the chat's provider calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub debug: bool,
    /// Queued messages, next first.
    pub queue: Vec<Queued>,
    /// Calls that wait for a client or a person.
    pub asks: Vec<Ask>,
    /// Calls of sub-agents that wait for a client or a person. They are read and answered at their chats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks_below: Vec<AskBelow>,
    /// When these calls time out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits_until: Option<i64>,
    /// Progress of running tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub progress: Vec<Progress>,
    /// Why the next attempt waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The summary that is being written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacting: Option<Summarising>,
    /// How the last turn ended; left out while one is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Usage and cost so far.
    pub usage: Usage,
}

/// A queued message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Queued {
    /// Its id in the queue: the `id` that sending it returned.
    pub id: u64,
    /// When it was accepted.
    pub at: i64,
    /// The content.
    pub parts: Vec<Part>,
    /// Whether it goes in at the next step boundary rather than the next turn.
    pub steers: bool,
    /// The `Idempotency-Key` that it was sent with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A call that waits for a client or an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ask {
    /// The call.
    #[schema(example = "3.0")]
    pub call: String,
    /// The tool.
    pub tool: String,
    /// What it waits for.
    pub wants: AskKind,
    /// The input as the model wrote it: meant to be a JSON object, but not always one. Missing in chats of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = r#"{"city":"Oslo"}"#)]
    pub input: Option<String>,
    /// Hash of the tool and its input. An approval repeats it, so that nothing else is approved.
    pub input_hash: String,
    /// What made it ask: a permission rule, `else`, or the policy of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "ask = \"shell(git push *)\"")]
    pub rule: Option<String>,
    /// What running it twice would do: `read` (nothing), `idempotent` (no more than once), `once` (harm).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<ToolEffect>,
    /// The path that the call is about, with links followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How the tool is confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confinement: Option<String>,
    /// The rule that a grant would be; left out if the call can only be allowed once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "shell(git push *)")]
    pub grant: Option<String>,
}

/// A call of a sub-agent that waits for a client or an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AskBelow {
    /// The sub-agent's chat. `GET /v1/chats/{id}` shows what is asked, `POST /v1/chats/{id}/answers` answers.
    #[schema(example = "01jgfj9a5v0000000000000000")]
    pub chat: String,
    /// The call.
    #[schema(example = "3.0")]
    pub call: String,
}

/// The progress of a running tool. It is not sent to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// The call.
    #[schema(example = "3.0")]
    pub call: String,
    /// The tool.
    pub tool: String,
    /// The newest progress text; it replaces the one before.
    pub text: String,
}

/// Why the next attempt waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Retry {
    /// The earliest time of the next attempt.
    pub until: i64,
    /// The kind of error.
    pub kind: String,
    /// A message for users.
    pub message: String,
    /// The attempt that failed.
    pub attempt: u32,
}

/// A summary that is being written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Summarising {
    /// When it began.
    pub began: i64,
    /// The model that writes it.
    pub model: String,
    /// Why it is written.
    pub source: SourceOfSummary,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Ended {
    /// The model was done.
    Done,
    /// A tool that ends turns succeeded.
    StopAfter {
        /// The tool.
        tool: String,
    },
    /// A person stopped it.
    Interrupted,
    /// The answer reached the output limit.
    Length,
    /// The provider cut the answer by its policy.
    Filtered,
    /// The model's answer was empty, twice.
    Empty,
    /// The limit of steps per turn was reached.
    StepsMax,
    /// The time limit of a turn was reached.
    TimeMax,
    /// The limit of tokens per turn was reached.
    TokensMax,
    /// The cost limit of a turn was reached.
    CostMax,
    /// The model repeated a call with equal input too often.
    SameCallMax,
    /// An error that could not be recovered.
    Failed(Failure),
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    /// The kind of error.
    pub kind: String,
    /// A message for users.
    pub message: String,
    /// The provider's message, without keys.
    pub detail: String,
    /// Attempts made in the step.
    pub attempts: u32,
}

/// The agents' models, and those that a chat may choose beside them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Models {
    /// The models.
    pub models: Vec<Model>,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Model {
    /// Its full name.
    #[schema(example = "understudy/persona")]
    pub id: String,
    /// The agents that use it, as first choice or as fallback.
    pub agents: Vec<String>,
    /// Its window in tokens, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_limit: Option<u64>,
    /// The output limit in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_max: Option<u32>,
}

/// The agents of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentsList {
    /// The agents, by name.
    pub agents: Vec<AgentInfo>,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentInfo {
    /// Its name.
    #[schema(example = "default")]
    pub name: String,
    /// Its model and those it falls back to.
    pub models: Vec<String>,
    /// The tools that its model is offered, without those that a chat brings.
    pub tools: Vec<AgentTool>,
    /// Where its tools work, if it has a workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<AgentWorkspace>,
}

/// A tool of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentTool {
    /// Its name.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// What running a call twice would do; absent for tools that clients or providers run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<ToolEffect>,
}

/// Where the tools of an agent work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentWorkspace {
    /// The directory, on the server's machine.
    #[schema(example = "/srv/site")]
    pub path: String,
    /// How far commands are confined: `full`, `partial`, `files` or `off`.
    #[schema(example = "full")]
    pub confinement: String,
    /// Whether commands may use the network: `off` or `on`.
    #[schema(example = "off")]
    pub network: String,
}

impl Chats {
    /// A page of at most `len` chats.
    #[must_use]
    pub fn page(headings: &[stores::Heading], len: usize) -> Self {
        let last = headings.last().filter(|_| headings.len() == len);
        let after = last.map(|heading| format!("{}.{}", heading.touched.0, heading.id));
        Self { chats: headings.iter().map(Heading::from).collect(), after }
    }
}

impl From<&stores::Heading> for Heading {
    fn from(heading: &stores::Heading) -> Self {
        Self {
            id: heading.id.to_string(),
            agent: heading.agent.clone(),
            parent: heading.parent.map(|parent| parent.to_string()),
            title: heading.title.clone(),
            status: heading.status.into(),
            archived: heading.archived,
            version: heading.version.0,
            touched: heading.touched.0,
        }
    }
}

impl Chat {
    /// A chat from its list entry and its status.
    #[must_use]
    pub fn new(heading: &stores::Heading, standing: &view::Standing) -> Self {
        let setup = standing.setup.as_deref().cloned().unwrap_or_default();
        Self {
            id: heading.id.to_string(),
            agent: heading.agent.clone(),
            parent: heading.parent.map(|parent| parent.to_string()),
            instructions: setup.instructions,
            tools: setup.tools.iter().map(ClientTool::from).collect(),
            metadata: setup.metadata,
            standing: standing.into(),
        }
    }
}

impl From<&view::Standing> for Standing {
    fn from(standing: &view::Standing) -> Self {
        Self {
            version: standing.version.0,
            step: standing.step.0,
            title: standing.title.clone(),
            model: standing.model.as_ref().map(ToString::to_string),
            status: standing.status.into(),
            received: standing.received.0,
            unanswered: standing.unanswered.iter().map(|id| id.0).collect(),
            archived: standing.archived,
            debug: standing.debug,
            queue: standing.queue.iter().map(Queued::from).collect(),
            asks: standing.asks.iter().map(Ask::from).collect(),
            asks_below: standing.asks_below.iter().map(AskBelow::from).collect(),
            progress: standing.progress.iter().filter_map(Progress::of).collect(),
            awaits_until: standing.awaits_until.map(|at| at.0),
            retry: standing.retry.as_ref().map(Retry::from),
            compacting: standing.compacting.as_ref().map(Summarising::from),
            ended: standing.ended.as_ref().map(Ended::from),
            usage: Usage::of(standing.totals, standing.delegated),
        }
    }
}

impl From<&chat::QueuedMessage> for Queued {
    fn from(chat::QueuedMessage { id, at, parts, steers, key }: &chat::QueuedMessage) -> Self {
        let (parts, key) = (parts.iter().map(Part::from).collect(), key.clone());
        Self { id: id.0, at: at.0, parts, steers: *steers, key }
    }
}

impl Progress {
    fn of(OpenCall { uid, tool, progress, .. }: &OpenCall) -> Option<Self> {
        Some(Self { call: uid.to_string(), tool: tool.clone(), text: progress.as_deref()?.into() })
    }
}

impl From<&OpenCall> for Ask {
    fn from(open: &OpenCall) -> Self {
        let OpenCall { uid, tool, input_hash, state, input, ask, .. } = open;
        let wants = match state {
            CallState::AsksApproval => AskKind::Approval,
            CallState::AsksClient if open.questions() => AskKind::Answer,
            CallState::AsksClient
            | CallState::Ready
            | CallState::Approved
            | CallState::Started { .. }
            | CallState::Rests { .. } => AskKind::Result,
        };
        let detail = ask.as_deref();
        Self {
            call: uid.to_string(),
            tool: tool.clone(),
            wants,
            input: input.as_deref().map(Into::into),
            input_hash: format!("{input_hash:016x}"),
            rule: detail.map(|detail| detail.basis.clone()),
            effect: detail.map(|detail| detail.effect.into()),
            path: detail.and_then(|detail| detail.path.clone()),
            confinement: detail.and_then(|detail| detail.confinement.clone()),
            grant: detail.and_then(|detail| detail.grant.clone()),
        }
    }
}

impl From<&chat::AskBelow> for AskBelow {
    fn from(chat::AskBelow { chat, call }: &chat::AskBelow) -> Self {
        Self { chat: chat.to_string(), call: call.to_string() }
    }
}

impl From<&RetryWait> for Retry {
    fn from(RetryWait { until, kind, message, attempt }: &RetryWait) -> Self {
        Self { until: until.0, kind: kind.label().into(), message: message.clone(), attempt: *attempt }
    }
}

impl From<&chat::Compacting> for Summarising {
    fn from(compacting: &chat::Compacting) -> Self {
        let (model, source) = (compacting.model.to_string(), compacting.source.into());
        Self { began: compacting.began.0, model, source }
    }
}

impl From<&TurnEnd> for Ended {
    fn from(end: &TurnEnd) -> Self {
        match end {
            TurnEnd::Done => Self::Done,
            TurnEnd::StopAfter(tool) => Self::StopAfter { tool: tool.clone() },
            TurnEnd::Interrupted => Self::Interrupted,
            TurnEnd::Length => Self::Length,
            TurnEnd::Filtered => Self::Filtered,
            TurnEnd::Empty => Self::Empty,
            TurnEnd::StepsMax => Self::StepsMax,
            TurnEnd::TimeMax => Self::TimeMax,
            TurnEnd::TokensMax => Self::TokensMax,
            TurnEnd::CostMax => Self::CostMax,
            TurnEnd::SameCallMax => Self::SameCallMax,
            TurnEnd::Failed(failure) => Self::Failed(Failure {
                kind: failure.kind.label().into(),
                message: failure.message.clone(),
                detail: failure.detail.clone(),
                attempts: failure.attempts,
            }),
        }
    }
}
