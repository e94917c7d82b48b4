//! Small changes of a function that may make a test pass.

use serde_json::{Value, json};

use super::project::text_of;

/// Lines of a function that are looked at.
const LINES_MAX: usize = 25;
/// Operators, and what may have been meant.
const SWAPS: [(&str, &str); 14] = [
    (" - ", " + "),
    (" + ", " - "),
    (" * ", " + "),
    (" / ", " * "),
    (" * ", " / "),
    (" < ", " <= "),
    (" <= ", " < "),
    (" > ", " >= "),
    (" >= ", " > "),
    (" == ", " != "),
    (" != ", " == "),
    (" and ", " or "),
    (" && ", " || "),
    (" || ", " && "),
];

/// A file as `read` has shown it, and the function that is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    pub file: String,
    pub line: usize,
    pub function: String,
    lines: Vec<String>,
}

/// One change: a block of lines that is there once, and what it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeChange {
    pub old: String,
    pub new: String,
    /// What changes, in a word.
    pub from: String,
    pub to: String,
}

impl Listing {
    /// Reads the answer of `read`; `None` if it is an error.
    pub fn read(answer: &str) -> Option<Self> {
        let (head, body) = answer.split_once('\n')?;
        head.contains(", sha ")
            .then(|| Self { lines: body.lines().map(|line| text_of(line).to_owned()).collect(), ..Self::default() })
    }

    /// This listing, of a function in a file.
    pub fn of(self, file: &str, line: usize, function: &str) -> Self {
        Self { file: file.into(), line, function: function.into(), ..self }
    }

    /// Whether these lines are in the file.
    pub fn has(&self, block: &str) -> bool {
        self.lines.join("\n").contains(block)
    }

    /// The changes that may be tried, most likely first.
    pub fn candidates(&self) -> Vec<CodeChange> {
        let begin = self.line.saturating_sub(1);
        let indent = |line: &str| line.len() - line.trim_start().len();
        let own = self.lines.get(begin).map_or(0, |line| indent(line));
        let body = self.lines.iter().enumerate().skip(begin).take(LINES_MAX);
        let body = body.take_while(|(at, line)| {
            *at == begin || line.trim().is_empty() || indent(line) > own || line.trim().starts_with('}')
        });
        let mut changes = Vec::new();
        for (at, line) in body.filter(|(_, line)| !is_comment(line)) {
            for (from, to) in SWAPS {
                for (place, _) in line.match_indices(from) {
                    let changed = format!("{}{to}{}", &line[..place], &line[place + from.len()..]);
                    changes.extend(self.change(at, &changed, line, (from.trim(), to.trim())));
                }
            }
        }
        changes
    }

    /// The change of one line, with as many lines before it as make it unique.
    fn change(&self, at: usize, changed: &str, line: &str, (from, to): (&str, &str)) -> Option<CodeChange> {
        let whole = self.lines.join("\n");
        (0..=at.min(5)).find_map(|more| {
            let before = self.lines[at - more..at].iter().map(|line| format!("{line}\n")).collect::<String>();
            let old = format!("{before}{line}");
            let new = format!("{before}{changed}");
            let is_unique = whole.matches(&old).count() == 1 && !whole.contains(&new);
            is_unique.then(|| CodeChange { old, new, from: from.into(), to: to.into() })
        })
    }
}

impl CodeChange {
    /// The input of `edit` that makes it.
    pub fn input(&self, file: &str) -> Value {
        json!({"path": file, "edits": [{"old": self.old, "new": self.new}]})
    }

    /// The input of `edit` that takes it back.
    pub fn reversed(&self, file: &str) -> Value {
        json!({"path": file, "edits": [{"old": self.new, "new": self.old}]})
    }

    /// Whether this is what an input of `edit` makes.
    pub fn is_of(&self, input: &Value) -> bool {
        input["edits"][0]["old"] == self.old.as_str()
    }

    /// Whether the answer of `edit` says that the file was changed.
    pub fn is_made(answer: &str) -> bool {
        answer.contains("\n@@ ") || answer.starts_with("@@ ")
    }
}

fn is_comment(line: &str) -> bool {
    ["#", "//", "*", "/*"].iter().any(|sign| line.trim_start().starts_with(sign))
}
