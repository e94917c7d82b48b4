//! Sends one message and follows its turn, without a screen.

mod told;

use std::io::{IsTerminal, Write};

use everturn_server::wire::{AskBelow, AskKind, Body, Chat, Ended, Failure, Part, Standing, Status, View, When};

use crate::client::{Client, Watch, WatchEvent};
use crate::daemon::DaemonConnection;
use crate::output::{self, Asides};
use crate::process::signals::Ends;
use crate::render::{pretty, said};
use crate::workspaces::resuming;
pub use told::{Lines, TurnOutput, Words};

/// A turn that is followed.
pub struct Turn {
    watch: Watch,
    asked: SentMessage,
    asides: Asides,
}

/// The sent message, and its known state.
struct SentMessage {
    prompt: String,
    /// The newest message before the prompt.
    before: u64,
    /// Its id in the queue.
    queued: u64,
    /// Whether it was seen in the queue.
    has_waited: bool,
    is_heard: bool,
}

/// How following the turn ended.
#[derive(Debug, PartialEq)]
pub enum End {
    Ended(Ended),
    /// The user has to approve a call, or another client has to run it.
    Awaits {
        /// Description for the user.
        what: String,
        /// The input of the call, as far as the daemon has it.
        input: Option<String>,
        /// Approval or result.
        wants: AskKind,
    },
    /// A sub-agent waits for an answer, at its own chat.
    AwaitsBelow {
        /// The sub-agent's chat.
        chat: String,
        /// The call.
        call: String,
    },
    /// Another client removed the message from the queue.
    Dropped,
    /// The user left before the end.
    Left,
}

impl Turn {
    /// Sends the message, and watches the chat from there.
    pub async fn begin(
        connection: &mut DaemonConnection,
        chat: &str,
        prompt: &str,
        asides: Asides,
    ) -> anyhow::Result<Self> {
        let mut watch = connection.client.watch(chat);
        while watch.view().status.is_none() {
            if let WatchEvent::Lost(_) = watch.next().await? {
                connection.settle_in().await?;
            }
        }
        let before = watch.view().messages.last().map_or(0, |message| message.id);
        let queued = connection.client.send(chat, prompt, When::Queue).await?.id;
        let asked = SentMessage { prompt: prompt.into(), before, queued, has_waited: false, is_heard: false };
        Ok(Self { watch, asked, asides })
    }

    /// A printer for the answer's text.
    pub fn words<W: Write + IsTerminal>(&self, out: W) -> Words<W> {
        Words::new(out, &self.asked.prompt, self.asked.before, self.asides)
    }

    /// Follows the turn to its end.
    pub async fn follow(
        &mut self,
        connection: &mut DaemonConnection,
        told: &mut impl TurnOutput,
    ) -> anyhow::Result<End> {
        let mut is_lost = false;
        loop {
            match self.watch.next().await? {
                WatchEvent::Events(events) => {
                    told.events(&events)?;
                    // Only after all events were passed on: the view may be ahead of them.
                    if let Some(end) = self.asked.end(self.watch.view()) {
                        return Ok(end);
                    }
                }
                WatchEvent::Lost(error) => {
                    if !std::mem::replace(&mut is_lost, true) {
                        self.asides.say(format_args!("{error}; reconnecting"));
                    }
                    connection.settle_in().await?;
                }
                WatchEvent::Back => {
                    is_lost = false;
                    self.asides.say("connected again");
                }
            }
        }
    }
}

impl SentMessage {
    /// How the turn has ended, if it has.
    fn end(&mut self, view: &View) -> Option<End> {
        let is_ours = |parts: &[Part]| said(parts) == self.prompt;
        let mut newer = view.messages.iter().rev().take_while(|message| message.id > self.before);
        // The view after a reset may begin after the message.
        self.is_heard |= newer.any(|message| matches!(&message.body, Body::User { parts, .. } if is_ours(parts)));
        let standing = view.status.as_ref()?;
        let waits = standing.queue.iter().any(|queued| queued.id == self.queued);
        self.has_waited |= waits;
        match (standing.status, self.is_heard && !waits) {
            (Status::Awaiting, true) => awaits(standing, ""),
            (Status::Awaiting, false) if waits => awaits(standing, ", and your message waits for that"),
            (_, false) if self.has_waited && !waits => Some(End::Dropped),
            (_, false) => None, // The turn that has ended is an earlier one.
            (Status::Idle | Status::Failed, true) => standing.ended.clone().map(End::Ended),
            (Status::Running | Status::Interrupting, true) => None,
        }
    }
}

/// The end of a turn that waits for a call.
fn awaits(standing: &Standing, more: &str) -> Option<End> {
    let Some(ask) = standing.asks.first() else {
        let AskBelow { chat, call } = standing.asks_below.first()?.clone();
        return Some(End::AwaitsBelow { chat, call });
    };
    let what = match ask.wants {
        AskKind::Approval => format!("{} waits for approval{more}", ask.tool),
        AskKind::Result => format!("{} has to be run by a client{more}", ask.tool),
        AskKind::Answer => format!("{} asks a question{more}", ask.tool),
    };
    Some(End::Awaits { what, input: ask.input.clone(), wants: ask.wants })
}

/// Runs the future to its end. The first signal interrupts the turn, and the stream reports the outcome; a
/// second one leaves at once, even if the daemon does not answer.
pub async fn stoppable(
    client: Client,
    chat: &str,
    ends: &mut Ends,
    turn: impl Future<Output = anyhow::Result<End>>,
) -> anyhow::Result<End> {
    tokio::pin!(turn);
    let mut is_stopping = false;
    loop {
        tokio::select! {
            biased;
            () = ends.next() => {
                if std::mem::replace(&mut is_stopping, true) {
                    return Ok(End::Left);
                }
                output::aside("stopping; signal again to leave at once");
                let (client, chat) = (client.clone(), chat.to_owned());
                tokio::spawn(async move {
                    if let Err(error) = client.interrupt(&chat).await {
                        output::aside(format_args!("the turn cannot be stopped: {error}"));
                    }
                });
            }
            end = &mut turn => return end,
        }
    }
}

impl End {
    /// Prints how the turn ended on standard error, and returns the exit code.
    pub fn report(&self, chat: &Chat) -> u8 {
        let (code, said) = match self {
            Self::Ended(Ended::Done | Ended::StopAfter { .. }) => return 0,
            Self::Ended(Ended::Interrupted) => (130, "stopped; the answer so far is kept".into()),
            Self::Ended(Ended::Failed(Failure { message, detail, .. })) => {
                let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
                (1, format!("{message}{detail}"))
            }
            Self::Ended(early) => {
                let how = serde_json::to_value(early).ok();
                let how = how.as_ref().and_then(|how| how["how"].as_str()).unwrap_or("early").replace('_', " ");
                (3, format!("the turn ended early: {how}"))
            }
            Self::Awaits { what, input, wants: AskKind::Approval } => {
                let input = with_input(input.as_deref());
                (4, format!("{what}: continue with `{}`{input}", resuming(&chat.id, &chat.agent)))
            }
            Self::Awaits { what, input, wants: AskKind::Answer } => {
                let input = with_input(input.as_deref());
                (4, format!("{what}: answer with `everturn asks answer {} JSON`{input}", chat.id))
            }
            Self::AwaitsBelow { chat: below, call } => {
                let show = "`everturn asks` shows what a sub-agent asks";
                (4, format!("{show}: answer with `everturn asks allow {below} {call}`, or with `deny` or `answer`"))
            }
            // No command runs client tools.
            Self::Awaits { what, input, wants: AskKind::Result } => {
                let path = format!("POST /v1/chats/{}/answers", chat.id);
                let input = with_input(input.as_deref());
                (
                    4,
                    format!(
                        "{what}: the chat waits until a client that has the tool sends its result to {path}{input}"
                    ),
                )
            }
            Self::Dropped => (1, "another client removed the message from the queue; it was not answered".into()),
            Self::Left => (130, "left; the turn may continue without you".into()),
        };
        output::aside(said);
        code
    }
}

/// The input of a call in full, on lines of its own, for the decision.
fn with_input(input: Option<&str>) -> String {
    input.map(|input| format!("\n{}", pretty(input))).unwrap_or_default()
}

#[cfg(test)]
mod tests;
