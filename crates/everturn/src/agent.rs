//! Who a chat talks to: a model with its instructions, its tools and its bounds.

use std::sync::Arc;

use async_trait::async_trait;
use everturn_core::chat::Chat;
use everturn_core::context::Threshold;
use everturn_core::ids::ModelId;
use everturn_core::limits::Limits;
use everturn_core::prompt::{BadSampling, Effort, Sampling};

use crate::tool::Tool;
use crate::toolbox::{BadTool, Toolbox};

/// A model with its instructions, its tools and its bounds.
#[derive(Clone)]
pub struct Agent {
    /// The models to ask, first choice first. The others are asked when the ones before them are given up.
    pub models: Vec<ModelId>,
    /// Instructions, sent before everything else.
    pub system: Vec<String>,
    /// How hard it should think, where the model can be told.
    pub effort: Option<Effort>,
    /// How it should pick its words, and what ends its answers. What a model does not take is left out.
    pub sampling: Sampling,
    /// The most tokens an answer may have; as much as the model can, and 32,000, if left out.
    pub output_tokens_max: Option<u32>,
    /// Its bounds.
    pub limits: Limits,
    /// How full the window may be before the transcript is summarised.
    pub compaction: Threshold,
    /// Its tools.
    pub toolbox: Arc<Toolbox>,
    /// Whether to let the provider remember the transcript.
    pub chaining: Chaining,
    /// Whether to ask for generations that outlive their stream.
    pub background: Background,
    /// What is asked before each step.
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

/// Whether generations are asked for that the provider keeps for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Background {
    /// A generation ends with its stream.
    #[default]
    Off,
    /// It goes on, and can be re-attached to.
    On,
}

/// Somebody who may tell the model something before a step.
#[async_trait]
pub trait Hook: Send + Sync + 'static {
    /// What the model should know before the next step. It becomes a message, once.
    async fn before_step(&self, chat: &Chat) -> Option<String>;
}

impl Agent {
    /// An agent on one model, with the default bounds and no tools.
    #[must_use]
    pub fn new(model: ModelId) -> Self {
        Self { models: vec![model], ..Self::nobody() }
    }

    /// Stands for an agent that is not there: it asks no model.
    pub(crate) fn nobody() -> Self {
        Self {
            models: Vec::new(),
            system: Vec::new(),
            effort: None,
            sampling: Sampling::default(),
            output_tokens_max: None,
            limits: Limits::default(),
            compaction: Threshold::default(),
            toolbox: Arc::new(Toolbox::new()),
            chaining: Chaining::Off,
            background: Background::Off,
            hook: None,
        }
    }

    /// The models to ask in a chat with this model of its own, first choice first. It stands for the agent's first.
    pub(crate) fn asks<'a>(&'a self, own: Option<&'a ModelId>) -> impl Iterator<Item = &'a ModelId> {
        let others = self.models.iter().skip(1).filter(move |model| Some(*model) != own);
        own.or(self.models.first()).into_iter().chain(others)
    }

    /// The same agent with another model to fall back to.
    #[must_use]
    pub fn or(mut self, model: ModelId) -> Self {
        self.models.push(model);
        self
    }

    /// The same agent with more instructions.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system.push(text.into());
        self
    }

    /// The same agent with sampling parameters and stop sequences. What a model or its wire does not take is left out of
    /// requests to it; [`Sampling::fitting`] says what that is.
    ///
    /// # Errors
    /// A value that no provider takes.
    pub fn sampling(mut self, sampling: Sampling) -> Result<Self, BadSampling> {
        sampling.check()?;
        self.sampling = sampling;
        Ok(self)
    }

    /// The same agent with answers of at most so many tokens. What the model cannot say at once is not asked of it.
    #[must_use]
    pub const fn output_tokens_max(mut self, tokens: u32) -> Self {
        self.output_tokens_max = Some(tokens);
        self
    }

    /// The same agent with other bounds.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The same agent with a tool.
    pub fn tool(self, tool: impl Tool) -> Result<Self, BadTool> {
        self.toolbox.add(tool)?;
        Ok(self)
    }
}
