//! Permission rules of an agent in the configuration file.

use std::collections::BTreeMap;

use anyhow::anyhow;
use everturn::core::permission::{BadRule, KnownTool, Otherwise, PatternKind, Permissions};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// The table `permissions` of an agent.
#[derive(Deserialize, Debug, Default, Clone, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PermissionTable {
    #[serde(default)]
    allow: Vec<Spanned<String>>,
    #[serde(default)]
    ask: Vec<Spanned<String>>,
    #[serde(default)]
    deny: Vec<Spanned<String>>,
    #[serde(default, rename = "else", deserialize_with = "otherwise")]
    otherwise: Option<Otherwise>,
}

/// The tools that rules of an agent may name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RuleTools {
    named: BTreeMap<String, PatternKind>,
    prefixes: Vec<String>,
}

impl RuleTools {
    /// Adds a tool.
    pub fn name(&mut self, tool: impl Into<String>, pattern: PatternKind) {
        self.named.insert(tool.into(), pattern);
    }

    /// Adds all tools whose names begin like this.
    pub fn prefix(&mut self, prefix: impl Into<String>) {
        self.prefixes.push(prefix.into());
    }

    fn known(&self) -> Vec<KnownTool<'_>> {
        let named = self.named.iter().map(|(name, pattern)| KnownTool::Named(name, *pattern));
        named.chain(self.prefixes.iter().map(|prefix| KnownTool::Prefixed(prefix))).collect()
    }
}

impl PermissionTable {
    /// The rules.
    pub fn rules(&self) -> Result<Permissions, BadRule> {
        let texts = |rules: &'_ [Spanned<String>]| rules.iter().map(|rule| rule.get_ref().clone()).collect::<Vec<_>>();
        let rules = Permissions::default().allow(texts(&self.allow))?.ask(texts(&self.ask))?.deny(texts(&self.deny))?;
        Ok(rules.otherwise(self.otherwise.unwrap_or_default()))
    }

    /// Refuses a rule that can never match a call of these tools, with its line in the file.
    pub fn check(&self, tools: &RuleTools, file: &str) -> anyhow::Result<()> {
        let checked = self.rules().and_then(|rules| rules.check(&tools.known()));
        checked.map_err(|bad| match self.line_of(&bad.rule, file) {
            Some(line) => anyhow!("line {line}: {bad}"),
            None => bad.into(),
        })
    }

    fn line_of(&self, rule: &str, file: &str) -> Option<usize> {
        let mut all = self.allow.iter().chain(&self.ask).chain(&self.deny);
        let start = all.find(|spanned| spanned.get_ref() == rule)?.span().start;
        Some(file.get(..start)?.matches('\n').count() + 1)
    }

    /// The lists that are set, each rule with its meaning, and what holds for all other calls.
    pub fn shown(&self, tools: &RuleTools) -> ShownPermissions {
        let known = tools.known();
        let rules = self.rules().unwrap_or_default();
        let meanings = rules.rules().map(|(list, rule)| {
            let meaning = rule.meaning(&known);
            (format!("{} {}", list.word(), rule.text()), meaning)
        });
        let texts = |rules: &[Spanned<String>]| rules.iter().map(|rule| rule.get_ref().clone()).collect();
        let lists = [("allow", texts(&self.allow)), ("ask", texts(&self.ask)), ("deny", texts(&self.deny))];
        ShownPermissions {
            lists: lists.into_iter().filter(|(_, rules): &(_, Vec<String>)| !rules.is_empty()).collect(),
            otherwise: self.otherwise.unwrap_or_default(),
            meanings: meanings.collect(),
        }
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Permissions as `everturn config show` has them.
pub struct ShownPermissions {
    /// The lists of rules that are not empty.
    pub lists: Vec<(&'static str, Vec<String>)>,
    /// What holds for calls that no rule matches.
    pub otherwise: Otherwise,
    /// Each rule with its list, and what it is about.
    pub meanings: Vec<(String, String)>,
}

fn otherwise<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Otherwise>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let found = Otherwise::ALL.into_iter().find(|otherwise| otherwise.word() == text);
    let words = || Otherwise::ALL.map(|otherwise| format!("`{}`", otherwise.word())).join(", ");
    found.map(Some).ok_or_else(|| D::Error::custom(format!("`else` is `{text}`; it must be one of {}", words())))
}

#[cfg(test)]
mod tests {
    use everturn::core::permission::{RuleSubject, ToolConsent, Verdict};

    use super::super::Flags;
    use super::super::tests::read;

    const RULES: &str = "
        allow = [\"read\", \"edit(src/**)\", \"mcp__docs__*\", \"ask_second\"]
        ask = [\"shell(git push *)\"]
        deny = [\"shell(* --force*)\", \"pay\"]
        else = \"ask\"
        [mcpServers.docs]
        command = \"docs\"
        [tools.pay]
        description = \"Pays.\"
        [agents.second]
        model = \"a/b\"
        permissions = {else = \"deny\"}
    ";

    #[test]
    fn an_agent_has_the_rules_of_the_file() {
        let text = format!("may_ask = [\"second\"]\n[permissions]{RULES}");
        let config = read(Flags::default(), &[], &text).unwrap();
        let agent = config.usual_agent("a/b".parse().unwrap()).unwrap();
        let verdict = |tool: &str, subject| agent.permissions.decide(tool, &subject, ToolConsent::Runs).verdict;
        assert_eq!(verdict("edit", RuleSubject::Path("src/a.rs".into())), Verdict::Allow);
        assert_eq!(verdict("edit", RuleSubject::Path("b.rs".into())), Verdict::Ask);
        assert_eq!(verdict("shell", RuleSubject::Command("git push --force".into())), Verdict::Deny);
        assert_eq!(verdict("pay", RuleSubject::Nothing), Verdict::Deny);
        let second = config.named_agent("second").unwrap();
        assert_eq!(second.permissions.decide("read", &RuleSubject::Nothing, ToolConsent::Runs).verdict, Verdict::Deny);
        let shown = config.shown(None, |_| None).text();
        for said in [
            "[permissions]",
            "ask = [\"shell(git push *)\"]",
            "else = \"ask\"",
            "# deny shell(* --force*): `shell` with commands like `* --force*`",
            "# allow mcp__docs__*: every call of `mcp__docs__*`",
            "[agents.second.permissions]",
        ] {
            assert!(shown.contains(said), "{said}: {shown}");
        }
    }

    /// TL06: a rule that can never match is an error with its line.
    #[test]
    fn a_rule_that_never_matches_is_refused_with_its_line() {
        for (rules, said) in [
            (
                "allow = [\"read\",\n  \"raed\"]",
                "line 3: the rule \"raed\" can never match: the agent has no such tool",
            ),
            ("deny = [\"mcp__docs__*\"]", "line 2: "),
            ("ask = [\"read(/etc/**)\"]", "line 2: "),
            ("ask = [\"shell(git push\"]", "it does not end with `)`"),
            ("else = \"maybe\"", "must be one of `effect`, `ask`, `allow`, `deny`"),
            ("alow = [\"read\"]", "did you mean `allow`?"),
        ] {
            let error = format!("{:#}", read(Flags::default(), &[], &format!("[permissions]\n{rules}")).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
        let named = "[agents.a]\nmodel = \"a/b\"\n[agents.a.permissions]\nallow = [\"nothing\"]";
        let error = format!("{:#}", read(Flags::default(), &[], named).unwrap_err());
        assert!(error.contains("the agent `a`: line 4: "), "{error}");
    }

    #[test]
    fn a_sub_agent_must_be_configured() {
        let error = format!("{:#}", read(Flags::default(), &[], "may_ask = [\"reviewer\"]").unwrap_err());
        assert!(error.contains("`may_ask` names `reviewer`, which is not an agent"), "{error}");
    }
}
