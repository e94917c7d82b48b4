//! Commands besides sending: steer, interrupt, edit and answer. An accepted one has its effect once.

use std::collections::BTreeMap;
use std::sync::Arc;

use everturn::core::chat::TurnEnd;
use everturn::core::command::{Command, Refusal};
use everturn::core::ids::{ChatId, InboxSeq};
use everturn::core::message::{Body, Message, Stop, text_of};
use everturn::core::status::Status;
use everturn::core::view::Standing;
use everturn::stores::{Store, StoreExt as _};

/// Something that was taken.
struct Taken {
    verb: String,
    seq: InboxSeq,
    /// The outcome, once it is known; it must not change then.
    outcome: Option<Result<(), Refusal>>,
}

/// All that was taken so far, by chat and key.
#[derive(Default)]
pub struct Inputs(BTreeMap<(ChatId, String), Taken>);

impl Inputs {
    /// A process said that it took something.
    pub fn heed(&mut self, verb: &str, chat: &str, key: &str, seq: &str) {
        let seq = InboxSeq(seq.parse().unwrap());
        let taken = Taken { verb: verb.into(), seq, outcome: None };
        let taken = self.0.entry((chat.parse().unwrap(), key.into())).or_insert(taken);
        assert_eq!(taken.seq, seq, "{key} was taken twice");
    }

    /// Everything that was taken in `chat` waits, or has its effect.
    pub async fn check(&mut self, store: &dyn Store, chat: ChatId, standing: &Standing, transcript: &[Arc<Message>]) {
        let inbox = store.inbox(chat).await.unwrap();
        for ((_, key), taken) in self.0.iter_mut().filter(|((of, _), _)| *of == chat) {
            let seq = store.receipt(chat, key).await.unwrap().map(|receipt| receipt.seq);
            assert_eq!(seq, Some(taken.seq), "{key} was taken, and is forgotten");
            let outcome = store.outcome(chat, taken.seq).await.unwrap();
            assert!(taken.outcome.is_none() || taken.outcome == outcome, "{key}: {:?}, {outcome:?}", taken.outcome);
            taken.outcome = outcome;
            if outcome.is_none() {
                let waits = inbox.iter().find(|inbound| inbound.seq == taken.seq);
                assert!(waits.is_some_and(|inbound| says(&inbound.command, key)), "{key} was taken, and is gone");
            }
        }
        let done = |verb: &str| {
            let done = |of: &ChatId, taken: &Taken| *of == chat && taken.outcome == Some(Ok(())) && taken.verb == verb;
            let done = self.0.iter().filter(move |((of, _), taken)| done(of, taken));
            done.map(|((_, key), taken)| (key.clone(), taken.seq)).collect::<Vec<_>>()
        };
        let newest = |verb| done(verb).into_iter().max_by_key(|(_, seq)| *seq);
        let said: Vec<String> = transcript.iter().filter_map(said_by_people).collect();
        for (key, _) in done("steer") {
            let waiting = standing.queue.iter().map(|queued| text_of(&queued.parts));
            assert_eq!(said.iter().cloned().chain(waiting).filter(|text| *text == key).count(), 1, "{key}");
        }
        for (key, _) in done("answer") {
            let is_it = |body: &Body| matches!(body, Body::Result(result) if result.output.text == key);
            assert_eq!(transcript.iter().filter(|message| is_it(&message.body)).count(), 1, "{key}");
        }
        if let Some((key, seq)) = newest("edit") {
            assert_eq!(said.len(), 1, "an edit takes back what was said before: {said:?}");
            let there = store.receipt(chat, &said[0]).await.unwrap().unwrap().seq;
            assert!(there >= seq, "{key} is undone by {}", said[0]);
        }
        // One that comes to a chat at rest is obeyed too, and stops nothing.
        let is_cut = |body: &Body| matches!(body, Body::Reply(reply) if reply.stop == Stop::Interrupted);
        if let Some((key, seq)) = newest("interrupt")
            && standing.status == Status::Idle
            && transcript.last().is_some_and(|message| is_cut(&message.body))
            && seq.0 == newest_command(store, chat, seq).await
        {
            assert_eq!(standing.ended, Some(TurnEnd::Interrupted), "{key} stopped nothing");
        }
    }

    /// Everything that was taken was obeyed or refused, and some of each kind was obeyed.
    pub fn are_done(&self) {
        let waiting: Vec<_> = self.0.iter().filter(|(_, taken)| taken.outcome.is_none()).map(|(key, _)| key).collect();
        assert!(waiting.is_empty(), "{waiting:?} was never come to");
        for verb in ["steer", "interrupt", "edit", "answer"] {
            let of_kind = || self.0.values().filter(|taken| taken.verb == verb);
            let obeyed = of_kind().filter(|taken| taken.outcome == Some(Ok(()))).count();
            assert!(obeyed >= 3, "only {obeyed} of {} were obeyed: {verb}", of_kind().count());
        }
    }
}

/// The number of the newest command of a chat that was obeyed, from `seq` on.
async fn newest_command(store: &dyn Store, chat: ChatId, seq: InboxSeq) -> u64 {
    let mut newest = seq;
    while store.outcome(chat, newest.next()).await.is_ok_and(|outcome| outcome.is_some()) {
        newest = newest.next();
    }
    newest.0
}

fn said_by_people(message: &Arc<Message>) -> Option<String> {
    if let Body::User(parts) = &message.body { Some(text_of(parts)) } else { None }
}

/// Whether a command is the one with this key.
fn says(command: &Command, key: &str) -> bool {
    match command {
        Command::Send { parts, .. } | Command::Edit { parts, .. } => text_of(parts) == key,
        Command::Interrupt => key.starts_with("interrupt"),
        Command::Answer(_) => key.starts_with("answer"),
        other => panic!("unexpected command {other:?}"),
    }
}
