//! The kinds of trouble, and where they strike.

use std::fmt;
use std::str::FromStr;

use super::order::Order;
use crate::dice::Dice;

/// One kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The stream is cut in the middle of a word.
    Cut,
    /// The stream is reset inside the input of a call.
    Input,
    /// The stream says nothing more.
    Stall,
    /// The stream is lost, and the provider has kept the generation.
    Lose,
    /// The provider is overloaded.
    Overload,
    /// The provider asks to be left alone for a while.
    Limit,
    /// The daemon is killed in the middle of an answer.
    Kill,
    /// The daemon is killed in the middle of a tool.
    KillTool,
    /// The first client's connection is cut, and the second joins late.
    Join,
    /// A person steers a turn under way.
    Steer,
    /// A person stops a turn under way, and a message waits in the queue.
    Stop,
}

/// A fault, with its position if `--fault` names one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) at: Option<u64>,
}

/// What trouble leaves in the books of a lane if it strikes. Books without it prove nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trace {
    /// One of these rungs was climbed.
    Rung(&'static [&'static str]),
    /// There were more attempts than steps.
    Attempts,
    /// A client had to wait for its next token.
    Gap,
    /// A message came in while an answer was on its way.
    Message,
    /// An answer is shorter than it was ordered.
    Short,
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, at) = match text.split_once('@') {
            Some((name, at)) => (name, Some(at.parse().ok().filter(|at| *at > 0).ok_or("@ wants a number from 1 on")?)),
            None => (text, None),
        };
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            format!("there is no fault {name:?}; there are {}", names.join(", "))
        })?;
        match at {
            Some(_) if matches!(kind, Kind::Overload | Kind::KillTool) => Err(format!("{name} takes no number")),
            Some(at) if at > kind.at_max() => Err(format!("{name} takes a number up to {}", kind.at_max())),
            at => Ok(Self { kind, at }),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{}@{at}", self.kind.name()),
            None => f.write_str(self.kind.name()),
        }
    }
}

impl Kind {
    pub(crate) const ALL: [Self; 11] = [
        Self::Cut,
        Self::Input,
        Self::Stall,
        Self::Lose,
        Self::Overload,
        Self::Limit,
        Self::Kill,
        Self::KillTool,
        Self::Join,
        Self::Steer,
        Self::Stop,
    ];

    /// Its name behind `--fault`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Input => "input",
            Self::Stall => "stall",
            Self::Lose => "lose",
            Self::Overload => "529",
            Self::Limit => "429",
            Self::Kill => "kill",
            Self::KillTool => "kill-tool",
            Self::Join => "join",
            Self::Steer => "steer",
            Self::Stop => "stop",
        }
    }

    /// What the saboteur is about to do.
    pub(crate) fn announcement(self, at: u64) -> String {
        match self {
            Self::Cut => format!("cuts every stream in the middle of the word t{at}"),
            Self::Input => format!("resets every connection inside the arguments of call {at}"),
            Self::Stall => format!("lets every stream fall silent after t{at}, its connection open"),
            Self::Lose => format!("loses streams at t{at} whose generation the provider keeps"),
            Self::Overload => "answers every first request with 529, overloaded".into(),
            Self::Limit => format!("answers every first request with 429, Retry-After: {at}"),
            Self::Kill => format!("waits for t{at} and kills the daemon with SIGKILL"),
            Self::KillTool => "waits until tools run and kills the daemon with SIGKILL".into(),
            Self::Join => format!("cuts the first client off at t{at}; a second one joins late"),
            Self::Steer => format!("steers at t{at}: another message in the middle of the turn"),
            Self::Stop => format!("queues a message and presses stop at t{at}"),
        }
    }

    /// What it leaves behind.
    pub(crate) const fn trace(self) -> Trace {
        match self {
            Self::Cut | Self::Stall => Trace::Rung(&["continue", "restart"]),
            Self::Input => Trace::Rung(&["salvage", "continue", "restart"]),
            Self::Lose => Trace::Rung(&["re-attach"]),
            Self::Overload | Self::Limit => Trace::Attempts,
            Self::Kill | Self::KillTool | Self::Join => Trace::Gap,
            Self::Steer => Trace::Message,
            Self::Stop => Trace::Short,
        }
    }

    /// Whether it ends the daemon, and with it whatever tools are doing.
    pub(crate) const fn kills(self) -> bool {
        matches!(self, Self::Kill | Self::KillTool)
    }

    /// Whether it strikes at a word.
    pub(super) const fn counts_words(self) -> bool {
        !matches!(self, Self::Input | Self::Overload | Self::Limit | Self::KillTool)
    }

    const fn at_max(self) -> u64 {
        match self {
            Self::Input => 3,
            Self::Limit => 5,
            _ => 2_000,
        }
    }

    /// Where it strikes among so many words.
    pub(super) fn strikes(self, words: u64, dice: &mut Dice) -> u64 {
        match self {
            Self::Input => dice.within(1..=3),
            Self::Limit | Self::Overload => 1,
            _ => dice.within(words / 4..=words * 3 / 4),
        }
    }

    /// What is put into the model's name: the trouble that the provider makes, once.
    pub(super) fn in_model(self, at: u64) -> String {
        #[cfg(feature = "sabotage")]
        if crate::sabotage::is("no-fault") {
            return String::new();
        }
        match self {
            Self::Cut | Self::Lose => format!("-faults:cut-at-word@{at}x1"),
            Self::Input => format!("-faults:reset-at-input@{at}x1"),
            Self::Stall => format!("-faults:stall-at-word@{at}x1"),
            Self::Overload => "-faults:529x1".into(),
            Self::Limit => format!("-faults:429@{at}x1"),
            Self::Kill | Self::KillTool | Self::Join | Self::Steer | Self::Stop => String::new(),
        }
    }

    /// What the model is ordered to say. Numbers of calls begin above `calls_above`.
    pub(super) fn orders(
        self,
        (thoughts, before, after): (u64, u64, u64),
        calls_above: u64,
        dice: &mut Dice,
    ) -> Vec<Order> {
        let mut tools = ["note", "look", "tally"];
        tools.rotate_left(dice.within(0..=2) as usize);
        let calls = tools.iter().zip(calls_above + 1..).map(|(tool, number)| (*tool, number)).collect();
        let whole = Order { thoughts, first: 1, before, calls, after, is_stopped: false };
        let then = |first| Order { first, before: after, ..Order::default() };
        match self {
            // What steers comes in at the end of a step, and what was ordered for after it is not said any
            // more.
            Self::Steer => vec![Order { after: 0, ..whole }, then(before + 1)],
            Self::Stop => {
                let endless = Order { before: before * 4, calls: vec![], after: 0, is_stopped: true, ..whole };
                let next = then(endless.before + 1);
                vec![endless, next]
            }
            _ => vec![whole],
        }
    }
}
