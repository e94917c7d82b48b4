//! One rule: a tool, and perhaps a pattern.

use std::fmt;
use std::str::FromStr;

use super::RuleSubject;
use super::command::{self, CommandPattern};
use super::glob::{PathGlob, TextGlob};

/// A rule such as `read`, `edit(src/**)`, `shell(cargo test *)` or `mcp__docs__*`.
///
/// Two rules are equal if their texts are.
#[derive(Debug, Clone)]
pub struct Rule {
    text: String,
    tool: TextGlob,
    pattern: Option<Pattern>,
}

/// A pattern in both of its readings: which one counts depends on the tool.
#[derive(Debug, Clone)]
struct Pattern {
    text: String,
    path: Result<PathGlob, String>,
    command: Result<CommandPattern, String>,
}

/// What the patterns of a tool's rules mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PatternKind {
    /// Rules for the tool have no pattern.
    #[default]
    Nothing,
    /// A path relative to the workspace.
    Path,
    /// A command.
    Command,
}

/// A tool that rules may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownTool<'a> {
    /// The tool of this name.
    Named(&'a str, PatternKind),
    /// Any tools whose names begin like this: those of a server that has not listed them yet.
    Prefixed(&'a str),
}

/// A rule that says nothing, or nothing that could ever be the case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the rule {rule:?} can never match: {cause}")]
pub struct BadRule {
    /// The rule as it was written.
    pub rule: String,
    /// What is wrong with it.
    pub cause: String,
}

/// Whether a rule matches a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleMatch {
    Yes,
    No,
    Unknown,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Rule {}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, BadRule> {
        let bad = |cause: &str| BadRule { rule: text.to_owned(), cause: cause.to_owned() };
        let (tool, pattern) = match text.split_once('(') {
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').ok_or_else(|| bad("it does not end with `)`"))?)),
            None => (text, None),
        };
        let is_name = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '*');
        if tool.is_empty() || !tool.chars().all(is_name) {
            return Err(bad(
                "a rule is the name of a tool, perhaps with `*` in it, or a name and a pattern in brackets",
            ));
        }
        Ok(Self { text: text.to_owned(), tool: TextGlob::new(tool), pattern: pattern.map(Pattern::new) })
    }
}

impl Pattern {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), path: PathGlob::new(text), command: CommandPattern::new(text) }
    }
}

impl Rule {
    /// The rule as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is about every call of its tools.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.pattern.is_none()
    }

    /// Whether it is about a tool.
    #[must_use]
    pub fn names(&self, tool: &str) -> bool {
        self.tool.matches(tool)
    }

    /// Refuses a rule that could never match one of these tools.
    pub(super) fn check(&self, known: &[KnownTool<'_>]) -> Result<(), BadRule> {
        let bad = |cause: String| BadRule { rule: self.text.clone(), cause };
        let named = self.named(known);
        if named.is_empty() {
            let mut names: Vec<String> = known.iter().map(ToString::to_string).collect();
            names.sort_unstable();
            let tools = if names.is_empty() { "it has none".into() } else { format!("it has {}", names.join(", ")) };
            return Err(bad(format!("the agent has no such tool; {tools}")));
        }
        let Some(pattern) = &self.pattern else { return Ok(()) };
        let mut cause = "a rule for this tool has no pattern in brackets".to_owned();
        for kind in named.iter().map(|tool| tool.pattern()) {
            match (kind, &pattern.path, &pattern.command) {
                (PatternKind::Path, Ok(_), _) | (PatternKind::Command, _, Ok(_)) => return Ok(()),
                (PatternKind::Path, Err(wrong), _) | (PatternKind::Command, _, Err(wrong)) => cause.clone_from(wrong),
                (PatternKind::Nothing, ..) => {}
            }
        }
        Err(bad(cause))
    }

    /// What it is about, in words.
    #[must_use]
    pub fn meaning(&self, known: &[KnownTool<'_>]) -> String {
        let named = self.named(known);
        let tools = named.iter().map(|tool| format!("`{tool}`")).collect::<Vec<_>>().join(", ");
        let Some(Pattern { text, .. }) = &self.pattern else { return format!("every call of {tools}") };
        match named.iter().map(|tool| tool.pattern()).find(|kind| *kind != PatternKind::Nothing) {
            Some(PatternKind::Command) => format!("{tools} with commands like `{text}`"),
            Some(PatternKind::Path) => format!("{tools} of paths like `{text}`"),
            Some(PatternKind::Nothing) | None => "nothing".into(),
        }
    }

    fn named<'a>(&self, known: &'a [KnownTool<'a>]) -> Vec<&'a KnownTool<'a>> {
        let is_named = |tool: &&KnownTool<'_>| match tool {
            KnownTool::Named(name, _) => self.names(name),
            KnownTool::Prefixed(prefix) => self.tool.matches_some_after(prefix),
        };
        known.iter().filter(is_named).collect()
    }

    /// Whether it restricts a call, as a rule that asks or denies: one command that matches is enough.
    pub(super) fn restricts(&self, tool: &str, subject: &RuleSubject) -> RuleMatch {
        if !self.names(tool) {
            return RuleMatch::No;
        }
        let Some(pattern) = &self.pattern else { return RuleMatch::Yes };
        match (subject, &pattern.path, &pattern.command) {
            (RuleSubject::Path(path), Ok(glob), _) if glob.matches(path) => RuleMatch::Yes,
            (RuleSubject::Path(_), ..) => RuleMatch::No,
            (RuleSubject::Command(text), _, Ok(pattern)) => match command::split(text) {
                Some(commands) if commands.iter().any(|command| pattern.matches_program(command)) => RuleMatch::Yes,
                Some(commands) if commands.iter().any(command::is_runner) => RuleMatch::Unknown,
                Some(_) => RuleMatch::No,
                None => RuleMatch::Unknown,
            },
            (RuleSubject::Command(_), _, Err(_)) => RuleMatch::No,
            (RuleSubject::Nothing | RuleSubject::Unknown, ..) => RuleMatch::Unknown,
        }
    }

    /// Whether it permits a command.
    fn permits(&self, command: &command::SimpleCommand) -> bool {
        matches!(&self.pattern, Some(Pattern { command: Ok(pattern), .. }) if pattern.matches(command))
    }
}

impl KnownTool<'_> {
    const fn pattern(&self) -> PatternKind {
        match self {
            Self::Named(_, kind) => *kind,
            Self::Prefixed(_) => PatternKind::Nothing,
        }
    }
}

impl fmt::Display for KnownTool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name, _) => f.write_str(name),
            Self::Prefixed(prefix) => write!(f, "{prefix}*"),
        }
    }
}

/// The rule that permits a call: one that matches it, or the first of those that together match every command of it.
pub(super) fn permitting<'a>(rules: &'a [Rule], tool: &str, subject: &RuleSubject) -> Option<&'a Rule> {
    let mut about = rules.iter().filter(|rule| rule.names(tool));
    if let Some(whole) = about.clone().find(|rule| rule.is_whole()) {
        return Some(whole);
    }
    match subject {
        RuleSubject::Command(text) => {
            let commands = command::split(text)?;
            let permits = |command| about.clone().find(|rule| rule.permits(command));
            commands.iter().map(permits).collect::<Option<Vec<_>>>()?.first().copied()
        }
        RuleSubject::Path(_) => about.find(|rule| rule.restricts(tool, subject) == RuleMatch::Yes),
        RuleSubject::Nothing | RuleSubject::Unknown => None,
    }
}
