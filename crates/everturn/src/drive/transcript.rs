//! The part of the transcript that a driver keeps in memory, and the prompt that is made of it.

use std::sync::Arc;

use everturn_core::ids::{MessageId, ModelId};
use everturn_core::message::{Body, Message, Reply, Summary};
use everturn_core::prompt::{Prompt, Target};

/// The messages from the newest summary on. A driver that waits for long drops them, and reads them again on wake-up.
pub(crate) enum Transcript {
    /// Dropped to save memory.
    Unloaded,
    /// In memory.
    Loaded {
        /// Without the bytes of media and long results until [`Transcript::replace`] fills them in.
        messages: Vec<Arc<Message>>,
        /// The messages as prepared for the model that was asked last.
        prompt: Option<Box<Prompt>>,
    },
}

impl Transcript {
    pub(crate) const fn new(messages: Vec<Arc<Message>>) -> Self {
        Self::Loaded { messages, prompt: None }
    }

    pub(crate) const fn is_loaded(&self) -> bool {
        matches!(self, Self::Loaded { .. })
    }

    /// The messages, oldest first; none while they are not loaded.
    pub(crate) fn messages(&self) -> &[Arc<Message>] {
        match self {
            Self::Loaded { messages, .. } => messages,
            Self::Unloaded => &[],
        }
    }

    /// The ids of messages that were loaded without their bytes. None once a prompt was made: it had them.
    pub(crate) fn without_bytes(&self) -> Vec<MessageId> {
        match self {
            Self::Loaded { messages, prompt: None } => {
                messages.iter().filter(|message| !message.is_whole()).map(|message| message.id).collect()
            }
            Self::Loaded { .. } | Self::Unloaded => Vec::new(),
        }
    }

    /// Replaces a message by the same one with its bytes.
    pub(crate) fn replace(&mut self, whole: Arc<Message>) {
        if let Self::Loaded { messages, .. } = self
            && let Some(message) = messages.iter_mut().find(|message| message.id == whole.id)
        {
            *message = whole;
        }
    }

    /// Adds a committed message. A summary replaces everything before it.
    pub(crate) fn push(&mut self, message: &Arc<Message>) {
        let Self::Loaded { messages, prompt } = self else { return };
        if matches!(message.body, Body::Summary(_)) {
            messages.clear();
        }
        if let Some(prompt) = prompt {
            prompt.push(message);
        }
        messages.push(message.clone());
    }

    /// Whether removing `from` and everything after it needs messages older than the newest summary.
    pub(crate) fn begins_at_or_after(&self, from: MessageId) -> bool {
        self.messages().first().is_some_and(|first| first.id >= from)
    }

    /// Removes `from` and everything after it, and the prompt with it.
    pub(crate) fn rewind(&mut self, from: MessageId) {
        if let Self::Loaded { messages, prompt } = self {
            *prompt = None;
            messages.retain(|message| message.id < from);
        }
    }

    /// Reads the prompt for a target, with media hidden up to `hidden_until`. It is kept as long as the same is asked for,
    /// and grows with every message.
    pub(crate) fn read_prompt<T>(
        &mut self,
        target: &Target,
        hidden_until: MessageId,
        read: impl FnOnce(&Prompt) -> T,
    ) -> (T, PromptOrigin) {
        let fits = |prompt: &Prompt| prompt.target() == target && prompt.unseen() == hidden_until;
        match self {
            Self::Loaded { messages, prompt } => {
                let (current, origin) = match prompt.take().filter(|prompt| fits(prompt)) {
                    Some(current) => (current, PromptOrigin::Kept),
                    None => (Box::new(prompt_of(messages.iter(), target, hidden_until)), PromptOrigin::New),
                };
                (read(prompt.insert(current)), origin)
            }
            Self::Unloaded => (read(&prompt_of([], target, hidden_until)), PromptOrigin::New),
        }
    }

    /// The newest summary, which stands for everything before it.
    pub(crate) fn summary(&self) -> Option<&Summary> {
        match &self.messages().first()?.body {
            Body::Summary(summary) => Some(summary),
            _ => None,
        }
    }

    /// How many messages the model has answered or made. Later messages must not be folded into a summary unread.
    pub(crate) fn answered_len(&self) -> usize {
        let by_model = |message: &Message| matches!(message.body, Body::Reply(_) | Body::Result(_));
        self.messages().iter().rposition(|message| by_model(message)).map_or(0, |index| index + 1)
    }

    /// How many messages a new summary could replace.
    pub(crate) fn foldable_len(&self) -> u64 {
        match self.answered_len() {
            0 => 0,
            answered => (answered - usize::from(self.summary().is_some())) as u64,
        }
    }

    /// The newest reply.
    pub(crate) fn newest_reply(&self) -> Option<&Reply> {
        self.messages().iter().rev().find_map(|message| match &message.body {
            Body::Reply(reply) => Some(&**reply),
            _ => None,
        })
    }

    /// The newest reply of one model, and its index.
    pub(crate) fn newest_reply_by(&self, model: &ModelId) -> Option<(usize, &Reply)> {
        self.messages().iter().enumerate().rev().find_map(|(index, message)| match &message.body {
            Body::Reply(reply) if reply.model == *model => Some((index, &**reply)),
            _ => None,
        })
    }

    /// Whether `id` is a user message.
    pub(crate) fn is_users(&self, id: MessageId) -> bool {
        // A message before the summary was looked up when the command was accepted, and ids are never reused.
        let newest_summary = self.messages().first().filter(|message| matches!(message.body, Body::Summary(_)));
        newest_summary.is_some_and(|summary| id < summary.id)
            || self.messages().iter().any(|message| message.id == id && matches!(message.body, Body::User(_)))
    }
}

/// Whether a prompt was made just now or by an earlier call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptOrigin {
    Kept,
    New,
}

/// The prompt of some messages.
pub(crate) fn prompt_of<'a>(
    messages: impl IntoIterator<Item = &'a Arc<Message>>,
    target: &Target,
    hidden_until: MessageId,
) -> Prompt {
    let mut prompt = Prompt::unseeing(target.clone(), hidden_until);
    messages.into_iter().for_each(|message| prompt.push(message));
    prompt
}
