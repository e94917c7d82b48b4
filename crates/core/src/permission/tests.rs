use expect_test::expect;

use super::*;
use crate::ids::StepId;

mod commands;
mod generated;

/// The tools of a coding agent with one MCP server.
const KNOWN: [KnownTool<'_>; 5] = [
    KnownTool::Named("read", PatternKind::Path),
    KnownTool::Named("edit", PatternKind::Path),
    KnownTool::Named("shell", PatternKind::Command),
    KnownTool::Named("note", PatternKind::Nothing),
    KnownTool::Prefixed("mcp__docs__"),
];

fn path(text: &str) -> RuleSubject {
    RuleSubject::Path(text.into())
}

fn command(text: &str) -> RuleSubject {
    RuleSubject::Command(text.into())
}

/// What is decided, and by what.
fn told(permissions: &Permissions, tool: &str, subject: &RuleSubject, consent: ToolConsent) -> String {
    let Decision { verdict, basis } = permissions.decide(tool, subject, consent);
    format!("{}: {basis}", verdict.word())
}

/// The strictest list wins, whatever the rules' order and precision, and the decision names the rule.
#[test]
fn the_strictest_rule_wins() {
    let permissions = Permissions::default()
        .allow(["read", "edit(src/**)", "edit(src/secret/key.rs)", "shell(cargo *)", "mcp__docs__*"])
        .and_then(|permissions| permissions.ask(["edit(src/api/*)", "shell(cargo publish *)", "mcp__docs__create_*"]))
        .and_then(|permissions| permissions.deny(["edit(src/secret/**)", "shell(* --force*)", "mcp__*__delete_*"]))
        .unwrap();
    permissions.check(&KNOWN).unwrap();
    let mut lines = String::new();
    for (tool, subject) in [
        ("read", path("src/lib.rs")),
        ("edit", path("src/lib.rs")),
        ("edit", path("src/api/chat.rs")),
        ("edit", path("src/api/chat/parts.rs")),
        ("edit", path("src/secret/key.rs")),
        ("edit", path("Cargo.toml")),
        ("edit", RuleSubject::Unknown),
        ("shell", command("cargo test")),
        ("shell", command("cargo publish -p core")),
        ("shell", command("cargo test && cargo publish")),
        ("shell", command("cargo publish --force")),
        ("shell", command("git push --force-with-lease origin")),
        ("shell", command("cargo test > log")),
        ("shell", command("ls")),
        ("mcp__docs__find", RuleSubject::Nothing),
        ("mcp__docs__create_page", RuleSubject::Nothing),
        ("mcp__docs__delete_page", RuleSubject::Nothing),
        ("note", RuleSubject::Nothing),
    ] {
        let line = told(&permissions, tool, &subject, ToolConsent::AsksPerson);
        lines.push_str(&format!("{tool} {subject:?} → {line}\n"));
    }
    expect![[r#"
        read Path("src/lib.rs") → allow: allow = "read"
        edit Path("src/lib.rs") → allow: allow = "edit(src/**)"
        edit Path("src/api/chat.rs") → ask: ask = "edit(src/api/*)"
        edit Path("src/api/chat/parts.rs") → allow: allow = "edit(src/**)"
        edit Path("src/secret/key.rs") → deny: deny = "edit(src/secret/**)"
        edit Path("Cargo.toml") → ask: policy of the tool
        edit Unknown → ask: policy of the tool
        shell Command("cargo test") → allow: allow = "shell(cargo *)"
        shell Command("cargo publish -p core") → ask: ask = "shell(cargo publish *)"
        shell Command("cargo test && cargo publish") → ask: ask = "shell(cargo publish *)"
        shell Command("cargo publish --force") → deny: deny = "shell(* --force*)"
        shell Command("git push --force-with-lease origin") → deny: deny = "shell(* --force*)"
        shell Command("cargo test > log") → ask: policy of the tool
        shell Command("ls") → ask: policy of the tool
        mcp__docs__find Nothing → allow: allow = "mcp__docs__*"
        mcp__docs__create_page Nothing → ask: ask = "mcp__docs__create_*"
        mcp__docs__delete_page Nothing → deny: deny = "mcp__*__delete_*"
        note Nothing → ask: policy of the tool
    "#]]
    .assert_eq(&lines);
}

/// A call that no rule matches is decided by `else`; only `effect` leaves it to the tool.
#[test]
fn else_decides_where_no_rule_matches() {
    let mut lines = String::new();
    for otherwise in Otherwise::ALL {
        for consent in [ToolConsent::Runs, ToolConsent::AsksPerson] {
            let permissions = Permissions::default().otherwise(otherwise);
            let line = told(&permissions, "note", &RuleSubject::Nothing, consent);
            lines.push_str(&format!("{} {consent:?} → {line}\n", otherwise.word()));
        }
    }
    expect![[r#"
        effect Runs → allow: policy of the tool
        effect AsksPerson → ask: policy of the tool
        ask Runs → ask: else = "ask"
        ask AsksPerson → ask: else = "ask"
        allow Runs → allow: else = "allow"
        allow AsksPerson → allow: else = "allow"
        deny Runs → deny: else = "deny"
        deny AsksPerson → deny: else = "deny"
    "#]]
    .assert_eq(&lines);
}

/// TL06: a rule that can never match is an error that says why.
#[test]
fn a_rule_that_can_never_match_is_refused() {
    let mut lines = String::new();
    for rule in [
        "",
        "raed",
        "Read",
        "read file",
        "read(src",
        "read(/etc/**)",
        "read(../x)",
        "read(a**/b)",
        "read(a//b)",
        "read([ab])",
        "read()",
        "note(x)",
        "shell(git status && *)",
        "shell(echo $HOME)",
        "shell(A=1 make)",
        "shell(if *)",
        "shell('open)",
        "shell()",
        "mcp__other__*",
        "mcp__docs__find(x)",
    ] {
        let refused = Permissions::default().deny([rule]).and_then(|permissions| permissions.check(&KNOWN));
        lines.push_str(&format!("{}\n", refused.unwrap_err()));
    }
    expect![[r#"
        the rule "" can never match: a rule is the name of a tool, perhaps with `*` in it, or a name and a pattern in brackets
        the rule "raed" can never match: the agent has no such tool; it has edit, mcp__docs__*, note, read, shell
        the rule "Read" can never match: the agent has no such tool; it has edit, mcp__docs__*, note, read, shell
        the rule "read file" can never match: a rule is the name of a tool, perhaps with `*` in it, or a name and a pattern in brackets
        the rule "read(src" can never match: it does not end with `)`
        the rule "read(/etc/**)" can never match: a path pattern is relative to the workspace
        the rule "read(../x)" can never match: a path pattern has no part ".."
        the rule "read(a**/b)" can never match: `**` stands alone between slashes
        the rule "read(a//b)" can never match: a path pattern has no part ""
        the rule "read([ab])" can never match: '[' is not part of a path pattern; the wildcards are `*`, `**` and `?`
        the rule "read()" can never match: a path pattern has no part ""
        the rule "note(x)" can never match: a rule for this tool has no pattern in brackets
        the rule "shell(git status && *)" can never match: a pattern is for one command; each command of a line is compared with it
        the rule "shell(echo $HOME)" can never match: '$' is not understood in a command, unless in single quotes
        the rule "shell(A=1 make)" can never match: a command that begins with an assignment is never matched
        the rule "shell(if *)" can never match: `if` is a word of the shell and never matched
        the rule "shell('open)" can never match: a quote is not closed
        the rule "shell()" can never match: the pattern is empty
        the rule "mcp__other__*" can never match: the agent has no such tool; it has edit, mcp__docs__*, note, read, shell
        the rule "mcp__docs__find(x)" can never match: a rule for this tool has no pattern in brackets
    "#]].assert_eq(&lines);
    for rule in ["*", "re*", "mcp__*", "mcp__docs__find", "m*__delete_*", "*(src/**)", "shell(*)", "shell('a b' ?)"] {
        let known = Permissions::default().allow([rule]).and_then(|permissions| permissions.check(&KNOWN));
        assert_eq!(known, Ok(()), "{rule}");
    }
    let none = Permissions::default().allow(["read"]).unwrap().check(&[]).unwrap_err();
    assert_eq!(none.cause, "the agent has no such tool; it has none");
}

/// A tool is not offered if a rule denies it whole; a rule with a pattern leaves it on offer.
#[test]
fn only_a_whole_denial_hides_a_tool() {
    let permissions = Permissions::default().deny(["shell(rm *)", "mcp__docs__*"]).unwrap();
    assert!(permissions.denies_whole("mcp__docs__find") && !permissions.denies_whole("shell"));
    let strict = Permissions::default().ask(["shell(ls)"]).unwrap().otherwise(Otherwise::Deny);
    assert!(strict.denies_whole("read") && !strict.denies_whole("shell"), "else denies what no rule names");
}

/// Patterns of paths.
#[test]
fn path_patterns() {
    for (pattern, yes, no) in [
        ("src/**", &["src", "src/a", "src/a/b"][..], &["srcs", "a/src/b", "."][..]),
        ("**", &[".", "a", "a/b"][..], &[][..]),
        ("*", &["a", "a.rs"][..], &["a/b", "."][..]),
        ("**/*.rs", &["a.rs", "x/y/a.rs"][..], &["a.rsx", "a.rs/x"][..]),
        ("src/**/test?.rs", &["src/test1.rs", "src/a/b/tests.rs"][..], &["src/test.rs", "src/test10.rs"][..]),
        ("a/*/c", &["a/b/c"][..], &["a/c", "a/b/b/c"][..]),
    ] {
        let rule: Rule = format!("read({pattern})").parse().unwrap();
        for text in yes {
            assert_eq!(rule.restricts("read", &path(text)), RuleMatch::Yes, "{pattern} {text}");
        }
        for text in no {
            assert_eq!(rule.restricts("read", &path(text)), RuleMatch::No, "{pattern} {text}");
        }
    }
}

/// The meaning of each rule, as an operator reads it.
#[test]
fn rules_say_what_they_mean() {
    let meaning = |rule: &str| rule.parse::<Rule>().unwrap().meaning(&KNOWN);
    let told: Vec<_> = ["read", "*", "edit(src/**)", "shell(cargo test *)", "mcp__docs__f*"].map(meaning).into();
    expect![[r#"
        every call of `read`
        every call of `read`, `edit`, `shell`, `note`, `mcp__docs__*`
        `edit` of paths like `src/**`
        `shell` with commands like `cargo test *`
        every call of `mcp__docs__*`
    "#]]
    .assert_eq(&(told.join("\n") + "\n"));
}

/// The recipe of grants: what a person agrees to beyond the one call.
#[test]
fn a_grant_covers_little_more_than_was_shown() {
    let mut lines = String::new();
    for (tool, subject) in [
        ("note", RuleSubject::Nothing),
        ("edit", path("src/api/chat.rs")),
        ("edit", path("README.md")),
        ("list", path(".")),
        ("edit", path("a*b/c")),
        ("edit", RuleSubject::Unknown),
        ("shell", command("cargo test -p core")),
        ("shell", command("git push origin main")),
        ("shell", command("cargo test 'a b'")),
        ("shell", command("cargo test 'a*b'")),
        ("shell", command("ls")),
        ("shell", command("rm -r src")),
        ("shell", command("git -c core.pager=x status")),
        ("shell", command("sudo cargo test")),
        ("shell", command("python3 -c 'print(1)'")),
        ("shell", command("echo \"it's\"")),
        ("shell", command("make && make test")),
        ("shell", command("echo $HOME")),
    ] {
        let rule = grant_for(tool, &subject);
        lines.push_str(&format!("{tool} {subject:?} → {}\n", rule.as_deref().unwrap_or("only once")));
    }
    expect![[r#"
        note Nothing → note
        edit Path("src/api/chat.rs") → edit(src/api/*)
        edit Path("README.md") → edit(*)
        list Path(".") → list(**)
        edit Path("a*b/c") → only once
        edit Unknown → only once
        shell Command("cargo test -p core") → shell(cargo test *)
        shell Command("git push origin main") → shell(git push origin main *)
        shell Command("cargo test 'a b'") → shell(cargo test 'a b' *)
        shell Command("cargo test 'a*b'") → shell(cargo test 'a*b' *)
        shell Command("ls") → shell(ls)
        shell Command("rm -r src") → shell(rm -r src)
        shell Command("git -c core.pager=x status") → shell(git -c core.pager=x status)
        shell Command("sudo cargo test") → shell(sudo cargo test)
        shell Command("python3 -c 'print(1)'") → shell(python3 -c 'print(1)')
        shell Command("echo \"it's\"") → only once
        shell Command("make && make test") → only once
        shell Command("echo $HOME") → only once
    "#]]
    .assert_eq(&lines);
}

fn granted(rule: &str) -> Grant {
    let (terms, by) = ("terms".into(), "laptop".into());
    Grant {
        call: CallUid { step: StepId(7), ordinal: 0 },
        rule: rule.into(),
        terms,
        by,
        at: Timestamp(1_000),
        until: Timestamp(2_000),
    }
}

/// A grant answers an ask that it covers, until it ends or its terms change, and never a deny.
#[test]
fn a_grant_answers_asks_and_never_a_deny() {
    let permissions = Permissions::default().ask(["shell(git *)"]).unwrap().deny(["shell(* --force*)"]).unwrap();
    let after = |rule: &str, text: &str, terms: &str, now: i64| {
        let decision = permissions.decide("shell", &command(text), ToolConsent::AsksPerson);
        decision.after(&[granted(rule)], "shell", &command(text), terms, Timestamp(now)).verdict
    };
    assert_eq!(after("shell(git push *)", "git push origin", "terms", 1_999), Verdict::Allow);
    assert_eq!(after("shell(git push *)", "git push origin", "terms", 2_000), Verdict::Ask, "it is over");
    assert_eq!(after("shell(git push *)", "git push origin", "others", 1_999), Verdict::Ask, "the terms changed");
    assert_eq!(after("shell(git push *)", "git pull", "terms", 1_999), Verdict::Ask, "not covered");
    assert_eq!(after("shell(git push *)", "git push > x", "terms", 1_999), Verdict::Ask, "not understood");
    assert_eq!(after("shell", "git push --force", "terms", 1_999), Verdict::Deny, "a deny stands");
    let decision = permissions.decide("shell", &command("git push"), ToolConsent::Runs);
    let covered = decision.after(&[granted("shell(git push *)")], "shell", &command("git push"), "terms", Timestamp(1));
    assert_eq!(covered.basis.to_string(), "grant 7.0");
}

/// The rules of agents above hold too: the strictest verdict counts, and says whose rule it is.
#[test]
fn rules_of_agents_above_only_restrict() {
    let own = Permissions::default().allow(["shell"]).unwrap().deny(["write"]).unwrap();
    let above = Permissions::default().ask(["shell(git *)"]).unwrap().allow(["write"]).unwrap();
    let top = Permissions::default().deny(["shell(* --force*)"]).unwrap();
    let decided = |text: &str| {
        let layers = [("coder", &above), ("lead", &top)];
        let Decision { verdict, basis } = own.decide_below(layers, "shell", &command(text), ToolConsent::AsksPerson);
        format!("{}: {basis}", verdict.word())
    };
    assert_eq!(decided("git push --force"), r#"deny: deny = "shell(* --force*)" of `lead`"#);
    assert_eq!(decided("git push"), r#"ask: ask = "shell(git *)" of `coder`"#);
    let denied = own.decide_below([("coder", &above)], "write", &path("a"), ToolConsent::Runs);
    assert_eq!(denied.basis.to_string(), r#"deny = "write""#, "what the parent allows does not loosen");
    let alone = own.decide_below([], "shell", &command("git push"), ToolConsent::AsksPerson);
    assert_eq!(alone.verdict, Verdict::Allow);
}
