//! Breaking lines to the width of a window.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use super::style::{Line, Look, Span};

/// Where a line may be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Between words; inside of one only if it is wider than the window.
    Words,
    /// Anywhere, as suits code.
    Letters,
}

/// The line in pieces that fit. `hang` stands before every piece but the first.
pub fn wrap(line: &Line, width: usize, hang: &Line, at: At) -> Vec<Line> {
    let width = width.max(1);
    if line.width() <= width {
        return vec![line.clone()];
    }
    // In a window too narrow for what hangs, nothing does.
    let hang = if hang.width() + 8 > width { &Line::default() } else { hang };
    let letters: Vec<(&str, Look)> =
        line.0.iter().flat_map(|span| span.text().graphemes(true).map(|letter| (letter, span.look))).collect();
    let (mut pieces, mut begin) = (Vec::new(), 0);
    while begin < letters.len() {
        let room = if pieces.is_empty() { width } else { width - hang.width() };
        let end = begin + fitting(&letters[begin..], room, at);
        let mut piece = if pieces.is_empty() { Line::default() } else { hang.clone() };
        piece.0.extend(spans(&letters[begin..end]));
        pieces.push(piece);
        begin = end;
        if at == At::Words && letters.get(begin).is_some_and(|(letter, _)| *letter == " ") {
            begin += 1; // The space that the break stands for.
        }
    }
    pieces
}

/// How many letters fit, at least one.
fn fitting(letters: &[(&str, Look)], room: usize, at: At) -> usize {
    let (mut used, mut break_at) = (0, None);
    for (i, (letter, _)) in letters.iter().enumerate() {
        used += letter.width();
        if *letter == " " && i > 0 {
            break_at = Some(i);
        }
        if used > room {
            return match break_at {
                Some(place) if at == At::Words => place,
                _ => i.max(1),
            };
        }
    }
    letters.len()
}

fn spans(letters: &[(&str, Look)]) -> Vec<Span> {
    let alike = letters.chunk_by(|(_, a), (_, b)| a == b);
    alike.map(|run| Span::new(&run.iter().map(|(letter, _)| *letter).collect::<String>(), run[0].1)).collect()
}

/// As much of a line as fits, with a mark where it was cut.
pub fn clip(line: Line, width: usize) -> Line {
    if line.width() <= width {
        return line;
    }
    let mut pieces = wrap(&line, width.saturating_sub(1), &Line::default(), At::Letters);
    pieces.swap_remove(0).and("…", Look::DIM)
}

#[cfg(test)]
mod tests {
    use super::super::style::Colours;
    use super::*;

    fn wrapped(text: &str, width: usize, at: At) -> Vec<String> {
        let pieces = wrap(&Line::plain(text), width, &Line::plain("  "), at);
        pieces.iter().map(|piece| piece.paint(Colours::Off)).collect()
    }

    #[test]
    fn words_are_kept_whole_where_they_fit() {
        assert_eq!(wrapped("a short line", 20, At::Words), ["a short line"]);
        assert_eq!(wrapped("one two three four", 11, At::Words), ["one two", "  three", "  four"]);
        assert_eq!(wrapped("abcdefghijklmnopqrst uv", 12, At::Words), ["abcdefghijkl", "  mnopqrst", "  uv"]);
        assert_eq!(wrapped("let value = 1;", 12, At::Letters), ["let value = ", "  1;"]);
    }

    #[test]
    fn wide_letters_and_joined_ones_are_measured_and_kept() {
        assert_eq!(wrapped("日本語日本語", 4, At::Words), ["日本", "語日", "本語"]);
        assert_eq!(wrapped("👩\u{200d}💻👩\u{200d}💻", 2, At::Letters), ["👩\u{200d}💻", "👩\u{200d}💻"]);
    }

    #[test]
    fn nothing_is_lost_at_any_width() {
        let text = "The quick brown fox, 日本語 and a-very-long-word-that-fits-nowhere jumps.";
        for width in 1..90 {
            let joined: String = wrapped(text, width, At::Words).concat();
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            assert_eq!(letters(&joined), letters(text), "at width {width}");
        }
    }

    #[test]
    fn a_clipped_line_fits() {
        let clipped = clip(Line::plain("日本語日本語"), 6);
        assert_eq!((clipped.paint(Colours::Off).as_str(), clipped.width()), ("日本…", 5));
    }
}
