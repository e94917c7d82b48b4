//! `search`: lines, or names, that match a regular expression.

use std::fmt::Write as _;
use std::time::Duration;

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use super::look::{matcher, walk};
use super::{FileContext, SHOWN_BYTES_MAX};
use crate::clock::now;
use crate::wire::{FileReply, SearchRequest};

/// Matches that are shown.
const HITS_MAX: usize = 200;
/// Lines around a match.
const CONTEXT_MAX: usize = 5;
/// How long a search may take. The expressions are linear in time; the tree may be large.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Characters of a line that are shown.
const LINE_CHARS_MAX: usize = 500;

/// Searches the files that `.gitignore` does not name.
pub fn search(context: &FileContext, request: &SearchRequest) -> Result<FileReply, String> {
    let start = context.locate(&request.path)?;
    if !start.exists() {
        return Err(format!("{} is not there", request.path));
    }
    let glob = request.glob.as_deref().map(matcher).transpose()?;
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(request.ignore_case).line_terminator((!request.names).then_some(b'\n'));
    let pattern = builder.build(&request.pattern).map_err(|error| format!("the pattern cannot be used: {error}"))?;
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .before_context(request.context.min(CONTEXT_MAX))
        .after_context(request.context.min(CONTEXT_MAX))
        .build();
    let mut hits = Hits::default();
    let started = now();
    let mut is_late = false;
    for entry in walk(&start).build().flatten() {
        is_late = started.elapsed() > TIME_MAX;
        if is_late {
            break;
        }
        let relative = context.shown(entry.path());
        if glob.as_ref().is_some_and(|glob| !glob.is_match(&relative)) {
            continue;
        }
        if request.names {
            hits.name(&pattern, &relative);
        } else if entry.file_type().is_some_and(|kind| kind.is_file()) {
            hits.file = Some(relative);
            // A file that cannot be read has no matches.
            let _ = searcher.search_path(&pattern, entry.path(), &mut hits);
        }
    }
    Ok(FileReply::Text(hits.report(is_late)))
}

/// Matches as they are found, grouped by file.
#[derive(Debug, Default)]
struct Hits {
    text: String,
    count: usize,
    /// The file that is searched, until its name was written.
    file: Option<String>,
}

impl Hits {
    fn is_full(&self) -> bool {
        self.count > HITS_MAX || self.text.len() > SHOWN_BYTES_MAX
    }

    fn name(&mut self, pattern: &RegexMatcher, path: &str) {
        if pattern.is_match(path.as_bytes()).unwrap_or(false) {
            self.count += 1;
            if !self.is_full() {
                let _ = writeln!(self.text, "{path}");
            }
        }
    }

    fn line(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) {
        if let Some(file) = self.file.take() {
            let _ = writeln!(self.text, "{file}");
        }
        let line = String::from_utf8_lossy(bytes);
        let cut: String = line.trim_end().chars().take(LINE_CHARS_MAX).collect();
        let _ = writeln!(self.text, "{:>6}{mark} {cut}", number.unwrap_or_default());
    }

    fn report(self, is_late: bool) -> String {
        let shown = self.count.min(HITS_MAX);
        let mut report = match self.count {
            0 => "no matches\n".to_owned(),
            count if count > shown => format!("{count} matches, the first {shown} shown\n{}", self.text),
            count => format!("{count} matches\n{}", self.text),
        };
        if is_late {
            let _ = writeln!(report, "[stopped after {} s: search in a directory below]", TIME_MAX.as_secs());
        }
        report
    }
}

impl Sink for &mut Hits {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.count += 1;
        if !self.is_full() {
            self.line(found.line_number(), ':', found.bytes());
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, Self::Error> {
        if !self.is_full() {
            self.line(found.line_number(), '-', found.bytes());
        }
        Ok(true)
    }
}
