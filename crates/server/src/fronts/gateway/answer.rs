//! An answer, as clients that keep their conversation themselves can be told it.
//!
//! Their protocols cannot take anything back. So text and thinking are told as they grow, since no rung of the recovery
//! ladder takes back text; a call is told when its turn is over, whole or not at all. Calls that ran here are not told: the
//! client would run them again. The pieces depend on the stored rows alone, however these were read, and whether the
//! answer still streams or was committed long ago.

use everturn::Subscription;
use everturn::core::chat::{TurnEnd, TurnFailure};
use everturn::core::cost::Usage;
use everturn::core::delta::Delta;
use everturn::core::ids::{CallUid, ChatId, MessageId, ModelId, Seq, StepId, Version};
use everturn::core::message::{Body, Call, Message, Part, Reply, RunBy, Seal, Stop};
use everturn::core::status::Status;
use everturn::core::view::{Cursor, Event, Standing, View};
use everturn::stores::StoreError;

use crate::app::SharedApp;
use crate::app::generations::Generations;

/// The commit that begins the only turn of a generation's chat.
const BEGIN: Cursor = Cursor { version: Version(1), step: StepId(0), seq: Seq(0) };

/// How many messages are read at once of a turn that has more than a snapshot shows.
const PAGE_LEN: usize = 100;

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AnswerPiece {
    /// A text begins.
    TextBegan,
    /// More of it.
    Text(String),
    /// It is over.
    TextEnded,
    /// Thinking begins.
    ReasoningBegan,
    /// More of it.
    Reasoning(String),
    /// It is over; with the provider's seal, if there is one.
    ReasoningEnded(Option<SealedBy>),
    /// A call of a tool of the client's, whole.
    Call(ClientCall),
}

/// The seal of thinking, and the model that set it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SealedBy {
    pub seal: Seal,
    pub model: ModelId,
}

/// A call that the client is to run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClientCall {
    pub id: String,
    pub tool: String,
    /// The input, as JSON.
    pub input: String,
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AnswerEnd {
    pub reason: EndReason,
    pub usage: Usage,
    /// Provider calls beyond one per reply: what was healed.
    pub healed: u64,
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum EndReason {
    /// The model was done.
    Done,
    /// The client is to run calls.
    Calls,
    /// A limit on the length was reached.
    Length,
    /// The provider cut it by its policy.
    Filtered,
    /// There is no answer.
    Failed(Box<TurnFailure>),
    /// It was stopped.
    Stopped,
}

/// What is new in an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AnswerNews {
    pub pieces: Vec<AnswerPiece>,
    pub end: Option<AnswerEnd>,
}

/// Reads one generation from its beginning.
pub(crate) struct AnswerReader {
    app: SharedApp,
    chat: ChatId,
    /// The last message of the conversation: what comes behind it is the answer.
    after: MessageId,
    events: Subscription,
    view: View,
    told: Told,
    /// Whether something was folded that was not looked at.
    is_behind: bool,
    /// Whether messages of the turn may be missing before those of a snapshot.
    has_gap: bool,
}

impl AnswerReader {
    /// Reads the generation of a chat with so many messages of conversation.
    pub(crate) fn new(app: SharedApp, chat: ChatId, conversation_len: usize) -> Self {
        let events = app.events(chat, Some(BEGIN));
        let (after, view, told) = (MessageId(conversation_len as u64), View::default(), Told::default());
        Self { app, chat, after, events, view, told, is_behind: false, has_gap: false }
    }

    /// What is new; waits for something. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<AnswerNews, StoreError> {
        loop {
            if self.has_gap {
                self.fill_in().await?;
                self.has_gap = false;
            }
            // The rest of a catch-up belongs to it: half a commit says nothing.
            if self.is_behind && self.events.cursor().is_some() {
                self.is_behind = false;
                let (pieces, end) = self.told.news(&self.view);
                if !pieces.is_empty() || end.is_some() {
                    return Ok(AnswerNews { pieces, end });
                }
            }
            let event = self.events.next().await?;
            self.is_behind = true;
            self.fold(&event)?;
        }
    }

    fn fold(&mut self, event: &Event) -> Result<(), StoreError> {
        self.has_gap |= matches!(event, Event::Reset(_));
        if let Event::Delta(row) = event
            && *row.delta == Delta::RetractAll
        {
            self.told.begins_again = true;
        }
        if let Event::Message(message) = event
            && message.id <= self.after
        {
            return Ok(());
        }
        self.view.fold(event).map_err(|error| StoreError::Unreadable(error.to_string()))?;
        if self.has_gap {
            self.view.messages.retain(|message| message.id > self.after);
        }
        Ok(())
    }

    /// Reads what a snapshot leaves out of a long turn.
    async fn fill_in(&mut self) -> Result<(), StoreError> {
        let first = self.view.messages.first().map(|message| message.id);
        let Some(first) = first.filter(|first| first.0 > self.after.0 + 1) else { return Ok(()) };
        let (mut earlier, mut after) = (Vec::new(), self.after);
        loop {
            let page = Generations(&self.app).messages_after(self.chat, after, PAGE_LEN).await?;
            let Some(last) = page.last().map(|message| message.id) else { break };
            earlier.extend(page.into_iter().filter(|message| message.id < first));
            if last >= first {
                break;
            }
            after = last;
        }
        earlier.append(&mut self.view.messages);
        self.view.messages = earlier;
        Ok(())
    }
}

/// What was told of an answer.
#[derive(Debug, Default)]
struct Told {
    /// Replies that were told whole.
    replies: usize,
    /// Parts of the reply under way that were told whole.
    parts: usize,
    /// The part that was begun and not ended.
    open: Option<OpenPart>,
    /// Whether the step began again, which it does only before any text. What was thought stays told.
    begins_again: bool,
    is_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct OpenPart {
    is_text: bool,
    /// How many bytes of it were told.
    len: usize,
}

/// The reply under way, or one that was committed.
struct ReplySource<'a> {
    parts: Vec<&'a Part>,
    model: Option<&'a ModelId>,
    is_committed: bool,
}

impl Told {
    fn news(&mut self, view: &View) -> (Vec<AnswerPiece>, Option<AnswerEnd>) {
        let mut pieces = Vec::new();
        if self.is_over {
            return (pieces, None);
        }
        let ended = view.standing.as_ref().filter(|standing| is_over(standing));
        let replies: Vec<&Reply> = view.messages.iter().filter_map(|message| reply_of(message)).collect();
        while let Some(reply) = replies.get(self.replies) {
            let source = ReplySource {
                parts: reply.parts.iter().filter(|part| is_told(part)).collect(),
                model: Some(&reply.model),
                is_committed: true,
            };
            let ran = |call: CallUid| has_result(view, call);
            if !self.tell(&source, &mut pieces, |call| ran(call.uid), ended.is_some()) {
                break;
            }
            self.replies += 1;
            self.parts = 0;
        }
        if self.replies == replies.len()
            && let Some(draft) = &view.draft
        {
            let parts = draft.parts().iter().filter(|part| is_told(part)).collect();
            let source = ReplySource { parts, model: draft.model(), is_committed: false };
            self.tell(&source, &mut pieces, |_| false, false);
        }
        let end = ended.filter(|_| self.replies == replies.len()).map(|standing| end_of(view, standing));
        if end.is_some() {
            self.close(None, &mut pieces); // Thinking of a draft that was given up.
            self.is_over = true;
        }
        (pieces, end)
    }

    /// Tells what is new of a reply. Whether all of it is told.
    fn tell(
        &mut self,
        source: &ReplySource<'_>,
        pieces: &mut Vec<AnswerPiece>,
        ran: impl Fn(&Call) -> bool,
        is_over: bool,
    ) -> bool {
        let begins_again = std::mem::take(&mut self.begins_again);
        if begins_again || self.parts > source.parts.len() || !self.fits(source) {
            self.close(None, pieces);
            self.parts = 0;
        }
        while let Some(part) = source.parts.get(self.parts) {
            // A call of a draft may be taken back, and the text before it goes on then.
            let next = source.parts.get(self.parts + 1);
            let is_closed = source.is_committed || next.is_some_and(|next| !matches!(next, Part::Call(_)));
            match part {
                Part::Call(call) if ran(call) || (source.is_committed && !call.whole) => {}
                Part::Call(call) if is_over => pieces.push(AnswerPiece::Call(client_call(call))),
                Part::Call(_) => return false,
                Part::Text(text) => self.grow(&text.text, true, pieces),
                Part::Reasoning(reasoning) => self.grow(&reasoning.text, false, pieces),
                _ => {}
            }
            if !is_closed {
                return false;
            }
            self.close(seal_of(part, source.model), pieces);
            self.parts += 1;
        }
        source.is_committed
    }

    /// Whether the part that is open is still what it was.
    fn fits(&self, source: &ReplySource<'_>) -> bool {
        let Some(open) = self.open else { return true };
        match source.parts.get(self.parts) {
            Some(Part::Text(text)) => open.is_text && text.text.is_char_boundary(open.len),
            Some(Part::Reasoning(thought)) => !open.is_text && thought.text.is_char_boundary(open.len),
            _ => false,
        }
    }

    fn grow(&mut self, text: &str, is_text: bool, pieces: &mut Vec<AnswerPiece>) {
        let open = self.open.get_or_insert_with(|| {
            pieces.push(if is_text { AnswerPiece::TextBegan } else { AnswerPiece::ReasoningBegan });
            OpenPart { is_text, len: 0 }
        });
        let new = text.get(open.len..).unwrap_or_default();
        if !new.is_empty() {
            pieces.push(if is_text { AnswerPiece::Text(new.into()) } else { AnswerPiece::Reasoning(new.into()) });
        }
        open.len = text.len();
    }

    fn close(&mut self, seal: Option<SealedBy>, pieces: &mut Vec<AnswerPiece>) {
        if let Some(open) = self.open.take() {
            pieces.push(if open.is_text { AnswerPiece::TextEnded } else { AnswerPiece::ReasoningEnded(seal) });
        }
    }
}

/// Whether a part can be told at all. The same parts of a draft and of the reply it becomes are.
fn is_told(part: &Part) -> bool {
    match part {
        Part::Text(text) => !text.text.is_empty(),
        Part::Reasoning(reasoning) => !reasoning.text.is_empty() || reasoning.seal.is_some(),
        Part::Call(call) => call.run_by == RunBy::Us,
        Part::Provided(_) | Part::Source(_) | Part::File(_) | Part::Other(_) => false,
    }
}

fn seal_of(part: &Part, model: Option<&ModelId>) -> Option<SealedBy> {
    match part {
        Part::Reasoning(reasoning) => Some(SealedBy { seal: reasoning.seal.clone()?, model: model?.clone() }),
        _ => None,
    }
}

fn client_call(call: &Call) -> ClientCall {
    let id = if call.provider_id.is_empty() {
        format!("call_{}_{}", call.uid.step.0, call.uid.ordinal)
    } else {
        call.provider_id.clone()
    };
    let input = if call.input.trim().is_empty() { "{}".into() } else { call.input.clone() };
    ClientCall { id, tool: call.tool.clone(), input }
}

fn reply_of(message: &Message) -> Option<&Reply> {
    match &message.body {
        Body::Reply(reply) => Some(reply),
        _ => None,
    }
}

fn has_result(view: &View, call: CallUid) -> bool {
    view.messages.iter().any(|message| matches!(&message.body, Body::Result(result) if result.call == call))
}

fn is_over(standing: &Standing) -> bool {
    matches!(standing.status, Status::Idle | Status::Failed) && standing.ended.is_some()
}

fn end_of(view: &View, standing: &Standing) -> AnswerEnd {
    let replies: Vec<&Reply> = view.messages.iter().filter_map(|message| reply_of(message)).collect();
    let newest = replies.last().copied();
    let has_calls = newest.is_some_and(|reply| {
        reply.calls().any(|call| call.whole && call.run_by == RunBy::Us && !has_result(view, call.uid))
    });
    let reason = match standing.ended.as_ref() {
        Some(TurnEnd::Failed(failure)) => EndReason::Failed(failure.clone()),
        Some(TurnEnd::Interrupted) => EndReason::Stopped,
        Some(TurnEnd::Length) => EndReason::Length,
        Some(TurnEnd::Filtered) => EndReason::Filtered,
        Some(TurnEnd::StepsMax | TurnEnd::TimeMax | TurnEnd::TokensMax | TurnEnd::CostMax) => EndReason::Length,
        _ if newest.is_some_and(|reply| reply.stop == Stop::Length) => EndReason::Length,
        _ if has_calls => EndReason::Calls,
        _ => EndReason::Done,
    };
    // The prompt is that of the newest request: clients see by it how full the context window is. Everything that was
    // written counts as output, also by attempts that broke.
    let (known, estimated) = (standing.totals.tally.known, standing.totals.tally.estimated);
    let prompt = newest.and_then(|reply| reply.usage).unwrap_or(known);
    let output = known.output.saturating_add(estimated.output);
    let input = if prompt.prompt() == 0 { estimated.input } else { prompt.input };
    let usage = Usage { input, output, reasoning: known.reasoning, ..prompt };
    AnswerEnd { reason, usage, healed: standing.totals.attempts.saturating_sub(replies.len() as u64) }
}
