//! Commands besides sending: steer, interrupt, edit and answer. An accepted one has its effect once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everturn::core::chat::TurnEnd;
use everturn::core::command::{Command, InboxCommand, Refusal};
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

/// All that was taken so far.
#[derive(Default)]
pub struct Inputs {
    /// By chat and key.
    taken: BTreeMap<(ChatId, String), Taken>,
    /// Turns that an interrupt stops, whatever happens next, by the last message they answer.
    stopped: BTreeSet<(ChatId, InboxSeq)>,
    /// Interrupts that were obeyed, and the newest command that was looked at for it.
    interrupts: BTreeMap<ChatId, (BTreeSet<InboxSeq>, InboxSeq)>,
}

impl Inputs {
    /// A process said that it took something.
    pub fn heed(&mut self, verb: &str, chat: &str, key: &str, seq: &str) {
        let seq = InboxSeq(seq.parse().unwrap());
        let taken = Taken { verb: verb.into(), seq, outcome: None };
        let taken = self.taken.entry((chat.parse().unwrap(), key.into())).or_insert(taken);
        assert_eq!(taken.seq, seq, "{key} was taken twice");
    }

    /// Everything that was taken in `chat` waits, or has its effect.
    pub async fn check(&mut self, store: &dyn Store, chat: ChatId, standing: &Standing, transcript: &[Arc<Message>]) {
        let inbox = store.inbox(chat).await.unwrap();
        for ((_, key), taken) in self.taken.iter_mut().filter(|((of, _), _)| *of == chat) {
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
            let done = self.taken.iter().filter(move |((of, _), taken)| done(of, taken));
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
        if self.taken.iter().any(|((of, _), taken)| *of == chat && taken.verb == "interrupt") {
            self.stopped.extend(stopped(standing, &inbox).map(|last| (chat, last)));
            self.stopped_turns_stay_stopped(chat, standing, transcript);
            self.note_interrupts(store, chat, standing, transcript).await;
            self.only_interrupts_stop(chat, transcript);
        }
    }

    /// A turn that was being stopped, or whose interrupt waited, when a process died has no whole answer later.
    fn stopped_turns_stay_stopped(&self, chat: ChatId, standing: &Standing, transcript: &[Arc<Message>]) {
        for (_, last) in self.stopped.iter().filter(|(of, _)| *of == chat) {
            let Some(heard) = transcript.iter().position(|message| receipt(message) == Some(*last)) else { continue };
            let answer = transcript[heard + 1..].iter().take_while(|message| receipt(message).is_none());
            let ends: Vec<Stop> = answer.filter_map(stop).collect();
            assert!(!ends.contains(&Stop::End), "message {last} was answered after its turn was stopped");
        }
        if standing.status == Status::Idle {
            let ended = transcript.last().map(|last| match stop(last) {
                Some(Stop::End) => TurnEnd::Done,
                _ => TurnEnd::Interrupted,
            });
            assert_eq!(standing.ended, ended, "after {:?}", transcript.last());
        }
    }

    /// Finds the interrupts by what they are not: nothing else is sent to this chat but messages.
    async fn note_interrupts(
        &mut self,
        store: &dyn Store,
        chat: ChatId,
        standing: &Standing,
        transcript: &[Arc<Message>],
    ) {
        let (interrupts, newest) = self.interrupts.entry(chat).or_default();
        while let Some(outcome) = store.outcome(chat, newest.next()).await.unwrap() {
            *newest = newest.next();
            let is_message = transcript.iter().any(|message| receipt(message) == Some(*newest))
                || standing.queue.iter().any(|queued| queued.id == *newest);
            if outcome.is_ok() && !is_message {
                interrupts.insert(*newest);
            }
        }
    }

    /// Every cut answer has an interrupt of its own that was accepted after what it answers.
    fn only_interrupts_stop(&self, chat: ChatId, transcript: &[Arc<Message>]) {
        let mut left = self.interrupts[&chat].0.clone();
        let mut heard = InboxSeq(0);
        for message in transcript {
            heard = receipt(message).unwrap_or(heard);
            if stop(message) == Some(Stop::Interrupted) {
                let by = left.range(heard..).next().copied();
                assert!(by.is_some_and(|by| left.remove(&by)), "nothing stopped the answer to message {heard}");
            }
        }
    }

    /// Everything that was taken was obeyed or refused, and some of each kind was obeyed.
    pub fn are_done(&self) {
        let waiting: Vec<_> =
            self.taken.iter().filter(|(_, taken)| taken.outcome.is_none()).map(|(key, _)| key).collect();
        assert!(waiting.is_empty(), "{waiting:?} was never come to");
        for verb in ["steer", "interrupt", "edit", "answer"] {
            let of_kind = || self.taken.values().filter(|taken| taken.verb == verb);
            let obeyed = of_kind().filter(|taken| taken.outcome == Some(Ok(()))).count();
            assert!(obeyed >= 3, "only {obeyed} of {} were obeyed: {verb}", of_kind().count());
        }
    }
}

/// The turn that is certain to be stopped, by the last message it answers: it is being stopped, an interrupt of it waits,
/// or the interrupt waits behind the message that begins it. An interrupt aimed at an earlier step may come too late.
fn stopped(standing: &Standing, inbox: &[InboxCommand]) -> Option<InboxSeq> {
    let is_queued = |receipt: &&InboxSeq| standing.queue.iter().any(|queued| queued.id == **receipt);
    let heard = standing.unanswered.iter().rfind(|receipt| !is_queued(receipt)).copied();
    let interrupt = inbox.iter().find(|inbound| inbound.command == Command::Interrupt);
    if heard.is_some() {
        let is_stopped = standing.status == Status::Interrupting
            || interrupt.is_some_and(|interrupt| interrupt.aimed >= standing.step);
        return heard.filter(|_| is_stopped);
    }
    let waits_only = standing.queue.iter().all(|queued| inbox.iter().any(|inbound| inbound.seq == queued.id));
    let first = inbox.iter().find(|inbound| inbound.command.begins_a_turn()).filter(|_| waits_only)?;
    interrupt.filter(|interrupt| interrupt.seq > first.seq).map(|_| first.seq)
}

/// The receipt of a person's message.
fn receipt(message: &Arc<Message>) -> Option<InboxSeq> {
    message.sent.as_ref().map(|sent| sent.receipt)
}

/// How a reply ended.
fn stop(message: &Arc<Message>) -> Option<Stop> {
    if let Body::Reply(reply) = &message.body { Some(reply.stop.clone()) } else { None }
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
