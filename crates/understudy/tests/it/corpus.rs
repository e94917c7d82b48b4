//! A corpus of broken sessions: every shape that people have reported, in the formats in which they were stored.
//!
//! Each is drawn from a seed, broken in one named way, and written as a file. It is read, mended, prepared for all four
//! wires and sent by the real adapters to the strict server. None is refused. To see that the shapes are what they are
//! named after, those that Anthropic would refuse are also sent as they are, and are.

mod formats;
mod shapes;
mod talk;

use std::sync::Arc;

use everturn_core::doctor::changes::PromptChanges;
use everturn_core::doctor::foreign::read;
use everturn_core::doctor::{Repaired, TranscriptOrigin, repair};
use everturn_core::ids::{ModelId, Timestamp};
use everturn_core::limits::Limits;
use everturn_core::message::Message;
use everturn_core::prompt::{Effort, Request, Target, WireFormat, prepare};
use everturn_providers::Provider;
use everturn_providers::anthropic::Anthropic;
use everturn_providers::catalogue::Catalogue;
use everturn_providers::gemini::Gemini;
use everturn_providers::http::Http;
use everturn_providers::openai_chat::OpenAiChat;
use everturn_providers::openai_responses::OpenAiResponses;
use everturn_understudy::http::{KEY, Logged, UnderstudyOptions, UnderstudyServer};
use everturn_understudy::{Manner, Understudy};
use formats::FORMATS;
use serde_json::{Value, json};
use shapes::{Found, SHAPES};
use talk::{Dice, Talk};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How often every shape is drawn: every format three times.
const SEEDS: u64 = 12;

/// One broken session.
struct Case {
    name: String,
    talk: Talk,
    file: String,
}

/// The whole corpus.
fn corpus() -> Vec<Case> {
    let mut cases = Vec::new();
    for shape in SHAPES {
        for seed in 0..SEEDS {
            let mut dice = Dice::new(seed * 1_000 + shape.name.len() as u64);
            let mut talk = Talk::healthy(&mut dice);
            (shape.make)(&mut talk, &mut dice);
            let format = FORMATS[(seed % FORMATS.len() as u64) as usize];
            let name = format!("{} #{seed} as {}", shape.name, format.name);
            cases.push(Case { name, file: (format.write)(&talk), talk });
        }
    }
    cases
}

fn mended(file: &str) -> Repaired {
    repair(&read(file.as_bytes(), Timestamp(1)).unwrap().messages, TranscriptOrigin::Foreign)
}

/// The adapters of all four wires, each with a model.
fn adapters(url: &str) -> Vec<(Box<dyn Provider>, ModelId)> {
    let (http, catalogue) = (Http::direct(&Limits::default()), Arc::new(Catalogue::embedded()));
    let variable = |name: &str| match name {
        "ANTHROPIC_BASE_URL" => Some(url.to_owned()),
        "OPENAI_BASE_URL" => Some(format!("{url}/v1")),
        "GOOGLE_GEMINI_BASE_URL" => Some(format!("{url}/v1beta")),
        "ANTHROPIC_API_KEY" | "OPENAI_API_KEY" | "GEMINI_API_KEY" => Some(KEY.to_owned()),
        _ => None,
    };
    let model = |name: &str| name.parse().unwrap();
    vec![
        (
            Box::new(Anthropic::usual(http.clone(), catalogue.clone(), variable).unwrap()),
            model("anthropic/claude-sonnet-4-5"),
        ),
        (Box::new(OpenAiResponses::usual(http.clone(), catalogue.clone(), variable).unwrap()), model("openai/gpt-5.1")),
        (Box::new(OpenAiChat::usual(http.clone(), catalogue, variable).unwrap()), model("openai/gpt-5-chat")),
        (Box::new(Gemini::usual(http, variable).unwrap()), model("google/gemini-2.5-flash")),
    ]
}

fn request(messages: &[Arc<Message>], model: &ModelId, target: &Target, effort: Option<Effort>) -> Request {
    let entries = prepare(messages.iter().map(|message| &**message), target);
    Request { effort, ..Request::new(model.clone(), target, entries) }.fit(target)
}

async fn server() -> UnderstudyServer {
    let options = UnderstudyOptions { log_len_max: 100_000, ..UnderstudyOptions::default() };
    UnderstudyServer::start(Understudy::company(Manner { pace: std::time::Duration::ZERO, seed: 1 }), options)
        .await
        .unwrap()
}

fn refused(requests: &[Logged]) -> Vec<&(u16, String)> {
    requests.iter().filter_map(|request| request.refused.as_ref()).collect()
}

/// I15: at least 200 broken sessions, and no request made of a mended one is refused on any wire, thinking or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_mended_session_is_taken_on_every_wire() {
    let (server, corpus) = (server().await, corpus());
    assert!(corpus.len() >= 200, "{}", corpus.len());
    let adapters = adapters(&server.url());
    for case in &corpus {
        let repaired = mended(&case.file);
        for (provider, model) in &adapters {
            let target = provider.facts(model.name()).target;
            for effort in [None, Some(Effort::High)] {
                let sent = provider.open(request(&repaired.messages, model, &target, effort)).await;
                let wire = target.wire;
                assert!(sent.is_ok(), "{} on {wire:?}: {:?}\n{}", case.name, sent.err(), case.file);
            }
        }
    }
    let requests = server.requests();
    assert!(refused(&requests).is_empty());
    assert_eq!(requests.len(), corpus.len() * 4 * 2);
    let cut = |request: &&Logged| {
        request.wire == WireFormat::Anthropic && request.body.to_string().contains(shapes::CUT_SIGNATURE)
    };
    assert_eq!(requests.iter().filter(cut).count(), 0, "what a signature was cut to is not sent");
}

/// Mending twice changes nothing, and what was broken is found.
#[test]
fn mending_twice_changes_nothing() {
    for case in corpus() {
        let once = mended(&case.file);
        let twice = repair(&once.messages, TranscriptOrigin::Foreign);
        assert_eq!(twice.findings, [], "{}", case.name);
        assert_eq!(twice.messages, once.messages, "{}", case.name);
        for (wire, changes) in PromptChanges::on_all_wires(once.messages.iter().map(|message| &**message)) {
            assert_eq!(changes.mended, [], "{} on {wire:?}: nothing is left for preparing to mend", case.name);
        }
        let shape = SHAPES.iter().find(|shape| case.name.starts_with(shape.name)).unwrap();
        let is_right = match shape.found {
            Found::Everywhere => !once.is_healthy(),
            Found::Somewhere => true,
            Found::Nowhere => once.is_healthy(),
        };
        assert!(is_right, "{}: {:?}\n{}", case.name, once.findings, case.file);
    }
}

/// Healthy sessions come through as they are.
#[test]
fn healthy_sessions_are_left_alone() {
    for seed in 0..100 {
        let talk = Talk::healthy(&mut Dice::new(seed));
        for format in FORMATS {
            let session = read((format.write)(&talk).as_bytes(), Timestamp(1)).unwrap();
            let repaired = repair(&session.messages, TranscriptOrigin::Foreign);
            assert_eq!(repaired.findings, [], "{} {seed}", format.name);
            let is_same = |(one, other): (&Arc<Message>, &Arc<Message>)| Arc::ptr_eq(one, other);
            assert!(repaired.messages.iter().zip(&session.messages).all(is_same));
            assert_eq!(repaired.messages.len(), session.messages.len());
        }
    }
}

/// The shapes are as broken as their names say: sent as they are, they are refused; healthy sessions are not.
#[tokio::test]
async fn an_unrepaired_corpus_is_refused() {
    let server = server().await;
    for case in corpus() {
        let shape = SHAPES.iter().find(|shape| case.name.starts_with(shape.name)).unwrap();
        if shape.is_refused {
            let status = post(&server, &formats::anthropic_messages(&case.talk)).await;
            assert_eq!(status, 400, "{}\n{}", case.name, case.file);
        }
    }
    let mut talk = Talk::healthy(&mut Dice::new(1));
    talk.say("And now?");
    assert_eq!(post(&server, &formats::anthropic_messages(&talk)).await, 200);
}

/// Sends messages as they are, and tells the status.
async fn post(server: &UnderstudyServer, messages: &Value) -> u16 {
    let tools = json!([{"name": "look", "input_schema": {"type": "object"}}]);
    let body = json!({"model": "persona", "max_tokens": 100, "messages": messages, "tools": tools}).to_string();
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nx-api-key: {KEY}\r\nanthropic-version: 2023-06-01\r\n\
         content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    std::str::from_utf8(&status[9..]).unwrap().parse().unwrap()
}
