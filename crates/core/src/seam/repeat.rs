//! Finding what the end of the shown text and the head of a continuation have in common.

use super::evidence::{Claim, OverlapVerdict};
use super::glyph;
use super::head::{Answerable, TextHead};
use super::shown::ShownText;

/// What the end of the shown text and the head of a continuation have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoundRepeat {
    /// A repeat, which ends here in the continuation.
    Repeat(usize),
    /// Something that the text has said more than once: it may well be meant.
    Echo,
    /// Nothing that proves a repeat.
    Nothing,
}

/// Looks for a repeat that begins at `from` or behind the white space there.
///
/// Exact overlaps first. In prose the white space between the overlap and what follows may also differ: a model that
/// was told `"the quick "` may well say `"the quick\nbrown"`. In code white space is content.
pub(super) fn find(shown: &ShownText, head: &TextHead<'_>, from: usize) -> Answerable<FoundRepeat> {
    let begins = [from, head.skip_space(from)?];
    let exact = shown.text();
    let trimmed = if shown.fence().is_none() { exact.trim_end() } else { exact };
    for tail in distinct(&[exact, trimmed]) {
        for begin in distinct(&begins) {
            let found = longest(tail, head, *begin)?;
            if found.len == 0 {
                continue;
            }
            let end = begin + found.len;
            let claim = Claim {
                shown,
                before: &tail[..tail.len() - found.len],
                overlap: &head.text()[*begin..end],
                unit: &head.text()[*begin..begin + found.period],
                lead: &head.text()[from..*begin],
                trailing: &exact[tail.len()..],
            };
            let end = match claim.judge(head, end)? {
                OverlapVerdict::Weak => None,
                OverlapVerdict::Echo => return Ok(FoundRepeat::Echo),
                OverlapVerdict::Repeat if claim.trailing.is_empty() => Some(end),
                OverlapVerdict::Repeat => skip_respelled(claim.trailing, head, end)?,
            };
            if let Some(end) = end {
                return Ok(FoundRepeat::Repeat(end));
            }
        }
    }
    Ok(FoundRepeat::Nothing)
}

/// Two ways to look at a thing, or one if they are the same.
fn distinct<T: PartialEq>(pair: &[T; 2]) -> &[T] {
    if pair[0] == pair[1] { &pair[..1] } else { pair }
}

/// Shown has white space behind the overlap and the continuation has other white space, or none. Skips as much of it as
/// says the same. `None` if what follows would belong to the overlap's last word and not behind white space.
fn skip_respelled(shown: &str, head: &TextHead<'_>, from: usize) -> Answerable<Option<usize>> {
    let to = head.skip_space(from)?;
    let follows = head.char_at(to)?;
    if follows.is_some_and(|c| glyph::extends(c) || (to == from && glyph::is_word(c))) {
        return Ok(None);
    }
    let met = &head.text()[from..to];
    let had = shown.matches('\n').count();
    let mut breaks = met.match_indices('\n').map(|(at, _)| at);
    let skip = match (had, met.matches('\n').count()) {
        (0, 1..) => breaks.next().unwrap_or_default(),
        (_, more) if more > had => breaks.nth(had).unwrap_or_default(),
        // As many lines, or fewer: what is left is the indentation of the line shown has begun.
        (1.., 1..) if shown.ends_with('\n') => breaks.next_back().map_or(0, |at| at + 1),
        _ => met.len(),
    };
    Ok(Some(from + skip))
}

/// The longest end of `tail` that `head` has at `from`.
pub(super) fn longest(tail: &str, head: &TextHead<'_>, from: usize) -> Answerable<Overlap> {
    let known = &head.text().as_bytes()[from..];
    let (overlap, inside) = overlap(tail.as_bytes(), &known[..known.len().min(tail.len())]);
    // All that is known stands somewhere in the tail: as more arrives, that may grow into a longer overlap.
    match inside {
        Inside::Yes => head.at_end().map(|()| overlap),
        Inside::No => Ok(overlap),
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Overlap {
    pub(super) len: usize,
    /// The overlap is its first `period` bytes, again and again. As long as the overlap if it does not repeat itself.
    pub(super) period: usize,
}

/// Whether all of the head was found in the tail, before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    Yes,
    No,
}

/// Knuth, Morris and Pratt: a run of one letter costs no more than prose. Bytes will do for text, because neither side
/// can begin or end inside a character.
pub(super) fn overlap<T: PartialEq>(tail: &[T], head: &[T]) -> (Overlap, Inside) {
    let borders = borders(head);
    let mut inside = if head.is_empty() && !tail.is_empty() { Inside::Yes } else { Inside::No };
    let mut len = 0;
    for (at, byte) in tail.iter().enumerate() {
        while len > 0 && (len == head.len() || head[len] != *byte) {
            len = borders[len - 1];
        }
        if head.get(len) == Some(byte) {
            len += 1;
        }
        if len == head.len() && at + 1 < tail.len() {
            inside = Inside::Yes;
        }
    }
    let period = if len == 0 { 0 } else { len - borders[len - 1] };
    (Overlap { len, period }, inside)
}

/// For every prefix of `text`, the length of the longest shorter prefix that is also its end.
fn borders<T: PartialEq>(text: &[T]) -> Vec<usize> {
    let mut borders = vec![0; text.len()];
    for at in 1..text.len() {
        let mut len = borders[at - 1];
        while len > 0 && text[len] != text[at] {
            len = borders[len - 1];
        }
        borders[at] = len + usize::from(text[len] == text[at]);
    }
    borders
}
