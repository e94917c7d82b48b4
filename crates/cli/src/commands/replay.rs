//! `everturn replay`: show a chat again as it happened.

mod play;
mod scene;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::str::FromStr;

use everturn::core::ids::{MessageId, Timestamp};

use crate::find_chat::find_kept;
use crate::offline_store::Where;
use crate::terminal::style::Colours;
use play::Player;
use scene::Beat;

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn replay 01kdg1qg7v3m8s1t1j0a9n2x4c
  everturn replay 9n2x4c --speed 4
  everturn replay 9n2x4c --speed max --until 12";

/// Arguments of `everturn replay`.
#[derive(clap::Args)]
pub struct Replay {
    /// The chat's id, or a unique beginning or end of it.
    chat: String,
    /// Speed as a multiple of the original, or `max`. [default: 1; in a pipe: max]
    #[arg(long, value_name = "TIMES | max")]
    speed: Option<Speed>,
    /// Stop after the message with this number, or at this time, as 2026-01-02T03:04:05Z.
    #[arg(long, value_name = "MESSAGE | TIME")]
    until: Option<Until>,
    #[command(flatten)]
    place: Where,
}

/// Speed of a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Speed {
    Times(f64),
    Max,
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let times = text.parse::<f64>().ok().filter(|times| times.is_finite() && *times > 0.0);
        times.map(Self::Times).ok_or_else(|| "a speed is a number above 0, or max".into())
    }
}

/// End of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Message(MessageId),
    Time(Timestamp),
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.parse() {
            return Ok(Self::Message(MessageId(number)));
        }
        let time = text.parse::<jiff::Timestamp>();
        let time =
            time.map_err(|_| "neither the number of a message nor a time like 2026-01-02T03:04:05Z".to_owned())?;
        Ok(Self::Time(Timestamp(time.as_millisecond())))
    }
}

impl Until {
    /// Drops the beats after the end. A message keeps all its beats; an answer that was arriving at the time
    /// is cut there.
    fn cut(self, beats: &mut Vec<Beat>) {
        let end = match self {
            Self::Message(last) => beats.iter().rposition(|beat| beat.message.is_some_and(|id| id <= last)),
            Self::Time(last) => beats.iter().rposition(|beat| beat.at <= last),
        };
        beats.truncate(end.map_or(0, |end| end + 1));
        if let Self::Time(last) = self {
            beats.retain(|beat| beat.at <= last);
            beats.iter_mut().for_each(|beat| beat.cut(last));
        }
    }
}

impl Replay {
    pub async fn run(&self) -> anyhow::Result<ExitCode> {
        let kept = self.place.look().await?;
        let chat = find_kept(&kept, &self.chat).await?;
        let transcript = kept.transcript(chat).await?;
        let mut beats = scene::beats(&transcript, &kept.attempts(chat).await?, &kept.calls(chat).await?);
        if let Some(until) = self.until {
            until.cut(&mut beats);
        }
        let is_terminal = io::stdout().is_terminal();
        let usual = if is_terminal { Speed::Times(1.0) } else { Speed::Max };
        let wanted = Colours::wanted(|name| std::env::var(name).ok());
        let colours = if is_terminal { wanted } else { Colours::Off };
        let player = Player { speed: self.speed.unwrap_or(usual), colours };
        player.play(&beats, &mut io::stdout()).await?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn speeds_and_ends_are_read() {
        assert_eq!("max".parse(), Ok(Speed::Max));
        assert_eq!("0.5".parse(), Ok(Speed::Times(0.5)));
        for text in ["0", "-1", "fast", "inf", "NaN"] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
        assert_eq!("12".parse(), Ok(Until::Message(MessageId(12))));
        assert_eq!("1970-01-01T00:00:01Z".parse(), Ok(Until::Time(Timestamp(1_000))));
        assert!("noon".parse::<Until>().is_err());
    }

    /// A time in the middle of an answer shows the text that had arrived by then.
    #[test]
    fn an_answer_is_cut_where_the_time_is_up() {
        let beat = |at, lasts, text: &str| Beat {
            at: Timestamp(at),
            lasts: Duration::from_millis(lasts),
            message: Some(MessageId(1)),
            voice: scene::Voice::Model,
            text: text.into(),
        };
        let shown = |until| {
            let mut beats = vec![beat(0, 0, "hi"), beat(100, 1_000, "äöüäöüäöüä"), beat(1_100, 0, "end")];
            Until::Time(Timestamp(until)).cut(&mut beats);
            beats.iter().map(|beat| (beat.text.clone(), beat.lasts.as_millis())).collect::<Vec<_>>()
        };
        let hi = ("hi".to_owned(), 0);
        assert_eq!(shown(0), std::slice::from_ref(&hi));
        assert_eq!(shown(100), [hi.clone(), (String::new(), 0)]);
        assert_eq!(shown(600), [hi.clone(), ("äöüäö".into(), 500)]);
        assert_eq!(shown(1_099), [hi.clone(), ("äöüäöüäöü".into(), 999)]);
        assert_eq!(shown(1_100), [hi, ("äöüäöüäöüä".into(), 1_000), ("end".into(), 0)]);
    }
}
