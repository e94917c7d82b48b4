//! The files that start the server elsewhere say what the server understands.

use crate::daemon::everturn;

const SYSTEMD: &str = include_str!("../../../../docs/deploy/everturn.service");
const KUBERNETES: &str = include_str!("../../../../docs/deploy/kubernetes.yaml");

/// Whatever follows `serve` is taken by `config show` too, which starts nothing.
async fn is_understood(arguments: &[&str]) {
    let (command, flags) = arguments.split_first().unwrap();
    assert_eq!(*command, "serve");
    let output = everturn(&[&["config", "show"], flags].concat()).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Each variable of ours that is set there is one we read.
fn variables_are_known(text: &str) {
    let page = include_str!("../../../../docs/configuration.md");
    let words = text.split(|c: char| !(c.is_ascii_uppercase() || c == '_'));
    for variable in words.filter(|word| word.starts_with("EVERTURN_")) {
        assert!(page.contains(variable), "{variable} is not in docs/configuration.md");
    }
}

#[tokio::test]
async fn the_unit_starts_what_is_there() {
    let line = SYSTEMD.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/everturn ")).unwrap();
    is_understood(&line.split_whitespace().collect::<Vec<_>>()).await;
    for line in ["UMask=0077", "StateDirectoryMode=0700", "NoNewPrivileges=yes", "ProtectSystem=strict"] {
        assert!(SYSTEMD.lines().any(|found| found == line), "{line}");
    }
    // Elsewhere than in this section systemd reads it as nothing.
    let unit = SYSTEMD.split("\n[").find(|section| section.starts_with("Unit]")).unwrap();
    assert!(unit.lines().any(|line| line == "StartLimitIntervalSec=0"), "a start that fails often is the last one");
    variables_are_known(SYSTEMD);
}

#[tokio::test]
async fn the_pod_starts_what_is_there() {
    let line = KUBERNETES.lines().find_map(|line| line.trim().strip_prefix("args: [")).unwrap();
    let arguments: Vec<&str> =
        line.trim_end_matches(']').split(", ").map(|argument| argument.trim_matches('"')).collect();
    is_understood(&arguments).await;
    let seconds = |name: &str| -> u64 {
        let (_, rest) = KUBERNETES.split_once(name).unwrap();
        let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    let needed = seconds("preStop:") + seconds("EVERTURN_DRAIN_SECONDS") + 10;
    assert!(needed < seconds("terminationGracePeriodSeconds"), "{needed} s and then it is killed");
    variables_are_known(KUBERNETES);
}
