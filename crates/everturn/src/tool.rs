//! Tools a model may use.
//!
//! A tool says what it is for, what its input looks like, and above all what running it twice would do. The engine sees
//! to the rest: input is repaired and checked before it runs, its start is recorded before it starts, and panics,
//! timeouts and endless output become results the model can read.

pub(crate) mod progress;
pub(crate) mod toolbox;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everturn_core::chat::Effect;
use everturn_core::ids::{CallUid, ChatId};
use everturn_core::message::{Media, Meta};
use everturn_core::prompt::ToolSpec;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::tool::progress::ToolProgress;

/// A tool that a model can call.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// The name, the description for the model, and the schema of the input.
    fn spec(&self) -> ToolSpec;

    /// How calls are treated. By default they run in parallel with others, and never twice.
    fn policy(&self) -> Policy {
        Policy::default()
    }

    /// Runs one call. `input` is valid by the schema.
    async fn run(&self, context: ToolContext, input: Value) -> Result<ToolOutput, ToolError>;
}

/// How the calls of a tool are treated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
    /// Calls wait until a person allows them.
    Needed,
}

/// The context of a running call.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The chat it runs for.
    pub chat: ChatId,
    /// The call it answers. Stable over crashes: good as an idempotency key, together with the chat.
    pub call: CallUid,
    /// Cancelled when the turn was interrupted or the tool's time is up. A result that comes within the grace period still
    /// counts; after that the tool is dropped. A tool that blocks its thread cannot be dropped: run it on a thread of its
    /// own.
    pub cancel: CancellationToken,
    pub(crate) progress: ToolProgress,
}

impl ToolContext {
    /// A context without an engine, for tests of a tool.
    #[must_use]
    pub fn new(chat: ChatId, call: CallUid) -> Self {
        Self { chat, call, cancel: CancellationToken::new(), progress: ToolProgress::default() }
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
}

impl ToolError {
    /// An error with this message.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), meta: Meta::new() }
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

    async fn run(&self, context: ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
        let input = serde_json::from_value(input).map_err(|error| format!("the input does not fit: {error}"))?;
        (self.run)(context, input).await.map(Into::into)
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
