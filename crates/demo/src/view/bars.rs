//! How far each chat has come with each client.

use tokio::sync::watch;

use crate::spectator::{Doing, Progress};
use crate::style::Style;

/// One chat.
pub(super) struct Bar {
    name: &'static str,
    len: usize,
    pub(super) first: Option<watch::Receiver<Progress>>,
    pub(super) second: Option<watch::Receiver<Progress>>,
}

impl Bar {
    pub(super) const fn new(name: &'static str, len: usize) -> Self {
        Self { name, len, first: None, second: None }
    }
}

/// A line for each chat, none longer than the screen is wide.
pub(super) fn bar_lines(bars: &[Bar], columns: usize, style: Style) -> Vec<String> {
    // Name, two clients with a letter and a count each, and a word on what happens.
    let width = columns.saturating_sub(15 + 2 * 8 + 14).min(80) / 2;
    let now = |client: &Option<watch::Receiver<Progress>>| client.as_ref().map(|progress| *progress.borrow());
    let line = |bar: &Bar| {
        let (first, second) = (now(&bar.first), now(&bar.second));
        let doing = first.map_or("", |progress| word(progress.doing));
        format!(
            "{:>13}  {} {}  {}",
            bar.name,
            client("A", first, bar.len, width, style),
            client("B", second, bar.len, width, style),
            style.dim(doing)
        )
    };
    bars.iter().map(line).collect()
}

fn client(name: &str, progress: Option<Progress>, len: usize, width: usize, style: Style) -> String {
    let tokens = progress.map_or(0, |progress| progress.tokens);
    let filled = (tokens * width / len.max(1)).min(width);
    let (full, empty) = ("█".repeat(filled), "░".repeat(width - filled));
    let is_away = progress.is_some_and(|progress| progress.doing == Doing::Away);
    let full = if is_away { style.bad(&full) } else { style.good(&full) };
    format!("{name} {full}{}{tokens:>4}", style.dim(&empty))
}

const fn word(doing: Doing) -> &'static str {
    match doing {
        Doing::Nothing => "rests",
        Doing::Thinking => "thinks",
        Doing::Speaking => "speaks",
        Doing::Calling => "runs tools",
        Doing::Waiting => "tries again",
        Doing::Away => "no daemon",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_the_screen_is_wide() {
        for columns in [60, 80, 100, 120, 300] {
            let (told, progress) =
                watch::channel(Progress { tokens: 120, doing: Doing::Waiting, ..Progress::default() });
            let mut bar = Bar::new("responses", 100);
            bar.first = Some(progress.clone());
            bar.second = Some(progress);
            let lines = bar_lines(&[bar], columns, Style::PLAIN);
            assert!(lines[0].chars().count() < columns, "{} of {columns}: {}", lines[0].chars().count(), lines[0]);
            assert!(lines[0].contains("tries again"));
            drop(told);
        }
    }
}
