//! Creating, finding and renaming chats, and sending messages to them.

use std::sync::atomic::Ordering;

use everturn_server::wire::{Status, View};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::reader::reply;
use crate::stage::{Stage, kind};

/// The whole path: create a chat, send a message, see the answer grow, find it in the transcript.
#[tokio::test]
async fn a_chat_is_made_spoken_to_and_answers() {
    let stage = Stage::new().await;
    let chat = stage.chat("default").await;
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, "What are you?").await;
    let view = reader.until_rest().await;
    assert!(reply(&view).contains("What are you?"), "{view:?}");
    assert_eq!(view, stage.view(&chat).await);
    let (status, page) = stage.get(&format!("{chat}/messages")).await;
    assert_eq!((status, page["messages"].as_array().unwrap().len()), (StatusCode::OK, 2));
    assert_eq!(page["messages"], serde_json::to_value(&view.messages).unwrap());
    let (_, now) = stage.get(&chat).await;
    assert_eq!((&now["status"], &now["title"]), (&json!("idle"), &json!("What are you?")));
    stage.server.stop().await;
}

/// Lists show the owner's chats in pages, newest first; they filter by title, and keep archived chats apart.
#[tokio::test]
async fn chats_are_listed_by_pages() {
    let stage = Stage::new().await;
    let mut made = Vec::new();
    for i in 0..5 {
        let (_, chat) = stage.post("/v1/chats", json!({"title": format!("Kelp {i}")})).await;
        made.push(chat["id"].as_str().unwrap().to_owned());
    }
    let (mut seen, mut path) = (Vec::new(), "/v1/chats?limit=2&text=kelp".to_owned());
    loop {
        let (status, page) = stage.get(&path).await;
        assert_eq!(status, StatusCode::OK);
        seen.extend(page["chats"].as_array().unwrap().iter().map(|chat| chat["id"].as_str().unwrap().to_owned()));
        let Some(after) = page["after"].as_str() else { break };
        path = format!("/v1/chats?limit=2&text=kelp&after={after}");
    }
    seen.sort();
    made.sort();
    assert_eq!(seen, made);
    let path = format!("/v1/chats/{}", made[0]);
    let (status, away) = stage.send(Method::PATCH, &path, json!({"archived": true, "title": "Away"})).await;
    assert_eq!((status, &away["archived"], &away["title"]), (StatusCode::OK, &json!(true), &json!("Away")));
    let count = async |path: &str| stage.get(path).await.1["chats"].as_array().unwrap().len();
    assert_eq!(count("/v1/chats?archived=true").await, 1);
    assert_eq!(count("/v1/chats?archived=false").await, 4);
    let (status, back) = stage.send(Method::PATCH, &path, json!({"archived": false, "title": "Back"})).await;
    assert_eq!((status, &back["archived"], &back["title"]), (StatusCode::OK, &json!(false), &json!("Back")));
    stage.server.stop().await;
}

/// A message to an archived chat is refused; the problem has the chat's status.
#[tokio::test]
async fn an_archived_chat_refuses_messages_and_says_so() {
    let stage = Stage::new().await;
    let chat = stage.chat("default").await;
    stage.send(Method::PATCH, &chat, json!({"archived": true})).await;
    let (status, problem) = stage.post(&format!("{chat}/messages"), json!({"text": "Hello?"})).await;
    assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "archived"));
    assert_eq!(problem["chat"]["archived"], json!(true));
    stage.server.stop().await;
}

/// Pages of messages go back to the beginning without a gap.
#[tokio::test]
async fn messages_are_read_by_pages() {
    let stage = Stage::new().await;
    let chat = stage.chat("numbered").await;
    let mut reader = stage.watch(&chat).await;
    for turn in 1..=3 {
        stage.say(&chat, "count to 2").await;
        reader.until(|view| view.messages.len() == 2 * turn).await;
    }
    assert_eq!(pages(&stage, &format!("{chat}/messages?limit=4")).await, [vec![3, 4, 5, 6], vec![1, 2]]);
    stage.server.stop().await;
}

/// The numbers of the messages on each page, newest page first.
async fn pages(stage: &Stage, path: &str) -> Vec<Vec<u64>> {
    let (mut pages, mut at) = (Vec::new(), path.to_owned());
    loop {
        let (_, page) = stage.get(&at).await;
        let messages = page["messages"].as_array().unwrap().iter();
        pages.push(messages.map(|message| message["id"].as_u64().unwrap()).collect());
        let Some(before) = page["before"].as_u64() else { return pages };
        at = format!("{path}&before={before}");
    }
}

/// A page that is short because its messages are long is not mistaken for the last page.
#[tokio::test]
async fn long_messages_are_read_by_short_pages() {
    let stage = Stage::new().await;
    let chat = stage.chat("fails").await;
    let mut reader = stage.watch(&chat).await;
    for said in 1..=5 {
        stage.say(&chat, &"x".repeat(1_000_000)).await;
        let failed = |view: &View| view.status.as_ref().is_some_and(|standing| standing.status == Status::Failed);
        reader.until(|view| view.messages.len() == said && failed(view)).await;
    }
    assert_eq!(pages(&stage, &format!("{chat}/messages?limit=200")).await, [vec![2, 3, 4, 5], vec![1]]);
    stage.server.stop().await;
}

/// An invalid request is refused with the field's name, and stores nothing.
#[tokio::test]
async fn invalid_fields_are_refused_by_name() {
    let stage = Stage::new().await;
    let chat = stage.chat("default").await;
    let messages = format!("{chat}/messages");
    let unprocessable = [
        (Method::POST, "/v1/chats", json!({"agent": "nobody"})),
        (Method::POST, "/v1/chats", json!({"owner": "somebody else"})),
        (Method::POST, "/v1/chats", json!({"title": "  "})),
        (Method::POST, &messages, json!({})),
        (Method::POST, &messages, json!({"text": "  "})),
        (Method::POST, &messages, json!({"text": 7})),
        (Method::POST, &messages, json!({"text": "x", "when": "later"})),
        (Method::POST, &messages, json!({"parts": [{"type": "file", "media_type": "image/png", "data": "?"}]})),
        (Method::POST, &messages, json!({"parts": [{"type": "file", "media_type": "png", "data": ""}]})),
        (Method::PATCH, &chat, json!({"archived": "yes"})),
    ];
    for (method, path, body) in unprocessable {
        let (status, problem) = stage.send(method, path, body.clone()).await;
        assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{path} {body}");
    }
    for path in
        ["/v1/chats?limit=-1", "/v1/chats?after=nowhere", "/v1/chats?owner=you", &format!("{messages}?before=x")]
    {
        let (status, problem) = stage.get(path).await;
        assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{path}");
    }
    let parts = vec![json!({"type": "text", "text": "x"}); 1_001];
    for (body, bound) in [
        (json!({"text": "x".repeat(1024 * 1024 + 1)}), "1048576 bytes"),
        (json!({"parts": parts}), "1000 parts"),
        (json!({"parts": vec![1; 20_000]}), "20000 JSON values"),
        (json!({"text": "x".repeat(28 * 1024 * 1024)}), "29360128 bytes"),
    ] {
        let (status, problem) = stage.post(&messages, body).await;
        assert_eq!((status, kind(&problem)), (StatusCode::PAYLOAD_TOO_LARGE, "too-long"));
        assert!(problem["detail"].as_str().unwrap().contains(bound), "{problem} names {bound}");
    }
    assert_eq!(stage.view(&chat).await.messages, []);
    stage.server.stop().await;
}

/// The transcript describes files without their bytes; those are read apart, served as a download, not to run.
#[tokio::test]
async fn files_are_kept_and_described() {
    let stage = Stage::new().await;
    let chat = stage.chat("default").await;
    let mut reader = stage.watch(&chat).await;
    let file = json!({"type": "file", "name": "dot.png", "media_type": "image/png", "data": "iVBORw0KGgo="});
    let (status, _) = stage.post(&format!("{chat}/messages"), json!({"text": "Look:", "parts": [file]})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    reader.until_rest().await;
    let (_, page) = stage.get(&format!("{chat}/messages")).await;
    let shown = json!({"type": "file", "name": "dot.png", "media_type": "image/png", "size": 8});
    assert_eq!(page["messages"][0]["parts"][1], shown);
    let file = async |path: &str| stage.ask(Method::GET, &format!("{chat}/messages/{path}")).send().await.unwrap();
    let response = file("1/files/1").await;
    assert_eq!(response.headers()["content-type"], "image/png");
    assert_eq!(response.headers()["content-disposition"], "attachment");
    assert_eq!(response.headers()["content-security-policy"], "sandbox; default-src 'none'");
    assert_eq!(&response.bytes().await.unwrap()[..], b"\x89PNG\r\n\x1a\n");
    for path in ["1/files/0", "1/files/2", "2/files/0", "9/files/0", "1/files/x", "0/files/0"] {
        assert_eq!(file(path).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
    stage.server.stop().await;
}

/// Any text comes back as it was sent, whatever it holds, and events stay one line.
#[tokio::test]
async fn odd_text_comes_back_as_it_was() {
    let stage = Stage::new().await;
    let odd = "a\u{0}b\u{2028}c\r\ndata: d\n\nevent: reset\n\u{feff}\u{1f600}\u{202e}";
    let chat = stage.chat("default").await;
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, odd).await;
    reader.until_rest().await;
    let (_, page) = stage.get(&format!("{chat}/messages")).await;
    assert_eq!(page["messages"][0]["parts"][0]["text"], odd);
    // One half of a surrogate pair is not text.
    let half = stage.ask(Method::POST, &format!("{chat}/messages")).header("content-type", "application/json");
    let half = half.body(r#"{"text": "\ud83d"}"#).send().await.unwrap();
    assert_eq!(half.status(), StatusCode::UNPROCESSABLE_ENTITY);
    stage.server.stop().await;
}

/// The OpenAPI document, the models and the metrics are served to tokens with the scope for them.
#[tokio::test]
async fn the_server_describes_itself() {
    let stage = Stage::new().await;
    let (_, document) = stage.get("/openapi.json").await;
    assert_eq!(document["openapi"], "3.1.0");
    let (_, models) = stage.get("/v1/models").await;
    let names: Vec<&Value> = models["models"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(names, ["understudy/extra", "understudy/numbered", "understudy/persona"]);
    let (_, ready) = stage.get("/readyz").await;
    assert_eq!(ready, "ready\n");
    let (_, metrics) = stage.get("/metrics").await;
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains(r#"everturn_http_requests_total{method="GET",route="/v1/models",status="200"} 1"#));
    assert!(metrics.contains("everturn_drivers"), "the engine's are there too");
    for (accept, content_type, counter) in [
        ("text/plain", "text/plain; version=0.0.4; charset=utf-8", "# TYPE everturn_http_requests_total counter"),
        (
            "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.5",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "# TYPE everturn_http_requests counter",
        ),
    ] {
        let answer = stage.ask(Method::GET, "/metrics").header("accept", accept).send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], content_type);
        let text = answer.text().await.unwrap();
        assert!(text.lines().any(|line| line == counter), "{text}");
        assert_eq!(text.ends_with("# EOF\n"), content_type.starts_with("application"), "{text}");
    }
    stage.server.stop().await;
}

/// A server whose store cannot write is alive and not ready, until it can.
#[tokio::test]
async fn a_server_that_cannot_write_is_not_ready() {
    let (stage, store) = Stage::sluggish(everturn_server::ServerLimits::default()).await;
    let probe = async |path: &str| stage.client.get(format!("{}{path}", stage.base)).send().await.unwrap().status();
    assert_eq!(probe("/readyz").await, StatusCode::OK);
    store.is_broken.store(true, Ordering::SeqCst);
    assert_eq!(probe("/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(probe("/healthz").await, StatusCode::OK);
    store.is_broken.store(false, Ordering::SeqCst);
    assert_eq!(probe("/readyz").await, StatusCode::OK);
    stage.server.stop().await;
}

/// Chats are found by their titles, and by all words of one message, whole.
#[tokio::test]
async fn chats_are_found_by_what_was_said() {
    let stage = Stage::new().await;
    let one = stage.talk("numbered", &["count to 3", "count to 4 Kelp, please"]).await;
    stage.talk("numbered", &["count to 2"]).await;
    let found = async |text: &str| -> Vec<String> {
        let (status, page) = stage.get(&format!("/v1/chats?text={}", text.replace(' ', "%20"))).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        page["chats"]
            .as_array()
            .unwrap()
            .iter()
            .map(|chat| format!("/v1/chats/{}", chat["id"].as_str().unwrap()))
            .collect()
    };
    for text in ["kelp", "PLEASE kelp", "T4", "count to 3"] {
        assert_eq!(found(text).await, vec![one.clone()], "{text}");
    }
    assert_eq!(found("t2").await.len(), 2, "what the model said");
    assert_eq!(found("kel").await, Vec::<String>::new());
    let (status, problem) = stage.get(&format!("/v1/chats?text={}", "x".repeat(401))).await;
    assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"));
    stage.server.stop().await;
}

/// A search covers the titles and messages of the owner's chats only.
#[tokio::test]
async fn a_search_finds_nothing_of_other_owners() {
    let stage = Stage::new().await;
    let other = "evt_of-somebody-else-who-likes-kelp-too";
    stage.grant(other, "you", &everturn::stores::Scope::ALL).await;
    let mine = stage.talk("numbered", &["count to 2 in the kelp forest"]).await;
    let theirs = async |method: Method, path: &str, body: Value| {
        let request = stage.client.request(method, format!("{}{path}", stage.base)).bearer_auth(other).json(&body);
        crate::stage::answer(request.send().await.unwrap()).await.1
    };
    let made = theirs(Method::POST, "/v1/chats", json!({"agent": "numbered", "title": "Kelp of theirs"})).await;
    let said = format!("/v1/chats/{}/messages", made["id"].as_str().unwrap());
    theirs(Method::POST, &said, json!({"text": "count to 2 in the kelp forest"})).await;
    for text in ["kelp", "forest", "KELP forest", "t2"] {
        let path = format!("/v1/chats?text={}", text.replace(' ', "%20"));
        let (_, found) = stage.get(&path).await;
        let ids: Vec<String> = found["chats"]
            .as_array()
            .unwrap()
            .iter()
            .map(|chat| format!("/v1/chats/{}", chat["id"].as_str().unwrap()))
            .collect();
        assert_eq!(ids, std::slice::from_ref(&mine), "{text}");
    }
    let (_, none) = stage.get("/v1/chats?text=theirs").await;
    assert_eq!(none["chats"], json!([]));
    stage.server.stop().await;
}

/// A chat can have its own instructions, client tools and metadata: they are shown, used, copied by forks, and bounded.
#[tokio::test]
async fn a_chat_brings_its_own_tools_and_instructions() {
    let stage = Stage::new().await;
    let input = json!({"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]});
    let tools = json!([{"name": "map", "description": "Shows a map.", "input": input}]);
    let own = json!({"instructions": "Speak of kelp.", "tools": tools, "metadata": {"project": "kelp"}});
    let (status, made) = stage.post("/v1/chats", own.clone()).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let chat = format!("/v1/chats/{}", made["id"].as_str().unwrap());
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, "Show me Oslo").await;
    let view = reader.until(|view| view.status.as_ref().is_some_and(|standing| !standing.asks.is_empty())).await;
    let ask = &view.status.as_ref().unwrap().asks[0];
    assert_eq!(ask.tool, "map");
    let answers = json!({"answers": [{"kind": "result", "call": ask.call, "output": "a map of Oslo"}]});
    stage.post(&format!("{chat}/answers"), answers).await;
    assert!(reply(&reader.until_rest().await).contains("a map of Oslo"));
    let (_, fork) = stage.post(&format!("{chat}/fork"), json!({"at": 1})).await;
    let (_, now) = stage.get(&chat).await;
    let (_, plain) = stage.post("/v1/chats", json!({})).await;
    for name in ["instructions", "tools", "metadata"] {
        assert_eq!((&now[name], &fork[name], &plain[name]), (&own[name], &own[name], &Value::Null), "{name}");
    }
    for (body, said) in [
        (json!({"instructions": "x".repeat(20_000)}), "`instructions` has 20000 bytes"),
        (json!({"tools": [{"name": "a b"}]}), "`a b`"),
        (json!({"tools": [{"name": "a", "input": 7}]}), "not a JSON schema"),
        (json!({"tools": [{"name": "a"}, {"name": "a"}]}), "two tools"),
        (json!({"agent": "asks", "tools": [{"name": "map"}]}), "the agent has a tool of that name"),
        (json!({"metadata": {"k": "v".repeat(600)}}), "600 bytes at `k`"),
        (json!({"metadata": {"k": 7}}), "expected a string"),
        (json!({"tools": [{"name": "a", "inputs": {}}]}), "inputs"),
    ] {
        let (status, problem) = stage.post("/v1/chats", body).await;
        assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(said), "{problem}");
    }
    stage.server.stop().await;
}
