//! Where two attempts of one answer are joined.
//!
//! A stream is cut in the middle of an answer, and a second attempt is asked to go on. Models seldom go on from the very
//! letter: they begin the cut word again, or the line, re-open the code fence, or tell the whole answer anew. What was
//! shown cannot be taken back, so the seam decides how much of the continuation's head is a repeat, drops that, and lets the
//! rest through.
//!
//! The two errors are not equal. A doubled word is ugly and plain to see; a dropped one changes what was
//! said, unnoticed. So an overlap is dropped only when it is better evidence of a repeat than of a text that
//! repeats itself, and in doubt everything is kept. Nothing here understands a language: `"the quick"`
//! followed by `"brown fox"` stays without a space, because `"the quick bro"` followed by `"wn fox"` looks
//! the same.
//!
//! Two readers work together. `repeat` compares letters at the very end of the shown text, and `evidence` says what an
//! overlap there proves. `retrace` compares words with all that was shown, and follows a continuation that began earlier.

mod evidence;
mod fence;
mod glyph;
mod head;
mod marker;
mod repeat;
mod retrace;
mod shown;
#[cfg(test)]
mod tests;
mod words;

use fence::FenceLine;
use head::{Answerable, TextHead};
use repeat::FoundRepeat;
use retrace::{Course, Drop, EndKind, Retrace};
use shown::ShownText;
use words::TextEnd;

/// How much of a continuation is held back at most while single letters could still change the decision, in bytes. One that
/// retraces what was shown word by word is held back as long as it does.
pub const HEAD_BYTES_MAX: usize = 2048;

/// What is kept in the transcript of one join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seam {
    /// Where the continuation was joined on: the length in bytes of what had been shown.
    pub at: usize,
    /// How many bytes of the continuation's head were a repeat, and are not in the text.
    pub dropped: usize,
    /// How many bytes are in the text that neither attempt said: a line break before a code fence, or nothing.
    pub inserted: usize,
    /// How many bytes at the end of what had been shown the continuation did not say again before it ended or went another
    /// way. 0 if it went on from the end.
    pub unmatched: usize,
}

/// The head of a continuation, made to fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// What to append to the shown text.
    pub text: String,
    /// What to remember of it.
    pub seam: Seam,
}

/// Joins a continuation that is known as a whole.
pub fn join(shown: &str, continuation: &str) -> Joined {
    let mut joiner = Joiner::new(shown);
    joiner.head.push_str(continuation);
    joiner.finish()
}

/// Joins a continuation that is still arriving.
///
/// It holds text back until no more of it could change the decision, which without a repeat is a word or two. Where the
/// stream was cut into deltas makes no difference to the result. Whatever is held back when a stream breaks was never
/// shown, and goes with the joiner.
#[derive(Clone, Debug)]
pub struct Joiner {
    shown: ShownText,
    retrace: Retrace,
    head: String,
    /// The length of the head at which to look again.
    look_at: usize,
    decided: bool,
}

impl Joiner {
    /// Takes all that was shown of the text being continued, and reads it once.
    pub fn new(shown: &str) -> Self {
        let shown = ShownText::new(shown);
        let kind = if shown.fence().is_some() { EndKind::Code } else { EndKind::Prose };
        let retrace = Retrace::new(shown.share(), kind);
        Self { shown, retrace, head: String::new(), look_at: 1, decided: false }
    }

    /// Takes the next delta: `None` while undecided, then once the joined head. After that the caller appends deltas
    /// as they are; one that is pushed nevertheless comes back unchanged.
    pub fn push(&mut self, delta: &str) -> Option<Joined> {
        self.head.push_str(delta);
        if self.decided {
            return Some(self.cut(Cut::NOTHING));
        }
        let was_open = self.retrace.is_open();
        let course = self.retrace.read(&self.head, TextEnd::Open);
        let is_news = was_open && course != Course::Open;
        let is_full = self.head.len() >= self.held_bytes_max(course);
        if !is_full && (course == Course::Open || (!is_news && self.head.len() < self.look_at)) {
            return None;
        }
        self.look_at = next_look(self.head.len());
        let cut = if is_full { self.final_cut() } else { self.look(course, &TextHead::so_far(&self.head)).ok()? };
        self.decided = true;
        Some(self.cut(cut))
    }

    /// How many bytes are held back.
    pub fn held_bytes(&self) -> usize {
        self.head.len()
    }

    /// How much is held back before the decision is made with what there is.
    fn held_bytes_max(&self, course: Course) -> usize {
        let retraced = match course {
            Course::Open => self.shown.text().len(),
            Course::Own => 0,
            Course::Passed(path) | Course::Left(path) => path.end(),
        };
        HEAD_BYTES_MAX + retraced
    }

    /// The continuation has ended. Nothing is held back any longer.
    pub fn finish(mut self) -> Joined {
        let cut = if self.decided { Cut::NOTHING } else { self.final_cut() };
        self.cut(cut)
    }

    fn final_cut(&mut self) -> Cut {
        let course = self.retrace.read(&self.head, TextEnd::Open);
        let bound = self.held_bytes_max(course);
        let head = &self.head[..self.head.floor_char_boundary(bound)];
        let course = self.retrace.read(head, TextEnd::Whole);
        let cut = self.look(course, &TextHead::whole(head)).expect("a head that is whole leaves nothing undecided");
        match self.retrace.ended(head) {
            Some(drop) if course == Course::Open && drop.bytes > cut.drop => Cut::retraced(drop),
            _ => cut,
        }
    }

    /// Letters find where a repeat ends that reaches the end of the shown text. Words find one that is spelled otherwise,
    /// or does not reach it.
    fn look(&self, course: Course, head: &TextHead<'_>) -> Answerable<Cut> {
        let by_letters = || cut(&self.shown, head);
        match course {
            Course::Open | Course::Own => by_letters(),
            Course::Passed(path) => match repeat::find(&self.shown, head, 0)? {
                FoundRepeat::Repeat(end) if end >= path.end() => Ok(Cut::drop(end)),
                FoundRepeat::Echo => Ok(Cut::NOTHING),
                FoundRepeat::Repeat(_) | FoundRepeat::Nothing => {
                    self.retrace.passed(&path, head)?.map_or_else(by_letters, |drop| Ok(Cut::retraced(drop)))
                }
            },
            Course::Left(path) => match by_letters()? {
                Cut::NOTHING => Ok(self.retrace.left(&path, head.text()).map_or(Cut::NOTHING, Cut::retraced)),
                cut => Ok(cut),
            },
        }
    }

    fn cut(&mut self, cut: Cut) -> Joined {
        let mut text = std::mem::take(&mut self.head);
        text.replace_range(..cut.drop, cut.insert);
        let (at, unmatched) = (self.shown.text().len(), cut.unmatched);
        Joined { text, seam: Seam { at, dropped: cut.drop, inserted: cut.insert.len(), unmatched } }
    }
}

/// Looking costs as much as the head is long, so the head must have grown by a share of itself before the next look:
/// the sum of all looks is then a small multiple of the last, even if every delta is one letter.
fn next_look(len: usize) -> usize {
    len + len.div_ceil(4)
}

/// What to do with the head of a continuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    drop: usize,
    insert: &'static str,
    unmatched: usize,
}

impl Cut {
    const NOTHING: Self = Self::drop(0);

    const fn drop(drop: usize) -> Self {
        Self { drop, insert: "", unmatched: 0 }
    }

    fn retraced(drop: Drop) -> Self {
        Self { drop: drop.bytes, insert: "", unmatched: drop.unmatched }
    }
}

fn cut(shown: &ShownText, head: &TextHead<'_>) -> Answerable<Cut> {
    let lead = head.skip_space(0)?;
    let fence = FenceLine::at(head, lead)?;
    if let Some(line) = &fence
        && let Some(end) = fence_begun_again(shown, head, line)
    {
        return Ok(Cut::drop(end));
    }
    if let FoundRepeat::Repeat(end) = repeat::find(shown, head, 0)? {
        return Ok(Cut::drop(end));
    }
    match fence {
        Some(line) => at_fence(shown, head, &line),
        None => doubled_space(shown, head),
    }
}

/// Shown ends in the middle of a fence line, or right behind it, and the continuation begins that line again.
fn fence_begun_again(shown: &ShownText, head: &TextHead<'_>, line: &FenceLine) -> Option<usize> {
    let begun = shown.last_line().trim();
    // A language is never named on a closing fence: this one opens another.
    let another = shown.closes_fence() && !line.bare;
    (!begun.is_empty() && !another && head.text()[line.start..line.end].starts_with(begun))
        .then_some(line.start + begun.len())
}

/// The continuation begins with a fence line: it re-opens the fence shown is in, or closes it, or opens the first one.
fn at_fence(shown: &ShownText, head: &TextHead<'_>, line: &FenceLine) -> Answerable<Cut> {
    if let Some(open) = shown.fence()
        && line.fence.matches(open)
        && !shown.ends_with_marker()
    {
        let reopens = !line.bare && line.fence.markdown >= open.markdown;
        let again = repeat::longest(shown.text(), head, line.start)?.len;
        if reopens && line.start + again >= line.end {
            // The fence line itself was shown: all from there on is a repeat, however short.
            return Ok(Cut::drop(line.start + again));
        }
        if let FoundRepeat::Repeat(end) = repeat::find(shown, head, line.end)? {
            return Ok(Cut::drop(end));
        }
        if reopens && !head.char_at(line.end)?.is_some_and(glyph::extends) {
            return Ok(Cut::drop(line.end));
        }
    }
    // A fence that does not begin a line is no fence, and all that follows would be shown as code, or all code as prose.
    // This is the one place where something may be inserted: the line break is certain to be missing.
    let begins_line = head.text()[..line.start].contains('\n') || shown.fence_may_follow();
    Ok(Cut { insert: if begins_line { "" } else { "\n" }, ..Cut::NOTHING })
}

/// Without a repeat only white space can be doubled, and only in prose: `"word "` and `" next"`, or an empty line after
/// an empty line. Space at the beginning of a line is indentation and is kept; in code all space is.
fn doubled_space(shown: &ShownText, head: &TextHead<'_>) -> Answerable<Cut> {
    if shown.fence().is_some() {
        return Ok(Cut::NOTHING);
    }
    let drop = match head.char_at(0)? {
        // More space is a table's alignment, or a line break in Markdown.
        Some(' ') if shown.ends_with_one_space() && !head.char_at(1)?.is_some_and(char::is_whitespace) => 1,
        Some('\n') if shown.text().ends_with("\n\n") => head.skip(0, |c| c == '\n')?,
        _ => 0,
    };
    // An accent would change its place.
    let carries = head.char_at(drop)?.is_some_and(glyph::extends);
    Ok(if carries { Cut::NOTHING } else { Cut::drop(drop) })
}
