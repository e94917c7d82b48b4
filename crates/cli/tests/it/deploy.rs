//! The files that start the server elsewhere say what the server understands.

use std::path::Path;

use crate::daemon::{Daemon, Scratch, everturn, without_keys};

const DOCKERFILE: &str = include_str!("../../../../Dockerfile");
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

/// What follows an instruction of the Dockerfile, the last time it is given.
fn instruction(name: &str) -> &'static str {
    let given = DOCKERFILE.lines().rev().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    given.unwrap_or_else(|| panic!("the Dockerfile has no {name}"))
}

#[tokio::test]
async fn the_image_starts_what_is_there() {
    assert_eq!(instruction("ENTRYPOINT"), r#"["/usr/local/bin/everturn"]"#);
    let arguments: Vec<&str> = serde_json::from_str(instruction("CMD")).unwrap();
    is_understood(&arguments).await;
    variables_are_known(DOCKERFILE);
    let rust = env!("CARGO_PKG_RUST_VERSION");
    assert!(DOCKERFILE.contains(&format!("ARG RUST=rust:{rust}-slim")), "it is built with Rust {rust}");
    let profile = include_str!("../../../../Cargo.toml").split_once("[profile.dist]").unwrap().1;
    assert!(profile.contains("strip = true") && DOCKERFILE.contains("--profile dist"));
    let user = instruction("USER").split(':').next().unwrap();
    assert!(KUBERNETES.contains(&format!("runAsUser: {user}\n")), "one user, on every platform");
}

/// The health check of the image says yes while the server is ready, and no when it is gone.
#[tokio::test]
async fn the_image_knows_whether_its_server_is_ready() {
    let scratch = Scratch::new();
    let (_, command) = instruction("HEALTHCHECK").split_once(" CMD ").unwrap();
    let command: Vec<String> = serde_json::from_str(command).unwrap();
    let check = async || {
        let mut check = without_keys(&command[0]);
        check.args(&command[1..]).env("EVERTURN_DATA", scratch.path());
        check.output().await.unwrap().status.code()
    };
    let mut daemon = Daemon::start(scratch.path(), "understudy/persona").await;
    assert_eq!(check().await, Some(0));
    daemon.child.kill().await.unwrap();
    assert_eq!(check().await, Some(1), "and no other number, which Docker has no meaning for");
}

/// The arguments of a line that starts the command, here or in a container.
fn arguments(line: &str) -> Option<Vec<String>> {
    let line = line.trim();
    let line = line.strip_prefix("# Start the server with: ").unwrap_or(line);
    let (_, rest) = match line.split(' ').next()? {
        "everturn" | "./everturn" => line.split_once(' ')?,
        "docker" if line.contains(" run ") => line.split_once(" everturn:0.1.0 ")?,
        "docker" => line.split_once(" everturn everturn ")?,
        _ => return None,
    };
    // What comes after is the shell's.
    let is_shells = |word: &String| matches!(word.as_bytes().first(), Some(b'|' | b'>' | b'&' | b'#'));
    Some(words(rest).into_iter().take_while(|word| !is_shells(word)).collect())
}

/// The words of a line, those in double quotes together.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, piece) in line.split('"').enumerate() {
        match index % 2 {
            0 => words.extend(piece.split_whitespace().map(str::to_owned)),
            _ => words.push(piece.to_owned()),
        }
    }
    words
}

/// Every command that the pages for operators show is one that there is, with these flags. `--help` at its end keeps it from
/// doing anything.
#[tokio::test]
async fn the_pages_show_commands_that_there_are() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let pages = ["alerts.md", "backup.md", "cli.md", "docker.md", "ingress.md", "network.md", "upgrade.md"];
    let others = ["start/company.md", "start/web.md", "deploy/nginx.conf", "deploy/haproxy.cfg"];
    for page in pages.into_iter().chain(others) {
        let text = std::fs::read_to_string(docs.join(page)).unwrap().replace("\\\n", " ");
        let commands: Vec<_> = text.lines().filter_map(arguments).collect();
        assert!(!commands.is_empty(), "{page}");
        for command in commands {
            let flags: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
            let output = everturn(&flags).output().await.unwrap();
            assert!(output.status.success(), "{page}: {command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}
