//! The terminal window: the chat scrolls by, and a small live area stays at the bottom.
//!
//! The normal screen is used, so that everything can be scrolled, searched and copied as usual and is still
//! there afterwards. Only the live area is ever drawn again.

use std::io::{self, Write};
use std::sync::{Mutex, Once, PoisonError};
use std::thread::{self, ThreadId};

use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::{cursor, execute, terminal};

use super::style::{Colours, Line};

/// Begin and end of a synchronized update; terminals that do not know it ignore it.
const TOGETHER: (&str, &str) = ("\x1b[?2026h", "\x1b[?2026l");

/// The thread that owns the terminal while it is in raw mode.
static OWNER: Mutex<Option<ThreadId>> = Mutex::new(None);

/// Raw mode of the terminal, until dropped.
pub struct Raw(());

impl Raw {
    pub fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // A panic of another thread ends only a task, and the session goes on.
                if is_owned_by(thread::current().id()) {
                    leave();
                }
                usual(panic);
            }));
        });
        terminal::enable_raw_mode()?;
        own(Some(thread::current().id()));
        let raw = Self(());
        execute!(io::stdout(), EnableBracketedPaste)?;
        Ok(raw)
    }
}

impl Raw {
    /// Leaves raw mode until the future completes, for another program.
    pub async fn lent<T>(until: impl Future<Output = T>) -> io::Result<T> {
        leave();
        let done = until.await;
        terminal::enable_raw_mode()?;
        execute!(io::stdout(), EnableBracketedPaste)?;
        Ok(done)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        own(None);
        leave();
    }
}

fn own(owner: Option<ThreadId>) {
    *OWNER.lock().unwrap_or_else(PoisonError::into_inner) = owner;
}

fn is_owned_by(thread: ThreadId) -> bool {
    *OWNER.lock().unwrap_or_else(PoisonError::into_inner) == Some(thread)
}

fn leave() {
    // Fails on a closed terminal, which does no harm.
    let _ = execute!(io::stdout(), DisableBracketedPaste, cursor::Show);
    let _ = terminal::disable_raw_mode();
}

/// The live area at the bottom.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Live {
    pub lines: Vec<Line>,
    /// Row and column of the cursor.
    pub cursor: (usize, usize),
}

/// A window, with the live area drawn last.
pub struct Screen<W> {
    out: W,
    colours: Colours,
    width: usize,
    height: usize,
    live: Live,
}

impl<W: Write> Screen<W> {
    pub fn new(out: W, colours: Colours, (width, height): (u16, u16)) -> Self {
        let mut screen = Self { out, colours, width: 0, height: 0, live: Live::default() };
        screen.resize((width, height));
        screen
    }

    pub const fn width(&self) -> usize {
        self.width
    }

    pub const fn height(&self) -> usize {
        self.height
    }

    /// Sets the size of the window.
    pub fn resize(&mut self, (width, height): (u16, u16)) {
        // Some terminals report a size of 0.
        let or = |said: u16, usual: usize| if said == 0 { usual } else { usize::from(said) };
        (self.width, self.height) = (or(width, 80), or(height, 24));
    }

    /// Prints lines above the live area, and draws that below them.
    pub fn draw(&mut self, said: &[Line], live: Live) -> io::Result<()> {
        if said.is_empty() && live == self.live {
            return Ok(());
        }
        let mut drawn = String::from(TOGETHER.0);
        drawn.push_str("\x1b[?25l\r");
        drawn.push_str(&up(self.rows_above_cursor()));
        drawn.push_str("\x1b[J");
        for line in said {
            drawn.push_str(&line.paint(self.colours));
            drawn.push_str("\r\n");
        }
        let lines: Vec<String> = live.lines.iter().map(|line| line.paint(self.colours)).collect();
        drawn.push_str(&lines.join("\r\n"));
        let (row, column) = live.cursor;
        drawn.push_str(&up(lines.len().saturating_sub(1).saturating_sub(row)));
        drawn.push('\r');
        if column > 0 {
            drawn.push_str(&format!("\x1b[{column}C"));
        }
        drawn.push_str("\x1b[?25h");
        drawn.push_str(TOGETHER.1);
        self.live = live;
        self.out.write_all(drawn.as_bytes())?;
        self.out.flush()
    }

    /// Clears the window; the scrollback stays.
    pub fn clear(&mut self) -> io::Result<()> {
        self.live = Live::default();
        self.out.write_all(b"\x1b[H\x1b[2J")?;
        self.out.flush()
    }

    /// Rows of the live area above the cursor, also after a narrower window has wrapped them.
    fn rows_above_cursor(&self) -> usize {
        let (row, column) = self.live.cursor;
        let above = self.live.lines.iter().take(row).map(|line| line.width().max(1).div_ceil(self.width));
        above.sum::<usize>() + column / self.width
    }
}

fn up(rows: usize) -> String {
    if rows == 0 { String::new() } else { format!("\x1b[{rows}A") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(lines: &[&str], cursor: (usize, usize)) -> Live {
        Live { lines: lines.iter().map(|line| Line::plain(line)).collect(), cursor }
    }

    /// The screen of a terminal emulator after this output.
    fn shown(screen: &Screen<Vec<u8>>, (width, height): (u16, u16)) -> (String, (u16, u16)) {
        let size = |cells: u16| std::num::NonZeroU16::new(cells).unwrap();
        let mut parser = vt100::Parser::new(size(height), size(width), 100);
        parser.process(&screen.out);
        (parser.screen().contents(), parser.screen().cursor_position())
    }

    #[test]
    fn printed_lines_stay_and_the_live_area_is_drawn_again() {
        let size = (20, 6);
        let mut screen = Screen::new(Vec::new(), Colours::Off, size);
        screen.draw(&[], live(&["status", "> a"], (1, 3))).unwrap();
        screen.draw(&[Line::plain("one")], live(&["open", "status", "> "], (2, 2))).unwrap();
        screen.draw(&[Line::plain("two")], live(&["> "], (0, 2))).unwrap();
        assert_eq!(shown(&screen, size), ("one\ntwo\n> ".into(), (2, 2)));
        for _ in 0..9 {
            screen.draw(&[Line::plain("more")], live(&["status", "> ", "below"], (1, 2))).unwrap();
        }
        assert_eq!(shown(&screen, size), ("more\nmore\nmore\nstatus\n> \nbelow".into(), (4, 2)));
    }

    #[test]
    fn a_line_as_wide_as_the_window_takes_one_row() {
        let size = (5, 4);
        let mut screen = Screen::new(Vec::new(), Colours::Off, size);
        screen.draw(&[Line::plain("12345")], live(&["> "], (0, 2))).unwrap();
        screen.draw(&[Line::plain("abcde")], live(&["> "], (0, 2))).unwrap();
        assert_eq!(shown(&screen, size), ("12345\nabcde\n> ".into(), (2, 2)));
    }
}
