//! Grants: answers given in advance.
//!
//! A person who allows a call may allow the next ones like it in the same breath. That makes a rule of the chat, by a
//! recipe that is the same for everybody and shown before it is agreed to. It answers an ask that it covers, and never a
//! deny.

use std::time::Duration;

use super::command::{is_runner, quoted, split};
use super::rule::permitting;
use super::{Rule, RuleSubject};
use crate::ids::{CallUid, Timestamp};

/// How many grants a chat may have. One more ends the oldest.
pub const GRANTS_LEN_MAX: usize = 100;
/// How long a grant may last.
pub const GRANT_TIME_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A rule that was agreed to in a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The call that was asked about.
    pub call: CallUid,
    /// The rule, as it was shown.
    pub rule: String,
    /// A fingerprint of the tool's definition and of the agent's rules. When one of them changes, the grant is over.
    pub terms: String,
    /// The token that agreed, by name.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// When it ends.
    pub until: Timestamp,
}

impl Grant {
    /// Whether it covers a call.
    #[must_use]
    pub fn covers(&self, tool: &str, subject: &RuleSubject, terms: &str, now: Timestamp) -> bool {
        let rule: Result<Rule, _> = self.rule.parse();
        now < self.until && self.terms == terms && rule.is_ok_and(|rule| permitting(&[rule], tool, subject).is_some())
    }
}

/// The rule that a grant for this call would be; `None` if it can only be allowed once.
///
/// For a tool without patterns it is the tool, for a path its directory, for a command its words up to the first option.
/// Where nothing or only the program would be left of a command, and where the program runs other programs, it is the
/// command itself.
#[must_use]
pub fn grant_for(tool: &str, subject: &RuleSubject) -> Option<String> {
    let rule = match subject {
        RuleSubject::Nothing => tool.to_owned(),
        RuleSubject::Path(path) if path.contains(['*', '?']) => return None, // They would be wildcards.
        RuleSubject::Path(path) => match path.rsplit_once('/') {
            Some((directory, _)) => format!("{tool}({directory}/*)"),
            None if path == "." => format!("{tool}(**)"),
            None => format!("{tool}(*)"),
        },
        RuleSubject::Command(text) => {
            let commands = split(text)?;
            let [command] = commands.as_slice() else { return None };
            let plain = command.iter().take_while(|word| !word.starts_with('-')).count();
            let words: Vec<String> = command.iter().map(|word| quoted(word)).collect::<Option<_>>()?;
            match plain {
                2.. if !is_runner(command) => format!("{tool}({} *)", words[..plain].join(" ")),
                _ => format!("{tool}({})", words.join(" ")),
            }
        }
        RuleSubject::Unknown => return None,
    };
    let rule: Rule = rule.parse().ok()?;
    permitting(std::slice::from_ref(&rule), tool, subject).map(|rule| rule.text().to_owned())
}
