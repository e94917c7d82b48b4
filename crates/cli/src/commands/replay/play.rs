//! Plays beats in their original time.

use std::io::Write;
use std::time::Duration;

use everturn::core::ids::Timestamp;
use tokio::time::sleep;

use super::Speed;
use super::scene::{Beat, Voice};
use crate::terminal::style::Colours;
use crate::terminal::{Ink, Line, Look};

/// Longest pause before the next beat, however long it took.
const GAP_MAX: Duration = Duration::from_secs(3);
/// Gaps longer than this are announced.
const GAP_NAMED: Duration = Duration::from_secs(60);

/// Plays beats at a speed, in colours or without.
pub struct Player {
    pub speed: Speed,
    pub colours: Colours,
}

impl Player {
    /// Shows all beats, each at its time.
    pub async fn play(&self, beats: &[Beat], out: &mut impl Write) -> anyhow::Result<()> {
        let mut now = beats.first().map_or(Timestamp(0), |beat| beat.at);
        for beat in beats {
            let gap = beat.at.since(now);
            if gap > GAP_NAMED {
                self.line(out, Voice::Note, &format!("  · {} later", later(gap)))?;
            }
            self.wait(gap.min(GAP_MAX)).await;
            self.beat(beat, out).await?;
            now = now.max(beat.at + beat.lasts);
        }
        Ok(())
    }

    async fn beat(&self, beat: &Beat, out: &mut impl Write) -> anyhow::Result<()> {
        if self.pace(beat.lasts).is_zero() {
            return Ok(self.line(out, beat.voice, &beat.text)?);
        }
        let words: Vec<&str> = beat.text.split_inclusive(char::is_whitespace).collect();
        let each = beat.lasts / u32::try_from(words.len().max(1)).unwrap_or(u32::MAX);
        for word in words {
            self.words(out, beat.voice, word)?;
            out.flush()?;
            self.wait(each).await;
        }
        Ok(writeln!(out)?)
    }

    fn line(&self, out: &mut impl Write, voice: Voice, text: &str) -> std::io::Result<()> {
        self.words(out, voice, text)?;
        writeln!(out)?;
        out.flush()
    }

    /// Text of a voice, which may have several lines.
    fn words(&self, out: &mut impl Write, voice: Voice, text: &str) -> std::io::Result<()> {
        let look = look(voice);
        let painted = text.split('\n').map(|line| match line {
            "" => String::new(),
            line => Line::new(line, look).paint(self.colours),
        });
        out.write_all(painted.collect::<Vec<_>>().join("\n").as_bytes())
    }

    fn pace(&self, time: Duration) -> Duration {
        match self.speed {
            Speed::Max => Duration::ZERO,
            Speed::Times(times) => Duration::try_from_secs_f64(time.as_secs_f64() / times).unwrap_or(Duration::MAX),
        }
    }

    async fn wait(&self, time: Duration) {
        let time = self.pace(time);
        if !time.is_zero() {
            sleep(time).await;
        }
    }
}

/// How a voice looks.
const fn look(voice: Voice) -> Look {
    match voice {
        Voice::Model => Look::PLAIN,
        Voice::Person => Look::BOLD,
        Voice::Thought | Voice::Note => Look::DIM,
        Voice::Tool => Look::ink(Ink::Cyan),
        Voice::Trouble => Look::ink(Ink::Yellow),
    }
}

/// A long time, for people.
fn later(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    match minutes {
        0..120 => format!("{minutes} minutes"),
        120..2_880 => format!("{} hours", minutes / 60),
        _ => format!("{} days", minutes / 1_440),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn beats() -> Vec<Beat> {
        let beat = |at, lasts, voice, text: &str| Beat {
            at: Timestamp(at),
            lasts: Duration::from_millis(lasts),
            message: None,
            voice,
            text: text.into(),
        };
        vec![
            beat(0, 0, Voice::Person, "hi"),
            beat(1_000, 2_000, Voice::Model, "one two"),
            beat(7_200_000, 0, Voice::Person, "bye"),
        ]
    }

    async fn played(speed: Speed, colours: Colours) -> (String, Duration) {
        let (mut out, began) = (Vec::new(), Instant::now());
        Player { speed, colours }.play(&beats(), &mut out).await.unwrap();
        (String::from_utf8(out).unwrap(), began.elapsed())
    }

    /// A replay takes as long as the chat did, with long waits shortened; less at a higher speed, and no time
    /// at `max`.
    #[tokio::test(start_paused = true)]
    async fn a_replay_takes_the_chats_own_time() {
        let (shown, took) = played(Speed::Times(1.0), Colours::Off).await;
        assert_eq!(shown, "hi\none two\n  · 119 minutes later\nbye\n");
        assert_eq!(took, Duration::from_secs(1 + 2 + 3));
        let (same, took) = played(Speed::Times(4.0), Colours::Off).await;
        assert_eq!((same, took), (shown.clone(), Duration::from_millis(1_500)));
        assert_eq!(played(Speed::Max, Colours::Off).await, (shown, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn colours_are_for_terminals() {
        let (shown, _) = played(Speed::Max, Colours::On).await;
        assert!(shown.starts_with("\x1b[1mhi\x1b[0m\none two\n"), "{shown:?}");
    }
}
