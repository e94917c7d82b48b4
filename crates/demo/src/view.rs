//! The demo's output: lines that stay, and on a terminal progress bars under them.

mod bars;

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use unicode_width::UnicodeWidthStr as _;

use super::ledger::{Ledger, Row, table, total};
use super::spectator::Progress;
use super::story::Scene;
use super::style::Style;
use bars::{Bar, bar_lines};
use everturn_frontend::terminal::Line;
use everturn_frontend::terminal::style::Colours;
use everturn_frontend::terminal::wrap::{At, wrap};

/// Where the text of a line begins, behind the scene's number and name.
const INDENT: usize = 18;
/// Width of lines if the terminal's is unknown.
const COLUMNS: usize = 100;
/// Separator of words that belong on one line: a no-break space, at which lines are not broken.
const JOINED: &str = "\u{a0}";
/// Bars in a window narrower than this say nothing.
const BARS_MIN: usize = 60;
/// Lines narrower than this cannot be read.
const COLUMNS_MIN: usize = 40;

/// How the run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Lines, and bars that move.
    Live(Width),
    /// Lines.
    Plain(Width),
    /// Nothing: the books alone are wanted.
    Silent,
}

/// How wide it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// A fixed width.
    Columns(usize),
    /// As wide as the window is at the time.
    Window,
}

/// Tells what happens.
pub(super) struct Narrator {
    mode: Mode,
    style: Style,
    footer: Mutex<Footer>,
}

#[derive(Default)]
struct Footer {
    bars: Vec<Bar>,
    /// How wide those of its lines are that are on the screen.
    drawn: Vec<usize>,
}

impl Width {
    fn columns(self) -> usize {
        match self {
            Self::Columns(columns) => columns,
            // Some terminals report a width of 0.
            Self::Window => match crossterm::terminal::size() {
                Ok((columns @ 1.., _)) => usize::from(columns),
                _ => COLUMNS,
            },
        }
    }
}

impl Mode {
    /// As the terminal allows. `columns` makes it live without one.
    pub(super) fn detect(columns: Option<usize>) -> Self {
        let width = match columns {
            Some(columns) => Width::Columns(columns),
            None if std::io::stdout().is_terminal() => Width::Window,
            None => return Self::Plain(Width::Columns(COLUMNS)),
        };
        if width.columns() < BARS_MIN { Self::Plain(width) } else { Self::Live(width) }
    }
}

impl Narrator {
    pub(super) fn new(mode: Mode) -> Self {
        let is_dressed = matches!(mode, Mode::Live(_) | Mode::Plain(Width::Window));
        let wanted = if is_dressed { Colours::wanted(|name| std::env::var(name).ok()) } else { Colours::Off };
        Self { mode, style: Style(wanted), footer: Mutex::default() }
    }

    pub(super) const fn style(&self) -> Style {
        self.style
    }

    /// How wide the window is.
    fn window(&self) -> usize {
        match self.mode {
            Mode::Live(width) | Mode::Plain(width) => width.columns(),
            Mode::Silent => COLUMNS,
        }
    }

    /// How wide lines may be.
    fn columns(&self) -> usize {
        self.window().max(COLUMNS_MIN)
    }

    /// Says lines that stay.
    pub(super) fn say(&self, lines: &[String]) {
        if self.mode == Mode::Silent {
            return;
        }
        let mut footer = self.footer();
        let mut text = erased(&mut footer, self.window());
        lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        self.draw(&mut footer, text);
    }

    /// A scene begins.
    pub(super) fn scene(&self, (number, len): (usize, usize), scene: &Scene) {
        self.footer().bars = scene.lanes.iter().map(|lane| Bar::new(lane.wire.name(), lane.len())).collect();
        let place = format!("{:>7}", format!("{}/{len}", number + 1));
        let name = format!("{:<11}", scene.kind.name());
        let told = format!("The saboteur {}.", scene.kind.announcement(scene.at));
        let room = self.columns().saturating_sub(INDENT + 1);
        for (at, line) in wrapped(&told, room).into_iter().enumerate() {
            let head = if at == 0 {
                format!("{} {}", self.style.dim(&place[1..]), self.style.bold(&name))
            } else {
                " ".repeat(INDENT)
            };
            self.say(&[format!("{head}{}", self.style.warn(&line))]);
        }
    }

    /// Something that was done to the daemon.
    pub(super) fn deed(&self, what: &str) {
        self.say(&[format!("{}{}", " ".repeat(INDENT), self.style.bad(what))]);
    }

    /// A chat of the scene is watched by its first client.
    pub(super) fn watched(&self, lane: usize, progress: &watch::Receiver<Progress>) {
        if let Some(bar) = self.footer().bars.get_mut(lane) {
            bar.first = Some(progress.clone());
        }
    }

    /// The second client has joined.
    pub(super) fn joined(&self, lane: usize, progress: &watch::Receiver<Progress>) {
        if let Some(bar) = self.footer().bars.get_mut(lane) {
            bar.second = Some(progress.clone());
        }
    }

    /// A scene is over.
    pub(super) fn closed(&self, scene: &Scene, rows: &[Row]) {
        self.footer().bars.clear();
        let told = recoveries(rows);
        let indent = " ".repeat(INDENT);
        let room = self.columns().saturating_sub(INDENT + 3);
        let mut lines: Vec<String> = wrapped(&told, room)
            .iter()
            .map(|line| format!("{indent}{}", self.style.calm(&line.replace(JOINED, " "))))
            .collect();
        let (stored, calls) = (total(rows, |row| row.stored), total(rows, |row| row.calls.made));
        let unknown = total(rows, |row| row.calls.unknown);
        let unknown = if unknown > 0 { format!(", {unknown} unknown") } else { String::new() };
        let tools = if calls > 0 { format!("; {calls} tools{unknown}") } else { String::new() };
        let balances = rows.iter().all(|row| row.wrong.is_empty());
        let sign = if balances { self.style.good("✓") } else { self.style.bad("✗") };
        let words = format!(
            "{} chats, {stored} tokens: stored once, shown once to A and B (from t{}){tools}",
            rows.len(),
            scene.joins_at
        );
        let words =
            if balances { words } else { rows.iter().flat_map(|row| row.wrong.clone()).collect::<Vec<_>>().join("; ") };
        for (at, line) in wrapped(&words, room).iter().enumerate() {
            lines.push(if at == 0 { format!("{indent}{sign} {line}") } else { format!("{indent}  {line}") });
        }
        self.say(&lines);
    }

    /// The books are closed.
    pub(super) fn end(&self, ledger: &Ledger) {
        self.say(&[String::new()]);
        self.say(&table(ledger, self.style, self.columns()));
    }

    /// Draws how far everything has come.
    pub(super) fn tick(&self) {
        if matches!(self.mode, Mode::Live(_)) {
            let mut footer = self.footer();
            let text = erased(&mut footer, self.window());
            self.draw(&mut footer, text);
        }
    }

    fn draw(&self, footer: &mut Footer, mut text: String) {
        // A window may have become too narrow for bars meanwhile.
        if let Mode::Live(width) = self.mode
            && width.columns() >= BARS_MIN
        {
            let lines = bar_lines(&footer.bars, width.columns(), self.style);
            footer.drawn =
                bar_lines(&footer.bars, width.columns(), Style(Colours::Off)).iter().map(|line| line.width()).collect();
            lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        }
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush()); // A closed pipe is no failure.
    }

    fn footer(&self) -> MutexGuard<'_, Footer> {
        self.footer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which rungs were climbed, and how long each chat waited for its next token. Words that belong together are
/// joined by a letter that is no space, so that they stay on one line.
fn recoveries(rows: &[Row]) -> String {
    let shared = rows
        .first()
        .map(|row| row.rungs.join(" "))
        .filter(|rungs| !rungs.is_empty() && rows.iter().all(|row| row.rungs.join(" ") == *rungs));
    let told = rows.iter().filter_map(|row| {
        let rungs = if shared.is_some() { String::new() } else { row.rungs.join(" ") };
        let gap = row.gaps_ms.iter().max().map(|gap| format!("{gap} ms")).unwrap_or_default();
        let said = format!("{rungs} {gap}");
        (!said.trim().is_empty()).then(|| format!("{} {}", row.wire, said.trim()).replace(' ', JOINED))
    });
    let told = told.collect::<Vec<_>>().join(", ");
    match shared {
        Some(rungs) if told.is_empty() => rungs,
        Some(rungs) => format!("{rungs}: {told}"),
        None => told,
    }
}

/// Takes the footer off the screen, also after a window became narrower and broke its lines.
fn erased(footer: &mut Footer, columns: usize) -> String {
    match std::mem::take(&mut footer.drawn).iter().map(|width| width.max(&1).div_ceil(columns)).sum::<usize>() {
        0 => String::new(),
        rows => format!("\x1b[{rows}A\x1b[J"),
    }
}

/// Words in lines of at most so many letters.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let lines = wrap(&Line::plain(text), columns, &Line::default(), At::Words);
    lines.iter().map(|line| line.paint(Colours::Off)).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_at_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("toolong x", 4), ["tool", "ong", "x"]);
        assert!(wrapped("", 3).is_empty());
    }
}
