//! Emphasis, code and links within a line.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::super::style::{Ink, Look, Span};

/// Put before the text, so that it is not parsed as the beginning of a list or a heading. A no-break space
/// counts as a space for emphasis, but not for indentation.
const GUARD: char = '\u{a0}';

/// The styled text of a line.
pub fn spans(text: &str, base: Look) -> Vec<Span> {
    let guarded = format!("{GUARD}{text}");
    let mut spans = Vec::new();
    let mut looks = vec![base];
    let mut target = None;
    let mut is_first = true;
    for event in Parser::new_ext(&guarded, Options::ENABLE_STRIKETHROUGH) {
        let look = *looks.last().unwrap_or(&base);
        match event {
            Event::Start(Tag::Strong) => looks.push(Look { bold: true, ..look }),
            Event::Start(Tag::Emphasis) => looks.push(Look { italic: true, ..look }),
            Event::Start(Tag::Strikethrough) => looks.push(Look { struck: true, ..look }),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                looks.push(Look { underlined: true, ..look });
                target = Some((dest_url.to_string(), spans.len()));
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                looks.pop();
                spans.extend(target.take().and_then(|(url, from)| shown_target(&url, &spans[from..])));
            }
            Event::End(TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough) => {
                looks.pop();
            }
            Event::Text(text) | Event::InlineHtml(text) | Event::Html(text) => {
                let words = if is_first { text.trim_start_matches(GUARD) } else { &text };
                is_first = false;
                spans.push(Span::new(words, look));
            }
            Event::Code(code) => spans.push(Span::new(&code, Look { ink: Ink::Yellow, ..look })),
            Event::SoftBreak | Event::HardBreak => spans.push(Span::new(" ", look)),
            _ => {}
        }
    }
    spans.retain(|span| !span.text().is_empty());
    spans
}

/// The target of a link, unless its text shows it already.
fn shown_target(url: &str, words: &[Span]) -> Option<Span> {
    let said: String = words.iter().map(Span::text).collect();
    (said != url && format!("mailto:{said}") != url).then(|| Span::new(&format!(" ({url})"), Look::DIM))
}
