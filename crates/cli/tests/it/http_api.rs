//! The examples of `docs/http-api.md`, `docs/fronts/gateway.md` and `docs/start/web.md`, run against a real server in the order of the page.
//!
//! Each example is a `curl` command, followed by the status (a line that begins with "Answer") and mostly by what comes
//! back. Status and shape are compared: the fields that the page shows, all of them, with the same JSON types. `"…"` on
//! the page stands for further fields. Comments that begin with `run:` keep a field for later examples, or wait until a
//! chat has a status.

use std::collections::BTreeMap;

use everturn_server::front_routes;
use reqwest::Method;
use serde_json::{Value, json};

use crate::daemon::{Daemon, Scratch, without_keys};

const API: &str = include_str!("../../../../docs/http-api.md");
const AG_UI: &str = include_str!("../../../../docs/fronts/ag-ui.md");
const AI_SDK: &str = include_str!("../../../../docs/fronts/ai-sdk.md");
const GATEWAY: &str = include_str!("../../../../docs/fronts/gateway.md");
const WEB: &str = include_str!("../../../../docs/start/web.md");

/// A field whose value counts, beside its type.
const WORDS: [&str; 8] = ["how", "kind", "outcome", "rung", "tool", "type", "wants", "why"];

/// A piece of the page that the test acts on.
#[derive(Debug, PartialEq)]
enum Piece {
    /// A command, without its fence.
    Command(String),
    /// The status that the page says it is answered with.
    Status(u16),
    /// An answer as the page shows it: its language and its text.
    Answer(&'static str, String),
    /// What follows `run:` in a comment.
    Run(&'static str),
}

/// The pieces of a page, in order.
fn pieces(page: &'static str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let text = text.join("\n");
            match language {
                "sh" if text.starts_with("curl ") => pieces.push(Piece::Command(text)),
                "json" | "text" => pieces.push(Piece::Answer(language, text)),
                _ => {}
            }
        } else if let Some(rest) = line.strip_prefix("Answer `") {
            pieces.push(Piece::Status(rest[..3].parse().expect("a status")));
        } else if let Some(rest) = line.strip_prefix("<!-- run: ") {
            pieces.push(Piece::Run(rest.strip_suffix(" -->").expect("the end of the comment")));
        }
    }
    pieces
}

/// Complains unless an answer has the fields of the page, and no others where the page does not say that there are more.
fn compare(shown: &Value, found: &Value, place: &str) {
    match (shown, found) {
        (Value::Object(shown), Value::Object(found)) => {
            for (name, value) in shown.iter().filter(|(name, _)| *name != "…") {
                let other = found.get(name).unwrap_or_else(|| panic!("{place} has no {name}: {found:?}"));
                compare(value, other, &format!("{place}.{name}"));
            }
            let more: Vec<_> = found.keys().filter(|name| !shown.contains_key(*name)).collect();
            assert!(shown.contains_key("…") || more.is_empty(), "the page does not show {more:?} of {place}");
        }
        (Value::Array(shown), Value::Array(found)) => {
            assert!(found.len() >= shown.len(), "{place} is shorter than the page has it: {found:?}");
            for (shown, found) in shown.iter().zip(found) {
                compare(shown, found, &format!("{place}[]"));
            }
        }
        (Value::String(shown), Value::String(found)) => {
            let is_word = WORDS.iter().any(|word| place.ends_with(&format!(".{word}")));
            assert!(!is_word || shown == found, "{place} is {found:?}, the page says {shown:?}");
        }
        (Value::Number(_), Value::Number(_)) | (Value::Bool(_), Value::Bool(_)) | (Value::Null, Value::Null) => {}
        _ => panic!("{place} is {found}, the page says {shown}"),
    }
}

/// The events of a stream, by name: the data of the first of each.
fn events(text: &str) -> BTreeMap<String, Value> {
    let mut events = BTreeMap::new();
    for event in text.split("\n\n") {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        if let (Some(name), Some((_, data))) = (field("event"), event.split_once("data: ")) {
            events.entry(name.to_owned()).or_insert_with(|| serde_json::from_str(data).expect("JSON in `data`"));
        }
    }
    events
}

fn compare_text(shown: &str, found: &str) {
    let streamed = events(shown);
    let got = events(found);
    for (name, data) in &streamed {
        compare(data, got.get(name).unwrap_or_else(|| panic!("no event {name} in {found}")), name);
    }
    assert!(!streamed.is_empty() || found.starts_with(shown), "{found}");
}

/// Finds `asks.0.call` and the like in an answer, as text.
fn field(answer: &Value, path: &str) -> String {
    let step = |value: &Value, name: &str| match name.parse::<usize>() {
        Ok(index) => value[index].clone(),
        Err(_) => value[name].clone(),
    };
    match path.split('.').fold(answer.clone(), |value, name| step(&value, name)) {
        Value::String(text) => text,
        Value::Null => panic!("no {path} in {answer}"),
        other => other.to_string(),
    }
}

/// A server, and what the examples have kept for each other.
struct Reader {
    daemon: Daemon,
    scratch: Scratch,
    variables: BTreeMap<String, String>,
}

impl Reader {
    async fn new() -> Self {
        let scratch = Scratch::new();
        let daemon = Daemon::start(scratch.path(), "understudy/persona").await;
        let variables = BTreeMap::from([
            ("URL".to_owned(), daemon.base.clone()),
            ("AUTH".to_owned(), format!("authorization: Bearer {}", daemon.token)),
            ("JSON".to_owned(), "content-type: application/json".to_owned()),
            ("JAR".to_owned(), scratch.path().join("cookies").display().to_string()),
        ]);
        Self { daemon, scratch, variables }
    }

    /// Runs a command of the page; comes back with the status and the body. A stream is read for two seconds.
    async fn run(&self, command: &str) -> (u16, String) {
        let body = self.scratch.path().join("body");
        let seconds = if command.starts_with("curl -sSN") { 2 } else { 30 };
        let curl = format!(
            "curl() {{ command curl --max-time {seconds} -o '{}' -w '%{{http_code}}' \"$@\"; }}",
            body.display()
        );
        let mut shell = without_keys("bash");
        shell.arg("-c").arg(format!("{curl}\n{command}")).envs(&self.variables);
        let output = shell.output().await.expect("bash and curl run the examples of the page");
        let status = String::from_utf8_lossy(&output.stdout);
        let status = status.parse().unwrap_or_else(|_| panic!("{command}: {status} {output:?}"));
        (status, std::fs::read_to_string(&body).unwrap_or_default())
    }

    /// Waits until the chat in this variable has this status.
    async fn wait(&self, variable: &str, status: &str) {
        let mut watcher = self.daemon.watch(&format!("/v1/chats/{}", self.variables[variable])).await;
        watcher.until(|view| view.status.as_ref().is_some_and(|now| json!(now.status) == status)).await;
    }

    /// Does what a comment says.
    async fn obey(&mut self, what: &str, answer: &str) {
        if let Some(rest) = what.strip_prefix("wait ") {
            let (variable, status) = rest.split_once(' ').expect("a variable and a status");
            return self.wait(variable, status).await;
        }
        let (variable, path) = what.split_once('=').expect("a variable and a field");
        let answer = serde_json::from_str(answer).expect("JSON to keep a field of");
        self.variables.insert(variable.to_owned(), field(&answer, path));
    }
}

/// Whether a path of the OpenAPI document stands for a path of an example.
fn stands_for(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<_>, Vec<_>) = (pattern.split('/').collect(), path.split('/').collect());
    pattern.len() == path.len() && pattern.iter().zip(&path).all(|(a, b)| a.starts_with('{') || a == b)
}

/// Method and path of a command.
fn request(command: &str) -> (String, String) {
    let (_, rest) = command.split_once("\"$URL").expect("an address");
    let path = rest.split(['"', '?']).next().expect("a path").to_owned();
    let given = command.split_once(" -X ").map(|(_, rest)| rest.split(' ').next().expect("a method").to_lowercase());
    let method = given.unwrap_or_else(|| if command.contains(" -d ") { "post".into() } else { "get".into() });
    (method, path)
}

/// Runs the examples of a page and compares what they are answered with; comes back with the commands.
async fn run_examples(reader: &mut Reader, page: &'static str) -> Vec<String> {
    let mut answer = (0, String::new());
    let mut is_compared = false;
    let mut waiting = None;
    let mut examples = Vec::new();
    for piece in pieces(page) {
        match piece {
            Piece::Command(command) => {
                if let Some(what) = waiting.take() {
                    reader.obey(what, "").await;
                }
                answer = reader.run(&command).await;
                is_compared = false;
                examples.push(command);
            }
            Piece::Status(status) => assert_eq!(answer.0, status, "{:?}: {}", examples.last(), answer.1),
            Piece::Run(what) if what.starts_with("wait ") => waiting = Some(what),
            Piece::Run(what) => reader.obey(what, &answer.1).await,
            // Only the first one behind an example is its answer.
            Piece::Answer(..) if is_compared => {}
            Piece::Answer(language, shown) => {
                is_compared = true;
                let command = examples.last().expect("a command before its answer");
                match language {
                    "json" => compare(
                        &serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{shown}: {error}")),
                        &serde_json::from_str(&answer.1).unwrap_or_else(|error| panic!("{}: {error}", answer.1)),
                        command,
                    ),
                    _ => compare_text(&shown, &answer.1),
                }
            }
        }
    }
    examples
}

/// Every route of a front has an example on the front's page, which is answered as the page says.
#[tokio::test]
async fn the_examples_of_the_pages_of_fronts_are_answered_as_they_say() {
    for (page, prefix) in [(AI_SDK, "/ai/7/"), (AG_UI, "/ag-ui/")] {
        let mut reader = Reader::new().await;
        let examples = run_examples(&mut reader, page).await;
        let requests: Vec<_> = examples.iter().map(|command| request(command)).collect();
        for (method, path) in front_routes().into_iter().filter(|(_, path)| path.starts_with(prefix)) {
            let method = method.as_str().to_lowercase();
            let is_shown = requests.iter().any(|(used, at)| *used == method && stands_for(path, at));
            assert!(is_shown, "no example of {method} {path}");
        }
    }
}

#[tokio::test]
async fn the_examples_of_the_http_api_page_are_answered_as_it_says() {
    let mut reader = Reader::new().await;
    let examples = run_examples(&mut reader, API).await;
    let (_, document) = reader.daemon.answer(Method::GET, "/openapi.json", &Value::Null).await;
    let requests: Vec<_> = examples.iter().map(|command| request(command)).collect();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            let is_shown = requests.iter().any(|(used, at)| used == method && stands_for(path, at));
            assert!(is_shown, "docs/http-api.md has no example of {method} {path}");
        }
    }
}

#[tokio::test]
async fn the_examples_of_the_gateway_are_answered_as_it_says() {
    let mut reader = Reader::new().await;
    let examples = run_examples(&mut reader, GATEWAY).await;
    let requests: Vec<_> = examples.iter().map(|command| request(command)).collect();
    let routes = everturn_server::front_routes().into_iter();
    for (method, path) in routes.filter(|(_, path)| path.starts_with("/openai") || path.starts_with("/anthropic")) {
        let method = method.as_str().to_lowercase();
        let path = path.replace("{*id}", "{provider}/{id}");
        let is_shown = requests.iter().any(|(used, at)| *used == method && stands_for(&path, at));
        assert!(is_shown, "docs/fronts/gateway.md has no example of {method} {path}");
    }
}

/// The page for web products: its requests, and its JavaScript where Node is installed.
#[tokio::test]
async fn the_web_page_shows_an_answer_as_it_says() {
    let mut reader = Reader::new().await;
    run_examples(&mut reader, WEB).await;
    let scripts: Vec<&str> = WEB.split("```js\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let script = format!("const {{ URL, TOKEN }} = process.env;\n{}", scripts.join("\n"));
    let mut node = without_keys("node");
    node.args(["--input-type=module", "--eval", &script]);
    node.env("URL", &reader.daemon.base).env("TOKEN", &reader.variables["KIM"]);
    match node.output().await {
        Ok(output) => {
            let shown = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && shown.contains("I am the understudy"), "{output:?}");
        }
        Err(error) => eprintln!("node is missing ({error}): the JavaScript of docs/start/web.md was not run"),
    }
}
