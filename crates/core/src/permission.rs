//! Permissions: which calls run at once, which ask a person first, and which never run.
//!
//! An operator writes rules such as `read`, `edit(src/**)` or `shell(cargo test *)` into three lists: allow, ask and deny.
//! Of all rules that match a call the strictest list wins, so neither the order nor the precision of a rule matters, and a
//! rule that is added to `deny` always denies. Calls that no rule matches are decided by `else`.
//!
//! Rules are convenience. What keeps a command from harm is its confinement: a rule sees the text of a command, never
//! what the command does. So where a rule cannot tell whether it matches, an `allow` does not match, and an `ask` or a
//! `deny` asks.
//!
//! ```
//! use everturn_core::permission::{Permissions, RuleSubject, ToolConsent, Verdict};
//!
//! let permissions = Permissions::default().allow(["shell(cargo test *)"])?.deny(["shell(* --force*)"])?;
//! let verdict = |command: &str| {
//!     permissions.decide("shell", &RuleSubject::Command(command.into()), ToolConsent::AsksPerson).verdict
//! };
//! assert_eq!(verdict("cargo test --workspace"), Verdict::Allow);
//! assert_eq!(verdict("cargo test && rm -r src"), Verdict::Ask);
//! assert_eq!(verdict("git push --force"), Verdict::Deny);
//! # Ok::<(), everturn_core::permission::BadRule>(())
//! ```

mod command;
mod glob;
mod grant;
mod rule;

use std::fmt;

pub use grant::{GRANT_TIME_MAX, GRANTS_LEN_MAX, Grant, grant_for};
pub use rule::{BadRule, KnownTool, PatternKind, Rule};

use rule::RuleMatch;

use crate::ids::{CallUid, Timestamp};

/// The rules of an agent. Without any, each tool's own policy decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    allow: Vec<Rule>,
    ask: Vec<Rule>,
    deny: Vec<Rule>,
    otherwise: Otherwise,
}

/// What happens to a call that no rule matches: `else` of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Otherwise {
    /// The tool's own policy decides, which follows from its effect.
    #[default]
    Effect,
    /// A person is asked.
    Ask,
    /// The call runs.
    Allow,
    /// The call does not run.
    Deny,
}

impl Otherwise {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Effect, Self::Ask, Self::Allow, Self::Deny];

    /// The word in a configuration.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Effect => "effect",
            Self::Ask => "ask",
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// What a tool's own policy says about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolConsent {
    /// The call may run as it comes.
    Runs,
    /// A person is to be asked.
    AsksPerson,
}

/// What the pattern of a rule is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleSubject {
    /// Nothing: rules for this tool have no pattern.
    Nothing,
    /// A path relative to the workspace, with links followed. `.` is the workspace itself.
    Path(String),
    /// A command for a shell.
    Command(String),
    /// Not known: a path that cannot be resolved, or that is outside the workspace.
    Unknown,
}

/// What becomes of a call, the mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask,
    /// It does not run.
    Deny,
}

impl Verdict {
    /// The name of the list of rules.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// A verdict with what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// What it rests on.
    pub basis: Basis,
}

impl Decision {
    /// The decision after the grants of a chat: an ask that one of them covers is allowed.
    #[must_use]
    pub fn after(self, grants: &[Grant], tool: &str, subject: &RuleSubject, terms: &str, now: Timestamp) -> Self {
        match (self.verdict, grants.iter().find(|grant| grant.covers(tool, subject, terms, now))) {
            (Verdict::Ask, Some(grant)) => Self { verdict: Verdict::Allow, basis: Basis::Grant(grant.call) },
            (Verdict::Allow | Verdict::Ask | Verdict::Deny, _) => self,
        }
    }
}

/// What a decision rests on. Its text is stored with an ask and told to people and to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    /// A rule that matches.
    Rule(Verdict, String),
    /// A rule of which it cannot be told whether it matches.
    Unsure(Verdict, String),
    /// No rule matches, and this is what `else` says.
    Otherwise(Otherwise),
    /// No rule matches, and the tool's own policy decides.
    Policy,
    /// The grant that was given with this call.
    Grant(CallUid),
    /// The rules of an agent above are not known here, so that nothing is permitted.
    Unknown(String),
    /// What the rules of an agent above say, which a sub-agent works for.
    Above(String, Box<Self>),
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(list, rule) => write!(f, "{} = {rule:?}", list.word()),
            Self::Unsure(list, rule) => write!(f, "{} = {rule:?} may apply", list.word()),
            Self::Otherwise(otherwise) => write!(f, "else = {:?}", otherwise.word()),
            Self::Policy => f.write_str("policy of the tool"),
            Self::Grant(call) => write!(f, "grant {call}"),
            Self::Unknown(agent) => write!(f, "the rules of `{agent}`, which asked, are not known here"),
            Self::Above(agent, basis) => write!(f, "{basis} of `{agent}`"),
        }
    }
}

impl Permissions {
    /// Adds rules for calls that run at once.
    ///
    /// # Errors
    /// The text of a rule is malformed.
    pub fn allow<Text: AsRef<str>>(mut self, rules: impl IntoIterator<Item = Text>) -> Result<Self, BadRule> {
        self.allow.extend(parsed(rules)?);
        Ok(self)
    }

    /// Adds rules for calls that ask a person first.
    ///
    /// # Errors
    /// The text of a rule is malformed.
    pub fn ask<Text: AsRef<str>>(mut self, rules: impl IntoIterator<Item = Text>) -> Result<Self, BadRule> {
        self.ask.extend(parsed(rules)?);
        Ok(self)
    }

    /// Adds rules for calls that never run. A tool that such a rule names whole is not offered to the model.
    ///
    /// # Errors
    /// The text of a rule is malformed.
    pub fn deny<Text: AsRef<str>>(mut self, rules: impl IntoIterator<Item = Text>) -> Result<Self, BadRule> {
        self.deny.extend(parsed(rules)?);
        Ok(self)
    }

    /// Says what happens to calls that no rule matches.
    #[must_use]
    pub const fn otherwise(mut self, otherwise: Otherwise) -> Self {
        self.otherwise = otherwise;
        self
    }

    /// Every rule with its list, the strictest list first.
    pub fn rules(&self) -> impl Iterator<Item = (Verdict, &Rule)> {
        let deny = self.deny.iter().map(|rule| (Verdict::Deny, rule));
        let ask = self.ask.iter().map(|rule| (Verdict::Ask, rule));
        deny.chain(ask).chain(self.allow.iter().map(|rule| (Verdict::Allow, rule)))
    }

    /// Finds a rule that could never match one of these tools.
    ///
    /// # Errors
    /// The first such rule.
    pub fn check(&self, known: &[KnownTool<'_>]) -> Result<(), BadRule> {
        self.rules().try_for_each(|(_, rule)| rule.check(known))
    }

    /// Whether every call of a tool is denied. Such a tool is not offered to the model.
    #[must_use]
    pub fn denies_whole(&self, tool: &str) -> bool {
        let names = |rule: &Rule| rule.names(tool);
        let is_left = self.otherwise != Otherwise::Deny || self.allow.iter().chain(&self.ask).any(names);
        !is_left || self.deny.iter().any(|rule| rule.is_whole() && rule.names(tool))
    }

    /// Decides on a call of a tool. `consent` is what the tool's own policy says about it.
    #[must_use]
    pub fn decide(&self, tool: &str, subject: &RuleSubject, consent: ToolConsent) -> Decision {
        let restricts = |rules: &[Rule], wanted: RuleMatch| {
            rules.iter().find(|rule| rule.restricts(tool, subject) == wanted).map(|rule| rule.text().to_owned())
        };
        let decision = |verdict, basis| Decision { verdict, basis };
        if let Some(rule) = restricts(&self.deny, RuleMatch::Yes) {
            return decision(Verdict::Deny, Basis::Rule(Verdict::Deny, rule));
        }
        if let Some(rule) = restricts(&self.ask, RuleMatch::Yes) {
            return decision(Verdict::Ask, Basis::Rule(Verdict::Ask, rule));
        }
        let permitted = self.permitted(tool, subject, consent);
        let unsure = |list, rules| restricts(rules, RuleMatch::Unknown).map(|rule| Basis::Unsure(list, rule));
        match unsure(Verdict::Deny, &self.deny).or_else(|| unsure(Verdict::Ask, &self.ask)) {
            Some(basis) if permitted.verdict < Verdict::Ask => decision(Verdict::Ask, basis),
            Some(_) | None => permitted,
        }
    }

    /// Decides on a call of a sub-agent's tool: the strictest of what these rules say and what those of the agents above
    /// say, each with its name.
    #[must_use]
    pub fn decide_below<'a>(
        &self,
        above: impl IntoIterator<Item = (&'a str, &'a Self)>,
        tool: &str,
        subject: &RuleSubject,
        consent: ToolConsent,
    ) -> Decision {
        let own = self.decide(tool, subject, consent);
        above.into_iter().fold(own, |strictest, (agent, rules)| {
            let Decision { verdict, basis } = rules.decide(tool, subject, consent);
            if verdict <= strictest.verdict {
                return strictest;
            }
            Decision { verdict, basis: Basis::Above(agent.to_owned(), Box::new(basis)) }
        })
    }

    /// The decision where no rule restricts a call.
    fn permitted(&self, tool: &str, subject: &RuleSubject, consent: ToolConsent) -> Decision {
        let decision = |verdict, basis| Decision { verdict, basis };
        if let Some(rule) = rule::permitting(&self.allow, tool, subject) {
            return decision(Verdict::Allow, Basis::Rule(Verdict::Allow, rule.text().to_owned()));
        }
        let basis = Basis::Otherwise(self.otherwise);
        match (self.otherwise, consent) {
            (Otherwise::Effect, ToolConsent::Runs) => decision(Verdict::Allow, Basis::Policy),
            (Otherwise::Effect, ToolConsent::AsksPerson) => decision(Verdict::Ask, Basis::Policy),
            (Otherwise::Ask, _) => decision(Verdict::Ask, basis),
            (Otherwise::Allow, _) => decision(Verdict::Allow, basis),
            (Otherwise::Deny, _) => decision(Verdict::Deny, basis),
        }
    }
}

fn parsed<Text: AsRef<str>>(rules: impl IntoIterator<Item = Text>) -> Result<Vec<Rule>, BadRule> {
    rules.into_iter().map(|text| text.as_ref().parse()).collect()
}

#[cfg(test)]
mod tests;
