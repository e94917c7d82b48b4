//! Tools a model may use.
//!
//! A tool says what it is for, what its input looks like, and above all what running it twice would do. The engine sees
//! to the rest: input is repaired and checked before it runs, its start is recorded before it starts, and panics,
//! timeouts and endless output become results the model can read.

pub(crate) mod permit;
pub(crate) mod progress;
pub(crate) mod sub_agent;
pub(crate) mod toolbox;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everturn_core::chat::{AskBelow, Effect};
use everturn_core::ids::{CallUid, ChatId};
use everturn_core::message::{Media, Meta};
use everturn_core::permission::{PatternKind, RuleSubject};
use everturn_core::prompt::ToolSpec;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::handle::ChatHandle;
use crate::tool::progress::ToolProgress;

use sub_agent::Caller;
pub use sub_agent::SubAgent;

/// A tool that a model can call.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// The name, the description for the model, and the schema of the input.
    fn spec(&self) -> ToolSpec;

    /// How calls are treated. By default they run in parallel with others, and never twice.
    fn policy(&self) -> Policy {
        Policy::default()
    }

    /// How a call with this input is treated: [`Tool::policy`], unless the tool decides call by call. `input` is valid by
    /// the schema. Asked when the call is made and again when it starts, so the answer must depend on nothing but the input
    /// and the tool's configuration.
    fn policy_for(&self, input: &Value) -> Policy {
        let _ = input;
        self.policy()
    }

    /// What the patterns of permission rules for this tool mean, as in `edit(src/**)`.
    fn pattern(&self) -> PatternKind {
        PatternKind::Nothing
    }

    /// What the pattern of a rule is compared with: the path or the command of a call. `input` is valid by the schema. Asked
    /// when the call is made and again when it starts; a call that was approved does not run if the answer differs.
    fn subject(&self, input: &Value) -> RuleSubject {
        let _ = input;
        RuleSubject::Nothing
    }

    /// The call that a call of this tool stands for: the engine runs that one instead, by the schema, the rules, the effect
    /// and the approval of the tool inside. `input` is valid by the schema. Other tools stand for themselves.
    fn stands_for(&self, input: &Value) -> Option<InnerCall> {
        let _ = input;
        None
    }

    /// Whether a call hands its task to a sub-agent. How many of those a turn may make, and how many of them work at once, is
    /// bounded.
    fn delegates(&self) -> bool {
        false
    }

    /// How calls are confined, in a few words. Shown with a request for approval.
    fn confinement(&self) -> Option<String> {
        None
    }

    /// What a person relies on who grants calls of this tool, beside its specification and confinement: another text ends
    /// the grants.
    fn grant_terms(&self) -> String {
        String::new()
    }

    /// Runs one call. `input` is valid by the schema.
    ///
    /// Work that goes on without this process, at a server or in another chat, is not waited for here: return
    /// [`ToolReturn::Rests`] with a handle to it. The handle is stored, no work slot is held, and this process or any other
    /// looks what became of it.
    async fn run(&self, context: ToolContext, input: Value) -> Result<ToolReturn, ToolError>;

    /// Says what became of a call with effect [`Once`](Effect::Once) that was started by a process that is gone, if the tool
    /// has recorded that: it is not run again. `None` leaves the outcome unknown, which is the default. Must change nothing, and
    /// return within seconds.
    ///
    /// # Errors
    /// The call failed, or is unknown ([`ToolError::unknown`]) with more to say about it than the engine knows.
    async fn outcome_after_crash(&self, context: ToolContext, input: Value) -> Result<Option<ToolOutput>, ToolError> {
        let _ = (context, input);
        Ok(None)
    }

    /// Looks what became of a call that rests. May wait for its end for some seconds, and may be dropped and repeated at any
    /// time: it must change nothing.
    ///
    /// # Errors
    /// The call failed, or its outcome is lost ([`ToolError::unknown`]). A place that cannot be reached just now is no error
    /// but [`LookResult::Unreachable`].
    async fn look(&self, context: ToolContext, handle: Value) -> Result<LookResult, ToolError> {
        let _ = (context, handle);
        Err(ToolError::unknown("This call went on elsewhere, and its tool cannot tell what became of it."))
    }

    /// Tells a call that rests to stop: its turn was interrupted, or it took too long. May be repeated after a crash.
    async fn let_go(&self, context: ToolContext, handle: Value) {
        let _ = (context, handle);
    }
}

/// A call inside a call; see [`Tool::stands_for`].
#[derive(Debug, Clone, PartialEq)]
pub struct InnerCall {
    /// The tool that runs.
    pub tool: String,
    /// Its input.
    pub input: Value,
}

/// What running a call came to.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolReturn {
    /// The call is done.
    Done(ToolOutput),
    /// The call goes on elsewhere.
    Rests(RestingCall),
    /// The call cannot go on before a person has answered.
    Asks(ToolQuestion),
}

/// A question of a tool to a person. The call holds no work slot meanwhile, and is started again with the answer
/// ([`ToolContext::answered`]), in this process or another, however much later that is.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolQuestion {
    /// Where the call goes on. Stored with it, and given back with the answer.
    pub handle: Value,
    /// What clients show the person, as JSON.
    pub question: Value,
}

/// The answer to a question of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuestionAnswer {
    /// What the person answered, as it was sent.
    Output(String),
    /// The person does not answer, for the reason given.
    Declined(String),
}

/// A call that goes on elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct RestingCall {
    /// Where its outcome is found. Stored with the call, and given to [`Tool::look`] in whichever process looks.
    pub handle: Value,
    /// How long to wait before the first look.
    pub look_after: Duration,
}

/// What became of a call that rests.
#[derive(Debug, Clone, PartialEq)]
pub enum LookResult {
    /// It is done.
    Done(ToolOutput),
    /// It goes on. Look again after this long.
    Pending(Duration),
    /// It cannot go on before a person has answered: see [`ToolReturn::Asks`].
    Asks(ToolQuestion),
    /// It goes on in other chats, of which these calls wait for people. None any more, if the list is empty. Look again.
    AsksBelow(Vec<AskBelow>),
    /// The place that knows cannot be reached, for the reason given. It is tried again, at growing intervals.
    Unreachable(String),
}

impl ToolReturn {
    /// The output, if the call is done.
    #[must_use]
    pub fn output(self) -> Option<ToolOutput> {
        match self {
            Self::Done(output) => Some(output),
            Self::Rests(_) | Self::Asks(_) => None,
        }
    }
}

impl<Output: Into<ToolOutput>> From<Output> for ToolReturn {
    fn from(output: Output) -> Self {
        Self::Done(output.into())
    }
}

/// How the calls of a tool are treated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// What running it twice would do.
    pub effect: Effect,
    /// Which calls it may run in parallel with.
    pub beside: Beside,
    /// What its success means for the turn.
    pub after: After,
    /// Whether a person decides on each call.
    pub approval: Approval,
    /// How long it may take; by default `tool_time_max` of the limits.
    pub time_max: Option<Duration>,
    /// How many bytes of its output the model is shown, if the context window has room for as many. All of it is stored.
    pub shown_bytes_max: usize,
}

/// How much of an output the model is shown by default: three such results fit a small window.
const SHOWN_BYTES_MAX: usize = 48 * 1024;

impl Default for Policy {
    fn default() -> Self {
        Self {
            effect: Effect::default(),
            beside: Beside::default(),
            after: After::default(),
            approval: Approval::default(),
            time_max: None,
            shown_bytes_max: SHOWN_BYTES_MAX,
        }
    }
}

/// Which calls a tool may run in parallel with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Beside {
    /// Any other call.
    #[default]
    Any,
    /// None: it runs after the others, one call at a time, in call order.
    Serial,
    /// It must be the only call of its reply; else none of them runs.
    Exclusive,
}

/// What a tool's success means for the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum After {
    /// The model goes on.
    #[default]
    GoOn,
    /// The turn is over.
    Stop,
}

/// Whether a person decides on each call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Approval {
    /// Calls run as they come.
    #[default]
    NotNeeded,
    /// Calls wait until a person allows them. The person may grant the next ones like it in advance.
    Needed,
    /// Calls wait until a person allows them, each for itself.
    EachTime,
}

/// The context of a running call.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The chat it runs for.
    pub chat: ChatId,
    /// The chat's owner.
    pub owner: String,
    /// The call it answers. Stable over crashes: good as an idempotency key, together with the chat.
    pub call: CallUid,
    /// Cancelled when the turn was interrupted or the tool's time is up. A result that comes within the grace period still
    /// counts; after that the tool is dropped. A tool that blocks its thread cannot be dropped: run it on a thread of its
    /// own.
    pub cancel: CancellationToken,
    /// The question that this call asked before, by its handle, and the answer. The call is started again with it.
    pub answered: Option<(Value, QuestionAnswer)>,
    pub(crate) progress: ToolProgress,
    /// The engine it runs in. Tests of a tool have none.
    pub(crate) engine: Option<Engine>,
    /// What a sub-agent's chat is created with.
    pub(crate) caller: Caller,
}

impl ToolContext {
    /// A context without an engine, for tests of a tool.
    #[must_use]
    pub fn new(chat: ChatId, call: CallUid) -> Self {
        let owner = String::new();
        let cancel = CancellationToken::new();
        let progress = ToolProgress::default();
        Self { chat, owner, call, cancel, answered: None, progress, engine: None, caller: Caller::default() }
    }

    /// The chat it runs for. None in a context without an engine.
    #[must_use]
    pub fn chat_handle(&self) -> Option<ChatHandle> {
        self.engine.as_ref().map(|engine| engine.chat(self.chat))
    }

    /// Shows people the progress of the tool: a line, or the end of its output. It replaces what was shown before, and is gone
    /// once there is a result. The model never sees it.
    ///
    /// Never waits. Texts are stored before they are shown, so of several in quick succession only the newest is shown,
    /// unless the tool ends first.
    ///
    /// ```
    /// # use everturn::{ToolContext, tool};
    /// let copy = tool("copy", "Copies files.", |context: ToolContext, files: Vec<String>| async move {
    ///     for (done, file) in files.iter().enumerate() {
    ///         context.show(format!("{file} ({done} of {})", files.len()));
    ///         // …
    ///     }
    ///     Ok("copied")
    /// });
    /// ```
    pub fn show(&self, text: impl Into<String>) {
        self.progress.show(self.call, text.into());
    }
}

/// The output of a tool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    /// Bytes, meant as text. The model sees as much as fits; all of it is stored.
    pub bytes: Vec<u8>,
    /// Images and other media.
    pub media: Vec<Media>,
    /// For the provider, from the local runner of a provider-defined tool.
    pub meta: Meta,
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self { bytes: text.into_bytes(), ..Self::default() }
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::from(text.to_string())
    }
}

impl From<Value> for ToolOutput {
    fn from(value: Value) -> Self {
        Self::from(value.to_string())
    }
}

/// The error of a tool. The model reads it.
///
/// Text and every error convert into it, so `?` works in a tool. Like `Box<dyn Error>` it does not implement `Error` itself:
/// the conversion would not be possible.
///
/// ```
/// # use everturn::{ToolContext, ToolError, tool};
/// let size = tool("size", "Tells the size of a file.", |_, path: String| async move {
///     let size = std::fs::metadata(&path)?.len(); // Any error: the model reads it with its causes.
///     if size == 0 {
///         return Err("the file is empty".into()); // Or text.
///     }
///     Ok(size.to_string())
/// });
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ToolError {
    /// What went wrong, for the model.
    pub message: String,
    /// For the provider.
    pub meta: Meta,
    /// Whether the call can have taken effect all the same.
    pub outcome: ErrorOutcome,
}

/// What is known of a call that returned an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ErrorOutcome {
    /// It failed.
    #[default]
    Failed,
    /// It was begun, and the contact to it was lost: it may have taken effect.
    Unknown,
}

impl ToolError {
    /// An error with this message.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), meta: Meta::new(), outcome: ErrorOutcome::Failed }
    }

    /// An error that leaves open whether the call took effect: a server that was sent the call and is gone, for
    /// example. The result says *unknown*, so that people and the model look before they repeat it.
    #[must_use]
    pub fn unknown(message: impl Into<String>) -> Self {
        Self { outcome: ErrorOutcome::Unknown, ..Self::new(message) }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for ToolError {
    /// The error and its causes, each once: many errors repeat the message of their cause.
    fn from(error: E) -> Self {
        let error: Box<dyn Error + Send + Sync> = error.into();
        let mut message = error.to_string();
        let mut next = error.source();
        while let Some(cause) = next {
            let told = cause.to_string();
            if !message.contains(&told) {
                message = format!("{message}: {told}");
            }
            next = cause.source();
        }
        Self::new(message)
    }
}

/// Makes a tool of a function with a Rust type as its input.
///
/// ```
/// # use everturn::{tool, Policy};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Weather {
///     /// Where, for example "Oslo".
///     city: String,
/// }
///
/// let weather = tool("weather", "Tells the weather of a city.", |_, input: Weather| async move {
///     Ok(format!("sunny in {}", input.city))
/// });
/// ```
pub fn tool<Input, Output, Run, Running>(
    name: impl Into<String>,
    description: impl Into<String>,
    run: Run,
) -> FnTool<Input, Run>
where
    Input: DeserializeOwned + JsonSchema,
    Output: Into<ToolOutput>,
    Run: Fn(ToolContext, Input) -> Running + Send + Sync + 'static,
    Running: Future<Output = Result<Output, ToolError>> + Send + 'static,
{
    let schema = Value::from(schemars::schema_for!(Input));
    let spec = ToolSpec::new(name, description, schema);
    FnTool { spec, policy: Policy::default(), run, input: std::marker::PhantomData }
}

/// See [`tool()`].
pub struct FnTool<Input, Run> {
    spec: ToolSpec,
    policy: Policy,
    run: Run,
    input: std::marker::PhantomData<fn(Input)>,
}

impl<Input, Run> FnTool<Input, Run> {
    /// Returns the tool with another policy.
    #[must_use]
    pub fn with(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Returns the tool as one that the provider defines and the engine runs.
    #[must_use]
    pub fn defined_by_provider(mut self, definition: Value) -> Self {
        self.spec.provider_defined = Some(definition);
        self
    }
}

#[async_trait]
impl<Input, Output, Run, Running> Tool for FnTool<Input, Run>
where
    Input: DeserializeOwned + 'static,
    Output: Into<ToolOutput>,
    Run: Fn(ToolContext, Input) -> Running + Send + Sync + 'static,
    Running: Future<Output = Result<Output, ToolError>> + Send + 'static,
{
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn policy(&self) -> Policy {
        self.policy.clone()
    }

    async fn run(&self, context: ToolContext, input: Value) -> Result<ToolReturn, ToolError> {
        let input = serde_json::from_value(input).map_err(|error| format!("the input does not fit: {error}"))?;
        (self.run)(context, input).await.map(|output| ToolReturn::Done(output.into()))
    }
}

/// Any tool, shared.
pub type SharedTool = Arc<dyn Tool>;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Trouble {
        #[error("the list cannot be read")]
        Hidden(#[source] std::num::ParseIntError),
        #[error("the list cannot be read: {0}")]
        Told(#[source] std::num::ParseIntError),
    }

    fn parsed(wrap: fn(std::num::ParseIntError) -> Trouble) -> Result<u8, ToolError> {
        Ok("x".parse().map_err(wrap)?)
    }

    /// Every error, boxed or not, and text convert by `?`; the model reads each cause once.
    #[test]
    fn any_error_becomes_a_tools_error() {
        let told = "the list cannot be read: invalid digit found in string";
        assert_eq!(parsed(Trouble::Hidden).unwrap_err().message, told);
        assert_eq!(parsed(Trouble::Told).unwrap_err().message, told);
        let boxed: Box<dyn Error + Send + Sync> = "boxed".into();
        for error in [ToolError::from(boxed), "boxed".into(), "boxed".to_string().into(), ToolError::new("boxed")] {
            assert_eq!(error.to_string(), "boxed");
        }
    }
}
