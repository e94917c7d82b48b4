//! A chat as a client sees it: the fold of all events of a stream.

use everturn::core::view;

use super::chat::Standing;
use super::draft::Draft;
use super::event::{Event, Rewound, Snapshot};
use super::message::Message;

/// The fold of all events a client has received.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct View {
    /// Committed messages.
    pub messages: Vec<Message>,
    /// The chat's status, once received.
    pub status: Option<Standing>,
    /// The reply that is arriving.
    pub draft: Option<Draft>,
}

/// Events that do not fit together: some were lost or doubled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFold {
    /// A delta that is not the next one.
    #[error("delta {got} of step {step} came after {after}")]
    Gap {
        /// The draft's step.
        step: u64,
        /// The newest one seen.
        after: u64,
        /// The one that came.
        got: u64,
    },
    /// A message that is not newer than the last.
    #[error("message {0} came again, or too late")]
    Repeated(u64),
    /// A delta for a call that is not open.
    #[error("a delta for call slot {0}, which is not open")]
    NoSuchCall(u32),
}

impl View {
    /// Folds an event.
    ///
    /// # Errors
    /// The event does not follow the one before.
    pub fn fold(&mut self, event: &Event) -> Result<(), BadFold> {
        match event {
            Event::Message(message) => {
                if self.messages.last().is_some_and(|last| last.id >= message.id) {
                    return Err(BadFold::Repeated(message.id));
                }
                self.messages.push(message.clone());
            }
            Event::Delta(delta) => {
                let draft = match &mut self.draft {
                    Some(draft) if draft.step == delta.step => draft,
                    stale => stale.insert(Draft::new(delta.step)),
                };
                draft.push(delta)?;
            }
            Event::Rewound(Rewound { from }) => {
                self.messages.retain(|message| message.id < *from);
                self.draft = None;
            }
            Event::Status(status) => {
                self.draft.take_if(|draft| draft.step < status.step);
                self.status = Some((**status).clone());
            }
            Event::Reset(snapshot) => {
                let Snapshot { messages, status, draft } = (**snapshot).clone();
                *self = Self { messages, status: Some(status), draft };
            }
        }
        Ok(())
    }
}

/// A client that may be cut at any byte.
///
/// Only some events carry an `id:` to resume from. The events before such an event belong to it: a client that was cut in
/// between gets them again. So they are folded together, when the event with the `id:` is there.
#[derive(Debug, Clone, Default)]
pub struct Follower {
    view: View,
    cursor: Option<String>,
    half: Vec<Event>,
}

impl Follower {
    /// Adds an event with its `id:`, if it has one. Returns whether the view has changed.
    ///
    /// # Errors
    /// The events do not fit together.
    pub fn take(&mut self, event: Event, id: Option<&str>) -> Result<bool, BadFold> {
        self.half.push(event);
        let Some(id) = id else { return Ok(false) };
        for event in self.half.drain(..) {
            self.view.fold(&event)?;
        }
        self.cursor = Some(id.into());
        Ok(true)
    }

    /// Handles a cut connection: drops events without a following `id:`, and returns the cursor to resume from.
    pub fn cut(&mut self) -> Option<&str> {
        self.half.clear();
        self.cursor.as_deref()
    }

    /// The chat as received so far.
    #[must_use]
    pub const fn view(&self) -> &View {
        &self.view
    }
}

impl From<&view::View> for View {
    fn from(view::View { messages, standing, draft }: &view::View) -> Self {
        Self {
            messages: messages.iter().map(|message| (&**message).into()).collect(),
            status: standing.as_ref().map(Standing::from),
            draft: draft.as_ref().map(Draft::from),
        }
    }
}
