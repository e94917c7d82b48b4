//! The demo's two processes: the understudy and the daemon.
//!
//! Both are this same program, started anew, so what is proved is what is installed. They live in a directory
//! of their own and end with the demo, however it ends: it holds the other end of their standard input.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use everturn_server::DataDir;
use everturn_understudy::http::KEY;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

use super::ledger::{Line, Sent};
use everturn_frontend::client::Client;

/// How long a process may take to start.
const START_MAX: Duration = Duration::from_secs(20);

/// Prefixes of environment variables that the children must not inherit, in any case.
const FOREIGN: [&str; 10] = [
    "ANTHROPIC_",
    "OPENAI_",
    "GEMINI_",
    "GOOGLE_",
    "EVERTURN_",
    "OTEL_",
    "DATABASE_URL",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
];
/// Variable that selects the lie of a sabotaged build.
const LIE: &str = "EVERTURN_SABOTAGE";

fn is_foreign(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    name != LIE && (FOREIGN.iter().any(|begin| upper.starts_with(begin)) || upper == "NO_PROXY")
}

/// The stand-in for the models.
pub(super) struct Understudy {
    _child: Child,
    pub(super) url: String,
}

/// The daemon, which may die and come back.
pub(super) struct Daemon {
    child: Child,
    pub(super) place: Place,
    address: String,
    pub(super) client: Client,
}

/// Where everything of the daemon's is.
#[derive(Debug, Clone)]
pub(super) struct Place {
    dir: PathBuf,
    understudy: String,
}

/// What the understudy says it was asked and has sent.
#[derive(Debug, Deserialize)]
pub(super) struct Account {
    requests: Vec<Request>,
}

#[derive(Debug, Deserialize)]
struct Request {
    model: String,
    text: String,
    thoughts: String,
}

/// This program, without keys, in a directory of its own.
pub(super) fn everturn(dir: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("this program cannot be found again")?);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_foreign)) {
        command.env_remove(name);
    }
    let log = std::fs::OpenOptions::new().create(true).append(true).open(dir.join("log"))?;
    command.env("XDG_CONFIG_HOME", dir).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
    Ok(command)
}

/// Reads what a process says until it says this; what it says later is read and forgotten.
pub(super) async fn said(child: &mut Child, until: &str) -> anyhow::Result<Vec<String>> {
    let stdout = child.stdout.take().context("its output was taken")?;
    let mut lines = BufReader::new(stdout).lines();
    let mut said: Vec<String> = Vec::new();
    let read = async {
        while let Some(line) = lines.next_line().await? {
            let is_last = line.starts_with(until);
            said.push(line);
            if is_last {
                return Ok(());
            }
        }
        bail!("a process of the demo ended before it began")
    };
    timeout(START_MAX, read).await.context("a process of the demo did not begin in time")??;
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok(said)
}

impl Understudy {
    pub(super) async fn start(dir: &Path, seed: u64, pace: Duration) -> anyhow::Result<Self> {
        let mut command = everturn(dir)?;
        command.args(["understudy", "--port", "0", "--until-input-ends", "--seed", &seed.to_string()]);
        let mut child = command.args(["--pace", &pace.as_millis().to_string()]).spawn()?;
        let said = said(&mut child, "Ctrl-C").await?;
        let url = said.first().and_then(|line| line.strip_prefix("The understudy listens on "));
        Ok(Self { _child: child, url: url.context("the understudy says where it listens")?.into() })
    }

    /// What it says it has sent.
    pub(super) async fn account(&self) -> anyhow::Result<Account> {
        let client = reqwest::Client::builder().no_proxy().build()?;
        let asked = client.get(format!("{}/understudy/requests", self.url)).bearer_auth(KEY);
        let bytes = asked.send().await?.error_for_status()?.bytes().await?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

impl Account {
    /// What was sent in the name of one model, repetitions included.
    pub(super) fn sent(&self, model: &str) -> Sent {
        let mut sent = Sent::default();
        for request in self.requests.iter().filter(|request| request.model == model) {
            sent.add(&request.text, 't');
            sent.add(&request.thoughts, 'r');
        }
        sent
    }
}

impl Place {
    /// A daemon's place in this directory, with these agents.
    pub(super) fn new(dir: &Path, understudy: &Understudy, agents: &str) -> anyhow::Result<Self> {
        std::fs::write(dir.join("agents.toml"), agents)?;
        Ok(Self { dir: dir.into(), understudy: understudy.url.clone() })
    }

    fn side_file(&self) -> PathBuf {
        self.dir.join("effects.jsonl")
    }

    /// What tools have done in a chat so far. A line that is being written does not count yet.
    pub(super) fn effects(&self, chat: &str) -> anyhow::Result<Vec<Line>> {
        let text = match std::fs::read_to_string(self.side_file()) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error.into()),
        };
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let lines = whole.map(serde_json::from_str::<Line>).collect::<Result<Vec<_>, _>>()?;
        Ok(lines.into_iter().filter(|line| line.chat == chat).collect())
    }

    async fn start(&self, listen: &str) -> anyhow::Result<(Child, String)> {
        let mut command = everturn(&self.dir)?;
        command.arg("serve").args(["--listen", listen, "--model", "understudy/persona"]);
        command.arg("--data").arg(self.dir.join("data")).arg("--config").arg(self.dir.join("agents.toml"));
        command.arg("--demo-tools").arg(self.side_file());
        for (name, path) in
            [("ANTHROPIC_BASE_URL", ""), ("OPENAI_BASE_URL", "/v1"), ("GOOGLE_GEMINI_BASE_URL", "/v1beta")]
        {
            command.env(name, format!("{}{path}", self.understudy));
        }
        for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
            command.env(name, KEY);
        }
        let mut child = command.spawn()?;
        let said = said(&mut child, "Ctrl-C").await?;
        let address = said.first().and_then(|line| line.strip_prefix("Everturn listens on http://"));
        Ok((child, address.context("the daemon says where it listens")?.into()))
    }
}

impl Daemon {
    pub(super) async fn start(place: Place) -> anyhow::Result<Self> {
        let (child, address) = place.start("127.0.0.1:0").await?;
        let data = DataDir::open(&place.dir.join("data"))?;
        let client = Client::local(&data)?.context("the daemon is there")?;
        Ok(Self { child, place, address, client })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Ends it with SIGKILL.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Starts it again, on the same data and the same port. Says how long it took.
    pub(super) async fn restart(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        (self.child, _) = self.place.start(&self.address).await?;
        Ok(began.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_do_not_inherit_foreign_variables() {
        for name in ["EVERTURN_RECORD", "OTEL_EXPORTER_OTLP_ENDPOINT", "https_proxy", "no_proxy", "OPENAI_API_KEY"] {
            assert!(is_foreign(name), "{name}");
        }
        for name in ["PATH", "HOME", "EVERTURN_SABOTAGE", "TMPDIR"] {
            assert!(!is_foreign(name), "{name}");
        }
    }

    #[test]
    fn a_token_that_was_sent_in_two_halves_is_one() {
        let request = |model: &str, text: &str| Request {
            model: model.into(),
            text: text.into(),
            thoughts: text.replace('t', "r"),
        };
        let requests = vec![request("m", "t1 t"), request("other", "t9"), request("m", "2 t3"), request("m", "t3 t4")];
        let sent = Account { requests }.sent("m");
        assert_eq!((sent.words.join(" "), sent.thoughts.join(" ")), ("t1 t2 t3 t3 t4".into(), "r1 r2 r3 r3 r4".into()));
    }
}
