//! `everturn serve` as a process of its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::reader::Reader;

/// A directory of its own, deleted when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("everturn-cli-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path); // Of a process that was killed and had the same number.
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // The system cleans up sooner or later.
    }
}

/// Where the command is.
pub const EVERTURN: &str = env!("CARGO_BIN_EXE_everturn");

/// The command with these arguments, without the API keys of the environment.
pub fn everturn(arguments: &[&str]) -> Command {
    let mut command = without_keys(EVERTURN);
    command.args(arguments);
    command
}

/// A program, without those keys.
pub fn without_keys(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for name in ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"] {
        command.env_remove(name);
    }
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("EVERTURN_")) {
        command.env_remove(name);
    }
    command.env_remove("DATABASE_URL").env("XDG_CONFIG_HOME", "/nowhere");
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// A server that runs, and a client of it.
pub struct Daemon {
    pub child: Child,
    pub banner: Vec<String>,
    pub base: String,
    pub token: String,
    client: Client,
    _out: Lines<BufReader<ChildStdout>>,
    logged: JoinHandle<String>,
    so_far: watch::Receiver<String>,
}

impl Daemon {
    /// Starts one on a free port, and waits for its banner.
    pub async fn start(data: &Path, model: &str) -> Self {
        Self::start_on(data, model, "").await
    }

    /// Starts a server on the database at this address.
    pub async fn start_on(data: &Path, model: &str, url: &str) -> Self {
        Self::start_with(data, model, &[("DATABASE_URL", url)]).await
    }

    /// Starts a server with these variables.
    pub async fn start_with(data: &Path, model: &str, variables: &[(&str, &str)]) -> Self {
        let data_text = data.to_str().unwrap();
        let mut command = everturn(&["serve", "--listen", "127.0.0.1:0", "--data", data_text, "--model", model]);
        command.envs(variables.iter().copied());
        Self::spawn(data, command).await
    }

    /// One with every kind of agent: the usual one counts, `waits` has tools that wait for its client
    /// (`map`), for a person (`launch`) and for neither (`linger`), and `fails` asks a provider at this
    /// address, which has to refuse its key.
    pub async fn start_with_all(dir: &Path, provider: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default(); // Another test may have been first.
        std::fs::create_dir_all(dir).unwrap();
        let (file, effects, data) = (dir.join("agents.toml"), dir.join("effects.jsonl"), dir.join("data"));
        let agents = "
            [agents.waits]
            model = 'understudy/persona'
            [agents.fails]
            model = 'anthropic/claude-sonnet-4-5'";
        std::fs::write(&file, agents).unwrap();
        let mut command = everturn(&["serve", "--listen", "127.0.0.1:0", "--model", "understudy/numbered"]);
        command.arg("--data").arg(&data).arg("--config").arg(file).arg("--demo-tools").arg(effects);
        command.env("ANTHROPIC_BASE_URL", provider).env("ANTHROPIC_API_KEY", "sk-of-nobody");
        command.stdin(Stdio::piped()); // It ends when the other end of the pipe is closed.
        Self::spawn(&data, command).await
    }

    /// Starts this command, which serves this directory, and waits for its banner.
    pub async fn spawn(data: &Path, mut command: Command) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default(); // Another test may have been first.
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap()).lines();
        let (log, so_far) = watch::channel(String::new());
        let logged = tokio::spawn(async move {
            // What is not text fails the test that looks for it.
            while let Ok(Some(line)) = err.next_line().await {
                log.send_modify(|text| text.extend([line.as_str(), "\n"]));
            }
            log.borrow().clone()
        });
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut banner = Vec::new();
        while banner.last().is_none_or(|line: &String| !line.starts_with("Ctrl-C")) {
            banner.push(out.next_line().await.unwrap().expect("a banner"));
        }
        let base = banner[0].strip_prefix("Everturn listens on ").unwrap().to_owned();
        let token = std::fs::read_to_string(data.join("token")).unwrap().trim().to_owned();
        // A server closes a connection after ten idle seconds: a request sent on it just then is cut.
        let client = Client::builder().pool_idle_timeout(Duration::from_secs(3)).build().unwrap();
        Self { child, banner, base, token, client, _out: out, logged, so_far }
    }

    pub fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base)).bearer_auth(&self.token)
    }

    pub async fn post(&self, path: &str, body: &Value) -> Value {
        let response = self.ask(Method::POST, path).json(body).send().await.unwrap();
        assert!(response.status().is_success(), "{path}: {}", response.status());
        response.json().await.unwrap()
    }

    /// What a request is answered with, whatever it is.
    pub async fn answer(&self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let response = self.ask(method, path).json(body).send().await.unwrap();
        let (status, text) = (response.status(), response.text().await.unwrap());
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// A watcher of a chat.
    pub async fn watch(&self, chat: &str) -> Reader {
        Reader::open(self.ask(Method::GET, &format!("{chat}/stream"))).await
    }

    /// A new chat, by its path.
    pub async fn chat(&self) -> String {
        self.chat_with("default").await
    }

    /// A new chat with an agent.
    pub async fn chat_with(&self, agent: &str) -> String {
        let chat = self.post("/v1/chats", &json!({ "agent": agent })).await;
        format!("/v1/chats/{}", chat["id"].as_str().unwrap())
    }

    pub async fn get(&self, path: &str) -> Value {
        let response = self.ask(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        response.json().await.unwrap()
    }

    /// Ends it in good order, and gives back what it logged.
    pub async fn end(mut self) -> String {
        self.signal("TERM").await;
        assert_eq!(self.child.wait().await.unwrap().code(), Some(0));
        self.logged.await.unwrap()
    }

    /// Waits until it has logged these words.
    pub async fn until_logged(&self, words: &str) {
        self.so_far.clone().wait_for(|text| text.contains(words)).await.expect("it is still there");
    }

    /// Closes the reading end of its log.
    pub async fn deafen(&mut self) {
        self.logged.abort();
        let _ = (&mut self.logged).await; // Its end is what was asked for.
    }

    /// Sends it a signal by name.
    pub async fn signal(&self, name: &str) {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().await.unwrap().success());
    }
}
