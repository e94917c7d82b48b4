//! Agents: a model with its instructions, tools and limits.

use std::sync::Arc;

use async_trait::async_trait;
use everturn_core::chat::{Chat, Effect, TurnEnd};
use everturn_core::context::CompactionThreshold;
use everturn_core::ids::{CallUid, ChatId, ModelId};
use everturn_core::limits::Limits;
use everturn_core::permission::{BadRule, KnownTool, PatternKind, Permissions};
use everturn_core::prompt::{BadSampling, Effort, Sampling, ToolSpec};
use serde_json::Value;

use crate::tool::toolbox::{BadTool, LiveToolbox, Shelf, Toolbox};
use crate::tool::{SharedTool, Tool};

/// A model with its instructions, tools and limits.
#[derive(Clone)]
pub struct Agent {
    /// The models, first choice first. A later one is asked when those before it were given up.
    pub models: Vec<ModelId>,
    /// Instructions, sent before everything else.
    pub system: Vec<String>,
    /// Reasoning effort, for models that take one.
    pub effort: Option<Effort>,
    /// Sampling parameters and stop sequences. What a model does not take is left out.
    pub sampling: Sampling,
    /// The most tokens of an answer; by default what the model can, at most 32,000.
    pub output_tokens_max: Option<u32>,
    /// Limits of a turn.
    pub limits: Limits,
    /// How full the context window may be before the transcript is summarised.
    pub compaction: CompactionThreshold,
    /// The tools.
    pub toolbox: Toolbox,
    /// Tools beside them that may change while turns run, and that clones of the agent share.
    pub live: Option<LiveToolbox>,
    /// Which calls run at once, ask a person, or never run.
    pub permissions: Permissions,
    /// Whether requests may refer to the provider's copy of the transcript.
    pub chaining: Chaining,
    /// Whether to request generations that outlive their stream.
    pub background: Background,
    /// Called before each step.
    pub hook: Option<Arc<dyn Hook>>,
}

/// Whether a request may refer to the provider's copy of the transcript instead of sending it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Chaining {
    /// Send everything, every time: the transcript here is the truth.
    #[default]
    Off,
    /// Refer to the last response where that is possible, and send everything when the provider has lost it.
    On,
}

/// Whether generations are requested that the provider keeps for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Background {
    /// A generation ends with its stream.
    #[default]
    Off,
    /// It goes on, and can be re-attached to.
    On,
}

/// A call of a tool, as hooks are told of it.
#[derive(Debug, Clone, Copy)]
pub struct HookedCall<'a> {
    /// The chat.
    pub chat: &'a Chat,
    /// The call.
    pub call: CallUid,
    /// The tool that runs.
    pub tool: &'a str,
    /// Its input, valid by the tool's schema.
    pub input: &'a Value,
}

/// Callbacks of the program. Several are one as a `Vec`.
#[async_trait]
pub trait Hook: Send + Sync + 'static {
    /// The text to add before the next step. It becomes a message, once per step.
    async fn before_step(&self, chat: &Chat) -> Option<String>;

    /// Instructions for this chat, sent after those of the agent. They are asked for whenever work on the chat begins, and
    /// should always be the same: where they change, the provider's cache of the chat is lost.
    async fn instructions(&self, chat: &Chat) -> Option<String> {
        let _ = chat;
        None
    }

    /// Whether calls of tools are to be told to this hook: [`Hook::before_call`] and [`Hook::after_call`].
    fn hears_of_calls(&self) -> bool {
        false
    }

    /// Decides on a call that is about to start; rules and people have permitted it. Asked once, unless the process dies
    /// before the call starts. The turn waits, at most a minute: then the call is refused.
    ///
    /// # Errors
    /// The call does not run, for the reason given. The model reads it.
    async fn before_call(&self, call: HookedCall<'_>) -> Result<(), String> {
        let _ = call;
        Ok(())
    }

    /// Hears of a call that has ended in this process, with its output or its error, before the result is stored. What it
    /// returns is added to the result. A call that a crash interrupts may be told twice, or not at all.
    async fn after_call(&self, call: HookedCall<'_>, returned: Result<&[u8], &str>) -> Option<String> {
        let _ = (call, returned);
        None
    }

    /// Hears of a turn that has ended in this process. The chat does not wait for it, and a crash may lose it.
    async fn turn_ended(&self, chat: &Chat, end: &TurnEnd) {
        let _ = (chat, end);
    }

    /// Removes what the program keeps of a chat that was deleted.
    async fn deleted(&self, chat: ChatId) {
        let _ = chat;
    }
}

#[async_trait]
impl Hook for Vec<Arc<dyn Hook>> {
    async fn before_step(&self, chat: &Chat) -> Option<String> {
        let mut texts = Vec::new();
        for hook in self {
            texts.extend(hook.before_step(chat).await);
        }
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    async fn instructions(&self, chat: &Chat) -> Option<String> {
        let mut texts = Vec::new();
        for hook in self {
            texts.extend(hook.instructions(chat).await);
        }
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    fn hears_of_calls(&self) -> bool {
        self.iter().any(|hook| hook.hears_of_calls())
    }

    async fn before_call(&self, call: HookedCall<'_>) -> Result<(), String> {
        for hook in self.iter().filter(|hook| hook.hears_of_calls()) {
            hook.before_call(call).await?;
        }
        Ok(())
    }

    async fn after_call(&self, call: HookedCall<'_>, returned: Result<&[u8], &str>) -> Option<String> {
        let mut notes = Vec::new();
        for hook in self.iter().filter(|hook| hook.hears_of_calls()) {
            notes.extend(hook.after_call(call, returned).await);
        }
        (!notes.is_empty()).then(|| notes.join("\n"))
    }

    async fn turn_ended(&self, chat: &Chat, end: &TurnEnd) {
        for hook in self {
            hook.turn_ended(chat, end).await;
        }
    }

    async fn deleted(&self, chat: ChatId) {
        for hook in self {
            hook.deleted(chat).await;
        }
    }
}

impl Agent {
    /// An agent on one model, with the default limits and no tools.
    #[must_use]
    pub fn new(model: ModelId) -> Self {
        Self { models: vec![model], ..Self::missing() }
    }

    /// The stand-in for an agent that is not configured: it has no model.
    pub(crate) fn missing() -> Self {
        Self {
            models: Vec::new(),
            system: Vec::new(),
            effort: None,
            sampling: Sampling::default(),
            output_tokens_max: None,
            limits: Limits::default(),
            compaction: CompactionThreshold::default(),
            toolbox: Toolbox::new(),
            live: None,
            permissions: Permissions::default(),
            chaining: Chaining::Off,
            background: Background::Off,
            hook: None,
        }
    }

    /// The models to ask, first choice first. A chat's own model replaces the agent's first.
    pub(crate) fn asks<'a>(&'a self, own: Option<&'a ModelId>) -> impl Iterator<Item = &'a ModelId> {
        let others = self.models.iter().skip(1).filter(move |model| Some(*model) != own);
        own.or(self.models.first()).into_iter().chain(others)
    }

    /// Returns the agent with another model to fall back to.
    #[must_use]
    pub fn or(mut self, model: ModelId) -> Self {
        self.models.push(model);
        self
    }

    /// Returns the agent with more instructions.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system.push(text.into());
        self
    }

    /// Returns the agent with sampling parameters and stop sequences. What a model or its wire does not take is left out of
    /// requests to it; [`Sampling::fitting`] says what that is.
    ///
    /// # Errors
    /// A value that no provider takes.
    pub fn sampling(mut self, sampling: Sampling) -> Result<Self, BadSampling> {
        sampling.check()?;
        self.sampling = sampling;
        Ok(self)
    }

    /// Returns the agent with a limit on the tokens of an answer. The model's own limit holds too.
    #[must_use]
    pub const fn output_tokens_max(mut self, tokens: u32) -> Self {
        self.output_tokens_max = Some(tokens);
        self
    }

    /// Returns the agent with other limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the agent with a tool. Agents it was cloned from, or that were cloned from it, do not get it.
    pub fn tool(mut self, tool: impl Tool) -> Result<Self, BadTool> {
        self.toolbox.add(tool)?;
        Ok(self)
    }

    /// Returns the agent with several tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = SharedTool>) -> Result<Self, BadTool> {
        for tool in tools {
            self.toolbox.add_shared(tool)?;
        }
        Ok(self)
    }

    /// Returns the agent with a tool that the provider defines and runs itself: no code of this process runs for it.
    ///
    /// The definition is what the provider's API documents, so it fits the models of one provider. Calls and their
    /// results are parts of the reply ([`Part::Call`] run by the provider, [`Part::Provided`]), and sources it names are
    /// [`Part::Source`].
    ///
    /// ```
    /// # use everturn::Agent;
    /// # use serde_json::json;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let search = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 5});
    /// let agent = Agent::new("anthropic/claude-sonnet-4-5".parse()?).hosted("web_search", search)?;
    /// # drop(agent);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Part::Call`]: everturn_core::message::Part::Call
    /// [`Part::Provided`]: everturn_core::message::Part::Provided
    /// [`Part::Source`]: everturn_core::message::Part::Source
    pub fn hosted(mut self, name: impl Into<String>, definition: Value) -> Result<Self, BadTool> {
        self.toolbox.add_hosted(name, definition)?;
        Ok(self)
    }

    /// Returns the agent with rules about its tools, which were added before. Rules may name tools that a live toolbox gets
    /// later.
    ///
    /// ```
    /// # use everturn::{Agent, tool};
    /// # use everturn::core::permission::Permissions;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let deploy = tool("deploy", "Deploys the site.", |_, _: ()| async { Ok("deployed") });
    /// let agent = Agent::new("anthropic/claude-sonnet-4-5".parse()?)
    ///     .tool(deploy)?
    ///     .permissions(Permissions::default().ask(["deploy"])?)?;
    /// # drop(agent);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A rule can never match a call of these tools.
    pub fn permissions(mut self, permissions: Permissions) -> Result<Self, BadRule> {
        let names = self.known_tools();
        let named = names.iter().map(|(name, pattern)| KnownTool::Named(name, *pattern));
        let later = self.live.is_some().then_some(KnownTool::Prefixed(""));
        permissions.check(&named.chain(later).collect::<Vec<_>>())?;
        self.permissions = permissions;
        Ok(self)
    }

    /// The tools that permission rules may name, with what a pattern means to each.
    #[must_use]
    pub fn known_tools(&self) -> Vec<(String, PatternKind)> {
        self.shelf().known()
    }

    /// Returns the agent with tools that may change while turns run.
    #[must_use]
    pub fn live_tools(mut self, tools: LiveToolbox) -> Self {
        self.live = Some(tools);
        self
    }

    /// The tools that the model is offered now, live ones included, in the order of requests.
    #[must_use]
    pub fn offered(&self) -> Arc<[ToolSpec]> {
        self.shelf().offered()
    }

    /// The names of the tools that clients run.
    #[must_use]
    pub fn client_tools(&self) -> Vec<String> {
        self.shelf().client_names()
    }

    /// What running a call of this tool twice would do; `None` for tools that clients or providers run, and unknown ones.
    #[must_use]
    pub fn effect_of(&self, tool: &str) -> Option<Effect> {
        self.shelf().effect_of(tool)
    }

    /// The tools as they are now, live ones included.
    pub(crate) fn shelf(&self) -> Arc<Shelf> {
        match &self.live {
            Some(live) => self.toolbox.beside(&live.current()),
            None => self.toolbox.shelf(),
        }
    }

    /// The tools for the turn of a chat, live ones included.
    pub(crate) fn shelf_for(&self, chat: &Chat) -> Arc<Shelf> {
        match &self.live {
            Some(live) => self.toolbox.beside(&live.for_turn(chat)),
            None => self.toolbox.shelf(),
        }
    }
}
