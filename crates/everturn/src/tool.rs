//! Tools a model may use.
//!
//! A tool says what it is for, what its input looks like, and above all what running it twice would do. The engine sees
//! to the rest: input is repaired and checked before it runs, its start is recorded before it starts, and panics,
//! timeouts and endless output become results the model can read.

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

/// Something a model can use.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// Its name, what it is for, and the schema of its input.
    fn spec(&self) -> ToolSpec;

    /// How it is to be treated. By default it runs beside others, and never twice.
    fn policy(&self) -> Policy {
        Policy::default()
    }

    /// Does the work. `input` fits the schema.
    async fn run(&self, context: ToolContext, input: Value) -> Result<ToolOutput, ToolError>;
}

/// How a tool is to be treated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// What running it twice would do.
    pub effect: Effect,
    /// Whom it may run beside.
    pub beside: Beside,
    /// What its success means for the turn.
    pub after: After,
    /// Whether a person decides on each call.
    pub approval: Approval,
    /// How long it may take; by default as long as the limits say.
    pub time_max: Option<Duration>,
}

/// Whom a tool may run beside.
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

/// What a running tool may know and must watch.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The chat it runs for.
    pub chat: ChatId,
    /// The call it answers. Stable over crashes: good as an idempotency key, together with the chat.
    pub call: CallUid,
    /// Cancelled when the turn was interrupted or the tool's time is up. What the tool says in the moment it is given then
    /// still counts; after that it is dropped. A tool that holds its thread cannot be: let those run on threads of their
    /// own.
    pub cancel: CancellationToken,
}

/// What a tool gives back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    /// Bytes, meant as text. The model sees as much as fits; all of it is kept.
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

/// Why a tool could not do it. The model reads this.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// What went wrong, for the model.
    pub message: String,
    /// For the provider.
    pub meta: Meta,
}

impl<T: Into<String>> From<T> for ToolError {
    fn from(message: T) -> Self {
        Self { message: message.into(), meta: Meta::new() }
    }
}

/// A tool made of a function whose input is a Rust type.
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
    /// The same tool, treated differently.
    #[must_use]
    pub fn with(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The same tool, as one the provider defines and we run.
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
