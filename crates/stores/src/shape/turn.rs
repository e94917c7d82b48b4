//! What a chat knows of its turn: how far it is, what it tried, how the last one ended.

use std::borrow::Cow;

use everturn_core::alive::Alive;
use everturn_core::chat;
use everturn_core::cost::Micros;
use everturn_core::ids::{InboxSeq, MessageId, ModelId, StepId, Timestamp};
use everturn_core::retry;
use serde::{Deserialize, Serialize};

use super::name::{KindWord, SourceWord};
use super::turn_settings::TurnSettings;
use super::value::{AsText, Nanos, unset};

#[derive(Serialize, Deserialize)]
pub(super) struct Turn<'a> {
    began: i64,
    first: u64,
    #[serde(default, skip_serializing_if = "unset")]
    after: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    heard: Vec<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<AsText<ModelId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settings: Option<TurnSettings<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rests_since: Option<i64>,
    #[serde(default, skip_serializing_if = "unset")]
    rested_ns: Nanos,
    #[serde(default, skip_serializing_if = "unset")]
    steps: u32,
    #[serde(default, skip_serializing_if = "unset")]
    compactions: u32,
    #[serde(default, skip_serializing_if = "unset")]
    tokens: u64,
    #[serde(default, skip_serializing_if = "unset")]
    cost: u64,
    #[serde(default, skip_serializing_if = "unset")]
    sub_agents: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop_after: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "unset")]
    reasked: bool,
    #[serde(default, skip_serializing_if = "unset")]
    overflowed: bool,
    #[serde(default, skip_serializing_if = "unset")]
    same_call: (u64, u32),
    #[serde(default, skip_serializing_if = "unset")]
    same_call_under_way: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    same_call_tools: Vec<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "unset")]
    alive_until: i64,
    #[serde(default, skip_serializing_if = "unset")]
    alive_ns: Nanos,
}

impl<'a> From<&'a chat::Turn> for Turn<'a> {
    fn from(turn: &'a chat::Turn) -> Self {
        let chat::Turn {
            began,
            first,
            after,
            heard,
            model,
            settings,
            rests_since,
            rested,
            steps,
            compactions,
            tokens,
            cost,
            sub_agents,
            stop_after,
            reasked,
            overflowed,
            repeats: chat::RepeatedCalls { newest, times, under_way, tools },
            alive,
        } = turn;
        Self {
            began: began.0,
            first: first.0,
            after: after.0,
            heard: heard.iter().map(|seq| seq.0).collect(),
            model: model.clone().map(AsText),
            settings: settings.as_deref().map(TurnSettings::from),
            rests_since: rests_since.map(|at| at.0),
            rested_ns: Nanos(*rested),
            steps: *steps,
            compactions: *compactions,
            tokens: *tokens,
            cost: cost.0,
            sub_agents: *sub_agents,
            stop_after: stop_after.as_ref().map(Cow::from),
            reasked: *reasked,
            overflowed: *overflowed,
            same_call: (*newest, *times),
            same_call_under_way: *under_way,
            same_call_tools: tools.iter().map(Cow::from).collect(),
            alive_until: alive.until.0,
            alive_ns: Nanos(alive.since_reply),
        }
    }
}

impl From<Turn<'_>> for chat::Turn {
    fn from(turn: Turn<'_>) -> Self {
        Self {
            began: Timestamp(turn.began),
            first: StepId(turn.first),
            after: MessageId(turn.after),
            heard: turn.heard.into_iter().map(InboxSeq).collect(),
            model: turn.model.map(|model| model.0),
            settings: turn.settings.map(Into::into),
            rests_since: turn.rests_since.map(Timestamp),
            rested: turn.rested_ns.0,
            steps: turn.steps,
            compactions: turn.compactions,
            tokens: turn.tokens,
            cost: Micros(turn.cost),
            sub_agents: turn.sub_agents,
            stop_after: turn.stop_after.map(Cow::into_owned),
            reasked: turn.reasked,
            overflowed: turn.overflowed,
            repeats: chat::RepeatedCalls {
                newest: turn.same_call.0,
                times: turn.same_call.1,
                under_way: turn.same_call_under_way,
                tools: turn.same_call_tools.into_iter().map(Cow::into_owned).collect(),
            },
            alive: Alive { until: Timestamp(turn.alive_until), since_reply: turn.alive_ns.0 },
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TurnEnd<'a> {
    Done,
    StopAfter(Cow<'a, str>),
    Interrupted,
    Length,
    Filtered,
    Empty,
    StepsMax,
    TimeMax,
    TokensMax,
    CostMax,
    SameCallMax,
    Failed(Failure<'a>),
}

#[derive(Serialize, Deserialize)]
pub(super) struct Failure<'a> {
    kind: KindWord,
    message: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "unset")]
    detail: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "unset")]
    attempts: u32,
}

impl<'a> From<&'a chat::TurnEnd> for TurnEnd<'a> {
    fn from(end: &'a chat::TurnEnd) -> Self {
        match end {
            chat::TurnEnd::Done => Self::Done,
            chat::TurnEnd::StopAfter(tool) => Self::StopAfter(tool.into()),
            chat::TurnEnd::Interrupted => Self::Interrupted,
            chat::TurnEnd::Length => Self::Length,
            chat::TurnEnd::Filtered => Self::Filtered,
            chat::TurnEnd::Empty => Self::Empty,
            chat::TurnEnd::StepsMax => Self::StepsMax,
            chat::TurnEnd::TimeMax => Self::TimeMax,
            chat::TurnEnd::TokensMax => Self::TokensMax,
            chat::TurnEnd::CostMax => Self::CostMax,
            chat::TurnEnd::SameCallMax => Self::SameCallMax,
            chat::TurnEnd::Failed(failure) => {
                let chat::TurnFailure { kind, message, detail, attempts } = &**failure;
                let (message, detail) = (message.into(), detail.into());
                Self::Failed(Failure { kind: (*kind).into(), message, detail, attempts: *attempts })
            }
        }
    }
}

impl From<TurnEnd<'_>> for chat::TurnEnd {
    fn from(end: TurnEnd<'_>) -> Self {
        match end {
            TurnEnd::Done => Self::Done,
            TurnEnd::StopAfter(tool) => Self::StopAfter(tool.into_owned()),
            TurnEnd::Interrupted => Self::Interrupted,
            TurnEnd::Length => Self::Length,
            TurnEnd::Filtered => Self::Filtered,
            TurnEnd::Empty => Self::Empty,
            TurnEnd::StepsMax => Self::StepsMax,
            TurnEnd::TimeMax => Self::TimeMax,
            TurnEnd::TokensMax => Self::TokensMax,
            TurnEnd::CostMax => Self::CostMax,
            TurnEnd::SameCallMax => Self::SameCallMax,
            TurnEnd::Failed(Failure { kind, message, detail, attempts }) => {
                let (message, detail) = (message.into_owned(), detail.into_owned());
                Self::Failed(Box::new(chat::TurnFailure { kind: kind.into(), message, detail, attempts }))
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Tried {
    #[serde(default, skip_serializing_if = "unset")]
    attempts: u32,
    #[serde(default, skip_serializing_if = "unset")]
    model: usize,
    #[serde(default, skip_serializing_if = "unset")]
    spent: Spent,
    #[serde(default, skip_serializing_if = "unset")]
    unchained: bool,
    #[serde(default, skip_serializing_if = "unset")]
    blind: bool,
    #[serde(default, skip_serializing_if = "unset")]
    owed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Spent {
    #[serde(default, skip_serializing_if = "unset")]
    tries: u32,
    #[serde(default, skip_serializing_if = "unset")]
    attempts: u32,
    #[serde(default, skip_serializing_if = "unset")]
    once: u32,
    #[serde(default, skip_serializing_if = "unset")]
    time_ns: Nanos,
    #[serde(default, skip_serializing_if = "unset")]
    cost: u64,
}

impl From<chat::StepAttempts> for Tried {
    fn from(
        chat::StepAttempts {
            attempts,
            model,
            spent,
            without_chain: unchained,
            without_media: blind,
            unbilled_attempt: owed,
        }: chat::StepAttempts,
    ) -> Self {
        let retry::RetrySpent { tries, attempts: failed, once, time, cost } = spent;
        let spent = Spent { tries, attempts: failed, once, time_ns: Nanos(time), cost: cost.0 };
        Self { attempts, model, spent, unchained, blind, owed }
    }
}

impl From<Tried> for chat::StepAttempts {
    fn from(Tried { attempts, model, spent, unchained, blind, owed }: Tried) -> Self {
        let Spent { tries, attempts: failed, once, time_ns, cost } = spent;
        let spent = retry::RetrySpent { tries, attempts: failed, once, time: time_ns.0, cost: Micros(cost) };
        Self { attempts, model, spent, without_chain: unchained, without_media: blind, unbilled_attempt: owed }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Wait<'a> {
    until: i64,
    kind: KindWord,
    message: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "unset")]
    attempt: u32,
}

impl<'a> From<&'a chat::RetryWait> for Wait<'a> {
    fn from(chat::RetryWait { until, kind, message, attempt }: &'a chat::RetryWait) -> Self {
        Self { until: until.0, kind: (*kind).into(), message: message.into(), attempt: *attempt }
    }
}

impl From<Wait<'_>> for chat::RetryWait {
    fn from(Wait { until, kind, message, attempt }: Wait<'_>) -> Self {
        Self { until: Timestamp(until), kind: kind.into(), message: message.into_owned(), attempt }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Compacting {
    began: i64,
    model: AsText<ModelId>,
    source: SourceWord,
    #[serde(default, skip_serializing_if = "unset")]
    tokens: u64,
}

impl From<&chat::Compacting> for Compacting {
    fn from(chat::Compacting { began, model, source, tokens }: &chat::Compacting) -> Self {
        Self { began: began.0, model: AsText(model.clone()), source: (*source).into(), tokens: *tokens }
    }
}

impl From<Compacting> for chat::Compacting {
    fn from(Compacting { began, model, source, tokens }: Compacting) -> Self {
        Self { began: Timestamp(began), model: model.0, source: source.into(), tokens }
    }
}
