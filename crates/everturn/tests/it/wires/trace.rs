//! The trace of a turn: the client's events, the attempts' rows, and the requests to the provider.
//!
//! Over sockets an answer arrives in different pieces every time, and two commits may be seen as one. So words are joined,
//! bookkeeping is left out, and the status is written only when it says something. The rest is equal in every run.

use std::fmt::Write as _;

use everturn::core::chat::TurnEnd;
use everturn::core::delta::Delta;
use everturn::core::fact::{AttemptOutcome, AttemptRecord};
use everturn::core::message::{Body, Message, Part};
use everturn::core::status::Status;
use everturn::core::view::{Event, Standing};
use everturn_understudy::http::Logged;

use crate::stage;

/// The events of a client, as text.
#[derive(Default)]
pub struct Trace {
    told: String,
    /// The words being joined, and their kind.
    saying: Option<(&'static str, String)>,
    stood: String,
}

impl Trace {
    /// Takes an event in.
    pub fn see(&mut self, event: &Event) {
        match event {
            Event::Reset(_) => {}
            Event::Message(message) => self.tell(&line(message)),
            Event::Delta(row) => self.delta(&row.delta),
            Event::Rewound(from) => self.tell(&format!("rewound from {from}")),
            Event::Standing(standing) => self.stand(standing),
        }
    }

    /// Everything so far.
    pub fn read(mut self) -> String {
        self.tell_words();
        self.told
    }

    fn tell(&mut self, what: &str) {
        self.tell_words();
        writeln!(self.told, "{what}").unwrap();
    }

    fn tell_words(&mut self) {
        if let Some((voice, words)) = self.saying.take() {
            writeln!(self.told, "{voice} {}", counted(&words)).unwrap();
        }
    }

    fn say(&mut self, voice: &'static str, words: &str) {
        if self.saying.as_ref().is_none_or(|(own, _)| *own != voice) {
            self.tell_words();
        }
        self.saying.get_or_insert((voice, String::new())).1.push_str(words);
    }

    fn delta(&mut self, delta: &Delta) {
        match delta {
            Delta::Attempt(began) => self.tell(&format!("attempt {} {:?}", began.number, began.rung)),
            Delta::Text(text) => self.say("says", text),
            Delta::Reasoning(text) => self.say("thinks", text),
            Delta::CallBegan(call) => self.tell(&format!("calls {}", call.tool)),
            Delta::Seam(seam) => self.tell(&format!("seam, {} bytes said again", seam.dropped)),
            Delta::RetractCall { ordinal } => self.tell(&format!("call {ordinal} taken back")),
            Delta::RetractAll => self.tell("everything taken back"),
            _ => {}
        }
    }

    fn stand(&mut self, standing: &Standing) {
        let mut stands = String::new();
        if let Some(wait) = &standing.retry {
            write!(stands, "waits after attempt {}: {:?}", wait.attempt, wait.kind).unwrap();
        }
        if let Some(compacting) = &standing.compacting {
            write!(stands, "compacting {:?}", compacting.source).unwrap();
        }
        if let (Some(end), Status::Idle | Status::Failed) = (&standing.ended, standing.status) {
            stands = ended(end);
        }
        if !stands.is_empty() && stands != self.stood {
            self.tell(&stands);
        }
        self.stood = stands;
    }
}

fn ended(end: &TurnEnd) -> String {
    match end {
        TurnEnd::Failed(failure) => {
            let detail = if failure.detail.is_empty() { String::new() } else { format!("\n  {}", failure.detail) };
            format!("failed {:?} after {}: {}{detail}", failure.kind, failure.attempts, failure.message)
        }
        end => format!("ends {end:?}"),
    }
}

fn line(message: &Message) -> String {
    match &message.body {
        Body::User(parts) => format!("user {:?}", everturn::core::message::text_of(parts)),
        Body::Context(text) => format!("context {text:?}"),
        Body::Reply(reply) => format!("reply [{}] {:?}", parts(&reply.parts), reply.stop),
        Body::Result(result) => {
            format!("result {} {:?} {}", result.tool, result.verdict, brief(&format!("{:?}", result.output.text)))
        }
        Body::Summary(summary) => format!("summary {:?} {}", summary.source, counted(&summary.text)),
    }
}

fn parts(parts: &[Part]) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => counted(&text.text),
        part => brief(stage::parts(std::slice::from_ref(part)).trim_matches(['[', ']'])),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(" | ")
}

/// Text in which numbered words are written as ranges, so that lost, doubled or misplaced ones show.
pub fn counted(text: &str) -> String {
    let mut runs: Vec<(Option<(u32, u32)>, String)> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let number: Option<u32> = word.strip_prefix('t').and_then(|digits| digits.parse().ok());
        match (runs.last_mut(), number) {
            (Some((Some((_, last)), _)), Some(number)) if *last + 1 == number => *last = number,
            (_, Some(number)) => runs.push((Some((number, number)), String::new())),
            (Some((None, words)), None) => write!(words, " {word}").unwrap(),
            (_, None) => runs.push((None, word.into())),
        }
    }
    let run = |(range, words): &(Option<(u32, u32)>, String)| match range {
        Some((first, last)) => format!("t{first}..t{last}"),
        None => brief(&format!("{words:?}")),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(" ")
}

fn brief(text: &str) -> String {
    crate::read::brief(text)
}

/// The attempts' rows.
pub fn rows(attempts: &[AttemptRecord]) -> String {
    let row = |row: &AttemptRecord| {
        let outcome = match row.outcome {
            AttemptOutcome::Broke(cause, kind) => format!("{kind:?} ({cause:?})"),
            outcome => format!("{outcome:?}"),
        };
        let is_answered = row.outcome == AttemptOutcome::Answered;
        let tokens = match (row.tally.known.total() > 0, row.tally.estimated.total() > 0) {
            (false, false) => "none",
            (true, false) if is_answered => "told",
            (_, true) if is_answered => "guessed",
            _ => "counted", // How much a wire tells before it breaks is its own affair.
        };
        format!("row {}.{} {outcome}, tokens {tokens}\n", row.step, row.number)
    };
    attempts.iter().map(row).collect()
}

/// The requests to the provider. Cancelling is not waited for, so it stands last.
pub fn asked(requests: &[Logged]) -> String {
    let (cancels, others): (Vec<_>, Vec<_>) = requests.iter().partition(|request| request.path.ends_with("/cancel"));
    others.into_iter().chain(cancels).map(|request| format!("asked {}\n", wish(request))).collect()
}

fn wish(request: &Logged) -> String {
    let said = request.body.to_string();
    let last = |list: &str| request.body[list].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
    let what = match request.method.as_str() {
        "GET" => format!("again, {}", request.path.split_once("stream=true&").map_or("?", |(_, query)| query)),
        _ if request.path.ends_with("/cancel") => "to cancel".into(),
        _ if said.contains("Your last message broke off") => "to go on".into(),
        _ if last("messages")["role"] == "assistant" => "to go on from its own words".into(),
        _ => "to answer".into(),
    };
    match &request.refused {
        Some((status, _)) => format!("{what}: {status}"),
        None => what,
    }
}
