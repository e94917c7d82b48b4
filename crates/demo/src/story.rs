//! What is going to happen, before any of it does.
//!
//! A scene is one kind of trouble, played on every wire at the same time. The seed decides where it strikes and how long
//! the answers are, so a run can be had again. Nothing here touches the world: a story is a list, and tests read it.

mod fault;
mod order;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(super) use fault::{Fault, Kind, Trace};
pub(super) use order::Order;

use super::dice::Dice;

/// The formats that the daemon speaks with providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
    /// Gemini.
    Gemini,
}

impl Wire {
    pub(super) const ALL: [Self; 4] = [Self::Anthropic, Self::Responses, Self::Chat, Self::Gemini];

    /// What people call it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Responses => "responses",
            Self::Chat => "chat",
            Self::Gemini => "gemini",
        }
    }

    /// What the daemon calls the provider behind it.
    pub(super) const fn provider(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Responses => "openai",
            Self::Chat => "chat",
            Self::Gemini => "google",
        }
    }

    /// Whether its provider can keep a generation whose stream was lost.
    const fn keeps(self) -> bool {
        matches!(self, Self::Responses | Self::Gemini)
    }
}

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// Enough to watch.
    Full,
    /// Enough to test.
    Quick,
}

impl Length {
    /// How long each word takes: of few words, long enough that a busy machine can break one of them.
    pub(super) const fn pace(self) -> Duration {
        match self {
            Self::Full => Duration::from_millis(6),
            Self::Quick => Duration::from_millis(15),
        }
    }
}

/// What the run is told to play.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) seed: u64,
    /// None means all.
    pub(super) wires: Vec<Wire>,
    /// None means all.
    pub(super) faults: Vec<Fault>,
    pub(super) length: Length,
}

/// All scenes of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Story {
    pub(super) scenes: Vec<Scene>,
}

/// One kind of trouble, on every wire.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scene {
    pub(super) kind: Kind,
    /// The word, call or thought at which it strikes.
    pub(super) at: u64,
    /// When the second client joins: at this word.
    pub(super) joins_at: u64,
    pub(super) lanes: Vec<Lane>,
}

/// One chat of a scene.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lane {
    pub(super) wire: Wire,
    /// The agent, and what tells the lane from all others.
    pub(super) agent: String,
    /// The model as the daemon knows it, with its provider; what goes wrong is in the name.
    pub(super) model: String,
    /// What the model is ordered to say, message by message.
    pub(super) orders: Vec<Order>,
}

impl Lane {
    /// The model as its provider knows it.
    pub(super) fn model_name(&self) -> &str {
        self.model.split_once('/').map_or("", |(_, name)| name)
    }

    /// How many tokens there are to be shown.
    pub(super) fn len(&self) -> usize {
        self.orders.iter().map(Order::len).sum()
    }
}

impl Story {
    /// The story of a seed.
    pub(super) fn new(wanted: &Wanted) -> Self {
        let usual: Vec<Fault> = Kind::ALL.iter().map(|kind| Fault { kind: *kind, at: None }).collect();
        let faults = if wanted.faults.is_empty() { usual } else { wanted.faults.clone() };
        let wires = if wanted.wires.is_empty() { Wire::ALL.to_vec() } else { wanted.wires.clone() };
        let scene = |(number, fault): (usize, &Fault)| {
            // Each scene has dice of its own: leaving one out does not change the others.
            let dice = Dice::new(wanted.seed.wrapping_mul(1_000_003) ^ fault.kind as u64);
            Scene::new(number, *fault, &wires, wanted.length, dice)
        };
        let scenes = faults.iter().enumerate().map(scene).filter(|scene| !scene.lanes.is_empty());
        Self { scenes: scenes.collect() }
    }

    /// The agents of all lanes, as the daemon reads them.
    pub(super) fn config(&self) -> String {
        let lanes = self.scenes.iter().flat_map(|scene| &scene.lanes);
        lanes.map(|lane| format!("[agents.{}]\nmodel = \"{}\"\n", lane.agent, lane.model)).collect()
    }
}

impl Scene {
    fn new(number: usize, fault: Fault, wires: &[Wire], length: Length, mut dice: Dice) -> Self {
        let kind = fault.kind;
        let (before, after) = match length {
            Length::Full => (dice.within(70..=110), dice.within(30..=50)),
            Length::Quick => (dice.within(24..=32), dice.within(8..=12)),
        };
        let thoughts = before / 5;
        let at = fault.at.unwrap_or_else(|| kind.strikes(before, &mut dice));
        let before = if kind.counts_words() { before.max(at + 10) } else { before };
        let joins_at = dice.within(before / 3..=before * 2 / 3);
        let lane = |wire: &Wire| {
            let agent = format!("{}-{}-{}", kind.name(), number + 1, wire.name());
            let orders = kind.orders((thoughts, before, after), number as u64 * 100, &mut dice);
            let faults = kind.in_model(at);
            let kept = if kind == Kind::Lose { "kept-" } else { "" };
            let model = format!("{}/drill-{kept}{agent}{faults}", wire.provider());
            Lane { wire: *wire, agent, model, orders }
        };
        let fits = |wire: &&Wire| kind != Kind::Lose || wire.keeps();
        let lanes = wires.iter().filter(fits).map(lane).collect();
        Self { kind, at, joins_at, lanes }
    }
}
