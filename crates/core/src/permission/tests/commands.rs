//! Commands and the ways around rules over them.

use super::*;

/// Commands that a rule for `git status` must not let through: each runs, or may run, something else.
const BYPASSES: [&str; 71] = [
    "git status; rm -r src",
    "git status;rm -r src",
    "git status && rm -r src",
    "git status || rm -r src",
    "git status | sh",
    "git status & rm -r src",
    "git status |& sh",
    "git status &",
    "git status > src/lib.rs",
    "git status >> src/lib.rs",
    "git status 2>&1",
    "git status < /etc/passwd",
    "git status << END",
    "git status <(rm x)",
    "git status $(rm -r src)",
    "git status `rm -r src`",
    "git status \"$(rm -r src)\"",
    "git status \"`rm -r src`\"",
    "git status $HOME",
    "git status \"$HOME\"",
    "git status ${x:-y}",
    "git status $((1))",
    "git status $[ x='a[$(rm -r src)]' ]",
    "git status $'a'",
    "git status *",
    "git status src/?",
    "git status [a]",
    "git status {a,b}",
    "git status ~/x",
    "git status --file=~/x",
    "git status !$",
    "git status # not really",
    "git status \\\n; rm -r src",
    "git status\nrm -r src",
    "git status\rrm -r src",
    "git status\0rm -r src",
    "git status 'a\nb'",
    "git status 'open",
    "git status \"open",
    "git status ;",
    "; git status",
    "git status ;; rm",
    "git status && ",
    "(git status)",
    "{ git status; }",
    "! git status",
    "if git status; then rm -r src; fi",
    "while git status; do rm -r src; done",
    "time git status",
    "git() { rm -r src; }; git status",
    "function git { rm -r src; }",
    "alias git=rm; git status",
    "eval git status",
    "GIT_PAGER=evil git status",
    "PATH=.:/bin git status",
    "export PATH=. && git status",
    "git -c core.pager=evil status",
    "git --exec-path=. status",
    "git -C / status",
    "cd / && git status",
    "./git status",
    "/tmp/git status",
    "g\\it status",
    "g''it' 'status",
    "gіt status",
    "git\u{a0}status",
    "git status\u{2028}rm",
    "git status-evil",
    "",
    "   ",
    "''",
];

/// Programs that would run something else than they seem to, each of them with a rule for something else in force.
const RUNNERS: [&str; 21] = [
    "timeout 5 git status",
    "nohup git status",
    "nice git status",
    "sudo git status",
    "env git status",
    "env X=1 git status",
    "xargs git status",
    "bash -c 'git status'",
    "sh -c 'git status'",
    "python -c 'git status'",
    "find . -exec git status",
    "find . -delete",
    "sed -i s/a/b/ src/lib.rs",
    "sed e",
    "awk 'BEGIN { system(\"rm\") }'",
    "tar --to-command=sh -xf a.tar",
    "rg --pre sh x",
    "npm run build",
    "make",
    "command git status",
    "exec git status",
];

/// TL05: every known way around a prefix rule asks, and none makes a denied command run.
#[test]
fn no_known_way_around_a_rule_works() {
    let allows = Permissions::default().allow(["shell(git status *)"]).unwrap().otherwise(Otherwise::Ask);
    for text in BYPASSES.into_iter().chain(RUNNERS) {
        let decision = allows.decide("shell", &command(text), ToolConsent::Runs);
        assert_eq!(decision.verdict, Verdict::Ask, "{text:?}: {}", decision.basis);
    }
}

/// TL05: a rule that denies asks where it cannot tell.
#[test]
fn a_denial_asks_where_it_cannot_tell() {
    let denies = Permissions::default().allow(["shell"]).unwrap().deny(["shell(rm *)"]).unwrap();
    for (text, verdict) in [
        ("ls", Verdict::Allow),
        ("rm -r src", Verdict::Deny),
        ("/bin/rm -r src", Verdict::Deny),
        ("ls && 'rm' x", Verdict::Deny),
        ("ls | rm x", Verdict::Deny),
        ("ls > x", Verdict::Ask),
        ("$(echo rm) x", Verdict::Ask),
        ("r\\m x", Verdict::Ask),
        ("sudo rm x", Verdict::Ask),
        ("bash -c 'rm x'", Verdict::Ask),
        ("ls\nrm x", Verdict::Ask),
        ("if true; then rm x; fi", Verdict::Ask),
    ] {
        let decision = denies.decide("shell", &command(text), ToolConsent::Runs);
        assert_eq!(decision.verdict, verdict, "{text:?}: {}", decision.basis);
    }
}

/// What is certain is matched: words, quotes, several commands.
#[test]
fn plain_commands_are_matched() {
    let allows = Permissions::default()
        .allow(["shell(git status *)", "shell(cargo test *)", "shell(git log*)", "shell(git commit -m 'a *' ?)"])
        .unwrap()
        .otherwise(Otherwise::Ask);
    for (text, verdict) in [
        ("git status", Verdict::Allow),
        ("git status -s", Verdict::Allow),
        ("git   status\t--short  ", Verdict::Allow),
        ("'git' \"status\" 'a $(b) \\ c'", Verdict::Allow),
        ("git status HEAD~1 HEAD^ a@b:c,d+e%f=g ''", Verdict::Allow),
        ("git status && cargo test --workspace; git status | git status", Verdict::Allow),
        ("git log", Verdict::Allow),
        ("git log --oneline -3", Verdict::Allow),
        ("git commit -m 'a *' x", Verdict::Allow),
        ("git commit -m 'a b' x", Verdict::Ask),
        ("git commit -m 'a *' xy", Verdict::Ask),
        ("git", Verdict::Ask),
        ("git statuses", Verdict::Ask),
        ("cargo test && cargo publish", Verdict::Ask),
    ] {
        let decision = allows.decide("shell", &command(text), ToolConsent::Runs);
        assert_eq!(decision.verdict, verdict, "{text:?}: {}", decision.basis);
    }
}
