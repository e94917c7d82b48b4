//! Whatever happens to a turn, and in whatever portions its rows arrive, the client ends with the parts that are stored.

use everturn::core::chat::Chat;
use everturn::core::delta::{AttemptBegan, CallBegan, Delta, Rung};
use everturn::core::draft::Draft;
use everturn::core::ids::{ChatId, InboxSeq, MessageId, Seq, Timestamp};
use everturn::core::message::{Body, Message, Meta, Output, Stop};
use everturn::core::view::{Event, JournalRow, Snapshot, Standing};

use super::*;

#[path = "../../../../tests/it/fronts/fold.rs"]
mod fold;
use fold::Folded;

/// Numbers by chance, the same for the same seed.
struct SeededDice(u64);

impl SeededDice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) >> 16) % sides
    }
}

const USER: MessageId = MessageId(1);

fn message(id: u64, body: Body) -> Arc<Message> {
    Arc::new(Message { id: MessageId(id), at: Timestamp(0), body, sent: None })
}

/// The deltas of one step, with breaks and every rung of the ladder, and what the model stopped for.
struct Step {
    deltas: Vec<Delta>,
    calls: u16,
    slot: u32,
    attempts: u32,
}

impl Step {
    fn attempt(&mut self, rung: Rung) {
        self.attempts += 1;
        let model = "understudy/drill".parse().unwrap();
        self.deltas.push(Delta::Attempt(Box::new(AttemptBegan { number: self.attempts, model, rung })));
    }

    fn words(&mut self, dice: &mut SeededDice, of: fn(String) -> Delta) {
        for word in 0..=dice.below(4) {
            self.deltas.push(of(format!("w{word}ü ")));
        }
    }

    fn call(&mut self, dice: &mut SeededDice, is_whole: bool) {
        self.slot += 1;
        let (slot, tool) = (self.slot, ["map", "roll"][dice.below(2) as usize].to_owned());
        let began = CallBegan { slot, provider_id: String::new(), tool, run_by: RunBy::Us, meta: Meta::new() };
        self.deltas.push(Delta::CallBegan(Box::new(began)));
        let input = if dice.below(5) == 0 { "{\"of\": not json" } else { "{\"of\": \"kelp\"}" };
        let cut = dice.below(input.len() as u64) as usize;
        self.deltas.push(Delta::CallInput { slot, json: input[..cut].into() });
        if is_whole {
            self.deltas.push(Delta::CallInput { slot, json: input[cut..].into() });
            self.deltas.push(Delta::CallEnded { slot });
        }
        self.calls += 1;
    }

    fn random(dice: &mut SeededDice) -> Self {
        let mut step = Self { deltas: Vec::new(), calls: 0, slot: 0, attempts: 0 };
        step.attempt(Rung::First);
        while dice.below(3) == 0 {
            step.words(dice, Delta::Reasoning); // Broken off before any text: the step begins again.
            step.deltas.push(Delta::RetractAll);
            step.attempt(Rung::Restart);
        }
        if dice.below(2) == 0 {
            step.words(dice, Delta::Reasoning);
        }
        for _ in 0..=dice.below(2) {
            step.words(dice, Delta::Text);
            match dice.below(4) {
                0 => {
                    step.call(dice, false); // Broken off in a call.
                    step.deltas.push(Delta::RetractCall { ordinal: step.calls - 1 });
                    step.attempt(Rung::Continue);
                    step.words(dice, Delta::Text);
                }
                1 => step.attempt(Rung::Continue),
                2 => step.deltas.push(Delta::Ended),
                _ => {}
            }
        }
        for _ in 0..dice.below(3) {
            step.call(dice, true);
        }
        step
    }
}

/// A client at one profile, and the turn it is told.
struct Stage {
    teller: ChunkTeller,
    view: TurnView,
    folded: Folded,
    clients: Arc<BTreeSet<String>>,
}

impl Stage {
    fn new(profile: Profile) -> Self {
        let clients: Arc<BTreeSet<String>> = Arc::new([String::from("map")].into());
        let user = message(USER.0, Body::User(vec![Part::text("hello")]));
        let teller = ChunkTeller::new(profile, clients.clone());
        Self { teller, view: TurnView::new(&user), folded: Folded::default(), clients }
    }

    fn told(&mut self) {
        self.teller.tell(&self.view).expect("nothing was told that is wrong now");
        self.read();
        if let Some(step) = self.teller.newest() {
            self.view.forget_before(step);
        }
    }

    fn read(&mut self) {
        let bytes = self.teller.take();
        for line in str::from_utf8(&bytes).unwrap().split_terminator("\n\n") {
            let data = line.strip_prefix("data: ").unwrap();
            if data != "[DONE]" {
                self.folded.fold(&serde_json::from_str(data).unwrap());
            }
        }
    }
}

fn standing() -> Standing {
    let chat = Chat::new(ChatId::new(Timestamp(0), 1), "agent", "owner");
    Standing { received: InboxSeq(1), ..Standing::of(&chat, std::iter::empty()) }
}

/// Plays a turn of a few steps; the dice decide what happens in it, the portions decide where the client is told.
fn play(profile: Profile, seed: u64, portions: u64) -> (Vec<Value>, Vec<Value>) {
    let (mut dice, mut cuts) = (SeededDice(seed), SeededDice(portions));
    let mut stage = Stage::new(profile);
    let mut whole = TurnView::new(&message(USER.0, Body::User(vec![Part::text("hello")])));
    let mut id = USER.0;
    for number in 1..=1 + dice.below(3) {
        let (step, random) = (StepId(number), Step::random(&mut dice));
        let mut draft = Draft::new(step);
        for (at, delta) in random.deltas.iter().enumerate() {
            draft.push(Timestamp(0), delta).unwrap();
            let row = JournalRow { step, seq: Seq(at as u64 + 1), at: Timestamp(0), delta: Arc::new(delta.clone()) };
            if cuts.below(20) == 0 {
                // The reader fell behind: it gets the chat as it is.
                let snapshot = Snapshot { messages: Vec::new(), standing: standing(), draft: Some(draft.clone()) };
                stage.view.fold(&Event::Reset(Box::new(snapshot))).unwrap();
            } else {
                stage.view.fold(&Event::Delta(row)).unwrap();
            }
            if cuts.below(3) == 0 {
                stage.told();
            }
        }
        let stop = if random.calls > 0 { Stop::ToolUse } else { Stop::End };
        let Some(reply) = draft.seal(stop, Timestamp(0), None) else { continue };
        id += 1;
        let calls: Vec<Call> = reply.calls().cloned().collect();
        let mut rows = vec![message(id, Body::Reply(Box::new(reply)))];
        for call in calls {
            id += 1;
            let verdict = if call.object().is_none() {
                CallVerdict::Error
            } else {
                [CallVerdict::Done, CallVerdict::Error, CallVerdict::Interrupted][dice.below(3) as usize]
            };
            let result = CallResult::new(call.uid, call.tool, verdict, Output::text("came"), Timestamp(0));
            rows.push(message(id, Body::Result(Box::new(result))));
        }
        for row in rows {
            whole.message(&row);
            stage.view.message(&row);
            if cuts.below(2) == 0 {
                stage.told();
            }
        }
    }
    stage.told();
    stage.teller.over(&TurnOutcome::Done);
    stage.read();
    assert_eq!(stage.folded.finish.as_deref(), Some("stop"));
    let stored = parts::of_turn(&whole, &[], &stage.clients);
    (stage.folded.parts, stored)
}

fn without_reasoning(parts: Vec<Value>) -> Vec<Value> {
    parts.into_iter().filter(|part| part["type"] != "reasoning").collect()
}

/// FA05, FA15: newer clients end with what is stored, to the byte. In the base profile reasoning of an attempt that was
/// given up stays, and everything else is what is stored.
#[test]
fn a_client_ends_with_what_is_stored() {
    for seed in 0..1_500 {
        let (shown, stored) = play(Profile::Newest, seed, seed + 1);
        assert_eq!(shown, stored, "seed {seed}");
        let (shown, stored) = play(Profile::Base, seed, seed + 1);
        assert_eq!(without_reasoning(shown), without_reasoning(stored), "seed {seed}");
    }
}

/// Rows end in the same parts, whatever the portions in which they arrive.
#[test]
fn portions_do_not_matter() {
    for seed in 0..100 {
        for profile in [Profile::Base, Profile::Newest] {
            let (expected, _) = play(profile, seed, 0);
            for portions in 1..10 {
                let (shown, _) = play(profile, seed, portions);
                if profile == Profile::Newest {
                    assert_eq!(shown, expected, "seed {seed}, portions {portions}");
                } else {
                    assert_eq!(without_reasoning(shown), without_reasoning(expected.clone()), "seed {seed}");
                }
            }
        }
    }
}

/// A replay of what is stored is the stored message, reasoning included, in both profiles.
#[test]
fn a_replay_is_what_is_stored() {
    for seed in 0..300 {
        for profile in [Profile::Base, Profile::Newest] {
            let mut dice = SeededDice(seed);
            let mut stage = Stage::new(profile);
            let mut draft = Draft::new(StepId(1));
            let random = Step::random(&mut dice);
            for delta in &random.deltas {
                draft.push(Timestamp(0), delta).unwrap();
            }
            let Some(reply) = draft.seal(Stop::End, Timestamp(0), None) else { continue };
            stage.view.message(&message(2, Body::Reply(Box::new(reply))));
            stage.told();
            stage.teller.over(&TurnOutcome::Done);
            stage.read();
            assert_eq!(stage.folded.parts, parts::of_turn(&stage.view, &[], &stage.clients), "seed {seed}");
        }
    }
}
