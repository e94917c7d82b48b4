//! A provider call and what became of it.

use everturn_core::fact;
use everturn_core::ids::{ModelId, StepId, Timestamp};
use serde::{Deserialize, Serialize};

use super::blob::Blobs;
use super::count::{Spend, Tally};
use super::name::{CauseWord, KindWord, RungWord};
use super::value::{AsText, Nanos, unset};
use super::{BadShape, envelope};

/// The text of an attempt.
#[must_use]
pub fn write(attempted: &fact::AttemptRecord) -> String {
    let fact::AttemptRecord { step, number, model, aim, began, took, tally, spend, outcome } = attempted;
    let shape = Attempted {
        step: step.0,
        number: *number,
        model: AsText(model.clone()),
        aim: Aim::of(*aim),
        began: began.0,
        took_ns: Nanos(*took),
        tally: (*tally).into(),
        spend: (*spend).into(),
        outcome: (*outcome).into(),
    };
    envelope::write(shape, Blobs::default()).json
}

/// Reads what [`write()`] wrote.
pub fn read(text: &str) -> Result<fact::AttemptRecord, BadShape> {
    let shape: Attempted = envelope::read("attempt", text)?;
    let Attempted { step, number, model, aim, began, took_ns, tally, spend, outcome } = shape;
    Ok(fact::AttemptRecord {
        step: StepId(step),
        number,
        model: model.0,
        aim: aim.map(Into::into).unwrap_or_default(),
        began: Timestamp(began),
        took: took_ns.0,
        tally: tally.into(),
        spend: spend.into(),
        outcome: outcome.into(),
    })
}

#[derive(Serialize, Deserialize)]
struct Attempted {
    step: u64,
    number: u32,
    model: AsText<ModelId>,
    /// Rows from before it was kept have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    aim: Option<Aim>,
    began: i64,
    #[serde(default, skip_serializing_if = "unset")]
    took_ns: Nanos,
    #[serde(default, skip_serializing_if = "unset")]
    tally: Tally,
    #[serde(default, skip_serializing_if = "unset")]
    spend: Spend,
    outcome: Outcome,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Aim {
    Answer(RungWord),
    Summary,
}

impl Aim {
    fn of(aim: fact::AttemptPurpose) -> Option<Self> {
        match aim {
            fact::AttemptPurpose::Unknown => None,
            fact::AttemptPurpose::Answer(rung) => Some(Self::Answer(rung.into())),
            fact::AttemptPurpose::Summary => Some(Self::Summary),
        }
    }
}

impl From<Aim> for fact::AttemptPurpose {
    fn from(aim: Aim) -> Self {
        match aim {
            Aim::Answer(rung) => Self::Answer(rung.into()),
            Aim::Summary => Self::Summary,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Answered,
    Broke(CauseWord, KindWord),
    Interrupted,
    Lost,
}

impl From<fact::AttemptOutcome> for Outcome {
    fn from(outcome: fact::AttemptOutcome) -> Self {
        match outcome {
            fact::AttemptOutcome::Answered => Self::Answered,
            fact::AttemptOutcome::Broke(cause, kind) => Self::Broke(cause.into(), kind.into()),
            fact::AttemptOutcome::Interrupted => Self::Interrupted,
            fact::AttemptOutcome::Lost => Self::Lost,
        }
    }
}

impl From<Outcome> for fact::AttemptOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Answered => Self::Answered,
            Outcome::Broke(cause, kind) => Self::Broke(cause.into(), kind.into()),
            Outcome::Interrupted => Self::Interrupted,
            Outcome::Lost => Self::Lost,
        }
    }
}
