//! The AI SDK's front over HTTP.

use std::time::Duration;

use everturn::stores::{Scope, TokenHash, Tokens as _};
use everturn_server::{ServerLimits, front_routes};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::ui::{Read, Ui, text_of, user};
use crate::stage::{Stage, answer};

const BASES: [&str; 2] = ["/ai/6/chat", "/ai/7/chat"];

async fn send(stage: &Stage, base: &str, body: Value) -> Ui {
    Ui::open(stage.ask(Method::POST, base).json(&body)).await
}

/// A new message to a chat with this agent.
fn says(chat: &str, agent: &str, message: &Value) -> Value {
    json!({"id": chat, "messages": [message], "trigger": "submit-message",
        "everturn": {"chat": {"agent": agent}}, "a-field-of-the-app": 1})
}

async fn load(stage: &Stage, base: &str, chat: &str) -> Vec<Value> {
    let (status, messages) = stage.get(&format!("{base}/{chat}/messages")).await;
    assert_eq!(status, StatusCode::OK, "{messages}");
    messages.as_array().unwrap().clone()
}

/// The turn under way; `None` for 204.
async fn resume(stage: &Stage, base: &str, chat: &str) -> Option<Ui> {
    let request = || stage.ask(Method::GET, &format!("{base}/{chat}/stream"));
    match request().send().await.unwrap().status() {
        StatusCode::NO_CONTENT => None,
        _ => {
            let response = request();
            Some(Ui::open(response).await)
        }
    }
}

async fn slow() -> Stage {
    Stage::with(ServerLimits::default(), Duration::from_millis(2)).await
}

/// The turns that a chat has had, by its user messages and replies in the native API.
async fn native(stage: &Stage, base: &str, name: &str) -> Vec<Value> {
    let (_, list) = stage.get("/v1/chats").await;
    let mut found = Vec::new();
    for chat in list["chats"].as_array().unwrap() {
        let path = format!("/v1/chats/{}", chat["id"].as_str().unwrap());
        let (_, page) = stage.get(&format!("{path}/messages")).await;
        found.push(page["messages"].as_array().unwrap().clone());
    }
    assert_eq!(found.len(), 1, "{base} {name} is one chat");
    found.remove(0)
}

/// FA01: the text that is streamed is that of the stored reply, and the messages that are loaded are those that a client
/// has which was never cut.
#[tokio::test]
async fn a_turn_is_streamed_as_it_is_stored() {
    for base in BASES {
        for (agent, words) in [("numbered", "count to 40"), ("default", "hello")] {
            let stage = Stage::new().await;
            let said = user("msg-1", words);
            let ui = send(&stage, base, says("chat-1", agent, &said)).await.whole().await;
            assert_eq!(ui.finish.as_deref(), Some("stop"));
            assert_eq!(load(&stage, base, "chat-1").await, [said, ui.message()], "{base} {agent}");
            let stored = native(&stage, base, "chat-1").await;
            let reply: String = stored[1]["parts"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|part| part["type"] == "text")
                .map(|part| part["text"].as_str().unwrap())
                .collect();
            assert_eq!(ui.text(), reply);
            assert!(resume(&stage, base, "chat-1").await.is_none(), "nothing runs");
            stage.server.stop().await;
        }
    }
}

/// FA02: the same request twice, at once and later, is one turn, and each stream has all of it.
#[tokio::test]
async fn the_same_request_is_one_turn() {
    for base in BASES {
        let stage = slow().await;
        let body = says("c", "numbered", &user("m", "count to 60"));
        let (one, other) = tokio::join!(async { send(&stage, base, body.clone()).await.whole().await }, async {
            send(&stage, base, body.clone()).await.whole().await
        },);
        let later = send(&stage, base, body.clone()).await.whole().await;
        assert_eq!((one.message(), later.message()), (other.message(), other.message()));
        assert_eq!(native(&stage, base, "c").await.len(), 2);
        let again = says("c", "numbered", &user("m", "count to 7"));
        let (status, why) = answer(stage.ask(Method::POST, base).json(&again).send().await.unwrap()).await;
        assert_eq!(status, StatusCode::CONFLICT, "{why}");
        assert!(why.is_string(), "a plain sentence: {why}");
        let (_, metrics) = stage.get("/metrics").await;
        let metrics = metrics.as_str().unwrap();
        // Of the two at once, the second is attached only if it came after the first was stored.
        let attached = |count| metrics.contains(&format!("everturn_front_attached_total{{front=\"ai-sdk\"}} {count}"));
        assert!(attached(1) || attached(2), "{metrics}");
        assert!(metrics.contains("everturn_front_requests_total{front=\"ai-sdk\"} 4"), "{metrics}");
        stage.server.stop().await;
    }
}

/// FA05, FA06: a client that reloads in any moment of a turn, also twice at once, ends with the messages of one that was
/// never cut, and loading never shows a part of the reply that resuming brings.
#[tokio::test]
async fn a_reload_in_any_moment_ends_alike() {
    for (number, base) in (0..24).zip(BASES.iter().cycle()) {
        let stage = slow().await;
        let said = user("m", "count to 30");
        let mut first = send(&stage, base, says("c", "numbered", &said)).await;
        for _ in 0..number {
            if first.next().await != Read::Chunk {
                break;
            }
        }
        drop(first); // The page is gone.
        let loaded = load(&stage, base, "c").await;
        let finals = match resume(&stage, base, "c").await {
            Some(ui) => {
                let second = resume(&stage, base, "c").await;
                let ui = ui.whole().await;
                if let Some(second) = second {
                    assert_eq!(second.whole().await.message(), ui.message());
                }
                let (kept, reply) = (loaded.iter().filter(|it| it["id"] != ui.message()["id"]), ui.message());
                kept.cloned().chain([reply]).collect()
            }
            None => load(&stage, base, "c").await,
        };
        let whole = send(&stage, base, says("c", "numbered", &said)).await.whole().await;
        assert_eq!(finals, [said, whole.message()], "cut after {number} chunks");
        stage.server.stop().await;
    }
}

/// FA07, FA08: closing the connection does not stop a turn; the stop route does, answers when the partial reply is stored,
/// and may be used by any client, twice, and when nothing runs.
#[tokio::test]
async fn closing_is_not_stopping() {
    for base in BASES {
        let stage = slow().await;
        let said = user("m", "count to 100000");
        let mut ui = send(&stage, base, says("c", "numbered", &said)).await;
        ui.until("text-delta").await;
        drop(ui);
        let mut watcher = resume(&stage, base, "c").await.expect("it goes on");
        watcher.until("text-delta").await;
        for _ in 0..3 {
            let stop = stage.post(&format!("{base}/c/stop"), json!({"activeStreamId": "x"})).await;
            assert_eq!(stop, (StatusCode::OK, json!({"success": true})));
        }
        let watcher = watcher.whole().await;
        let reason = if base.starts_with("/ai/7") { "interrupted" } else { "other" };
        assert_eq!((watcher.finish.as_deref(), &watcher.error), (Some(reason), &None));
        assert_eq!(load(&stage, base, "c").await, [said, watcher.message()]);
        assert!(resume(&stage, base, "c").await.is_none());
        let missing = stage.post(&format!("{base}/other/stop"), json!({})).await;
        assert_eq!(missing.0, StatusCode::NOT_FOUND);
        stage.server.stop().await;
    }
}

/// FA04: a server that shuts down, a token that is revoked and the end of a stream's hour break the stream: no client takes
/// the part for the whole.
#[tokio::test]
async fn a_stream_that_cannot_go_on_breaks() {
    let soon = Duration::from_millis(20);
    for base in BASES {
        let endless = says("c", "numbered", &user("m", "count to 100000"));
        let hour = ServerLimits { stream_time_max: soon, ..ServerLimits::default() };
        let stage = Stage::with(hour, Duration::from_millis(2)).await;
        let mut ui = send(&stage, base, endless.clone()).await;
        assert_eq!(ui.rest().await, Read::Broken, "the hour's end");
        let (_, metrics) = stage.get("/metrics").await;
        assert!(metrics.as_str().unwrap().contains("everturn_front_broken_streams_total{front=\"ai-sdk\"} 1"));
        stage.server.stop().await;

        let checked = ServerLimits { recheck: soon, ..ServerLimits::default() };
        let stage = Stage::with(checked, Duration::from_millis(2)).await;
        let secret = "evt_of-a-page-that-loses-its-token";
        stage.grant(secret, "me", &Scope::ALL).await;
        let request = stage.client.post(format!("{}{base}", stage.base)).bearer_auth(secret).json(&endless);
        let mut ui = Ui::open(request).await;
        ui.until("text-delta").await;
        stage.memory.revoke(&TokenHash::of(secret), stage.engine.now()).await.unwrap();
        assert_eq!(ui.rest().await, Read::Broken, "the token");

        let mut ui = resume(&stage, base, "c").await.expect("the turn goes on");
        ui.until("text-delta").await;
        let read = async {
            assert_eq!(ui.rest().await, Read::Broken, "the shutdown");
        };
        tokio::join!(stage.server.stop(), read);
    }
}

/// Deleting a chat breaks its streams too.
#[tokio::test]
async fn a_deleted_chat_breaks_its_streams() {
    let stage = slow().await;
    let mut ui = send(&stage, BASES[0], says("c", "numbered", &user("m", "count to 100000"))).await;
    ui.until("text-delta").await;
    let (_, list) = stage.get("/v1/chats").await;
    let path = format!("/v1/chats/{}", list["chats"][0]["id"].as_str().unwrap());
    assert_eq!(stage.ask(Method::DELETE, &path).send().await.unwrap().status(), StatusCode::NO_CONTENT);
    loop {
        match ui.next().await {
            Read::Chunk => {}
            Read::Broken => break,
            // The interrupt that comes before the deletion may end the turn in good order.
            Read::Clean => {
                assert!(ui.is_done);
                break;
            }
        }
    }
    let loaded = stage.get(&format!("{}/c/messages", BASES[0])).await;
    assert_eq!(loaded.0, StatusCode::NOT_FOUND, "the name is free again");
    stage.server.stop().await;
}

/// The assistant message of a client after it has answered a call.
fn answered(message: &Value, change: impl Fn(&mut Value)) -> Value {
    let mut message = message.clone();
    let parts = message["parts"].as_array_mut().unwrap();
    let is_open = |part: &&mut Value| part["state"] == "input-available" || part["state"] == "approval-requested";
    change(parts.iter_mut().rfind(is_open).expect("a call is open"));
    message
}

/// FA09, FA10: the result of a client's tool is stored once, the turn goes on in the same message, and a failure reaches the
/// model.
#[tokio::test]
async fn a_client_answers_its_tool() {
    for base in BASES {
        for (state, field, given) in [
            ("output-available", "output", json!({"lat": 1.5, "near": ["kelp"]})),
            ("output-available", "output", json!("in words")),
            ("output-error", "errorText", json!("no map today")),
        ] {
            let stage = Stage::new().await;
            let said = user("m", "Where is it? Show me the map.");
            let asked = send(&stage, base, says("c", "asks", &said)).await.whole().await;
            assert_eq!(asked.finish.as_deref(), Some("tool-calls"));
            let call = asked.parts.last().unwrap();
            assert_eq!((&call["type"], &call["state"]), (&json!("tool-map"), &json!("input-available")), "{call}");
            assert!(call.get("providerExecuted").is_none(), "the client runs it");
            assert_eq!(load(&stage, base, "c").await, [said.clone(), asked.message()], "an open call is loaded");
            assert!(resume(&stage, base, "c").await.is_none(), "it waits for the client");
            let mine = answered(&asked.message(), |part| {
                part["state"] = json!(state);
                part[field] = given.clone();
            });
            let body = json!({"id": "c", "messages": [said, mine], "trigger": "submit-message", "messageId": asked.id});
            let (one, other) =
                tokio::join!(async { send(&stage, base, body.clone()).await.on(&mine).whole().await }, async {
                    send(&stage, base, body.clone()).await.on(&mine).whole().await
                },);
            assert_eq!((one.id.as_ref(), one.error.as_ref()), (asked.id.as_ref(), None));
            let loaded = load(&stage, base, "c").await;
            assert_eq!(loaded, [said.clone(), one.message()]);
            assert_eq!(loaded, [said.clone(), other.message()]);
            let results = native(&stage, base, "c").await.iter().filter(|it| it["kind"] == "result").count();
            assert_eq!(results, 1);
            stage.server.stop().await;
        }
    }
}

/// FA11: an approval is for the call and the input that were shown; it counts once, and a denial reaches the model.
#[tokio::test]
async fn a_person_approves_or_denies_a_call() {
    for base in BASES {
        for approved in [true, false] {
            let stage = Stage::new().await;
            let said = user("m", "Launch it");
            let asked = send(&stage, base, says("c", "launches", &said)).await.whole().await;
            assert_eq!(asked.finish.as_deref(), Some("tool-calls"));
            let call = asked.parts.last().unwrap();
            assert_eq!((&call["type"], &call["state"]), (&json!("dynamic-tool"), &json!("approval-requested")));
            assert_eq!(load(&stage, base, "c").await, [said.clone(), asked.message()]);
            let respond = |change: fn(&mut Value)| {
                answered(&asked.message(), |part| {
                    part["state"] = json!("approval-responded");
                    part["approval"]["approved"] = json!(approved);
                    part["approval"]["reason"] = json!("because");
                    change(part);
                })
            };
            let body = |mine: &Value| json!({"id": "c", "messages": [mine], "trigger": "submit-message"});
            for changed in [
                respond(|part| part["input"] = json!({"target": "elsewhere"})),
                respond(|part| part["approval"]["id"] = json!("1.0-0000000000000000")),
            ] {
                let (status, why) =
                    answer(stage.ask(Method::POST, base).json(&body(&changed)).send().await.unwrap()).await;
                assert_eq!(status, StatusCode::CONFLICT, "{why}");
            }
            let mine = respond(|_| {});
            let first = send(&stage, base, body(&mine)).await.on(&mine).whole().await;
            let again = send(&stage, base, body(&mine)).await.on(&mine).whole().await;
            assert_eq!(first.message(), again.message(), "answered twice is answered once");
            let state = if approved { "output-available" } else { "output-denied" };
            let part = first.parts.iter().find(|part| part["toolCallId"] == call["toolCallId"]).unwrap();
            assert_eq!(part["state"], state);
            let texts = text_of(&load(&stage, base, "c").await[1]);
            assert_eq!(first.text(), texts);
            stage.server.stop().await;
        }
    }
}

/// An approval needs the scope `approve`, as in the native API.
#[tokio::test]
async fn approving_needs_its_scope() {
    let stage = Stage::new().await;
    let secret = "evt_of-a-page-that-may-not-approve";
    stage.grant(secret, "me", &[Scope::Chat, Scope::Read]).await;
    let asked = send(&stage, BASES[0], says("c", "launches", &user("m", "Launch it"))).await.whole().await;
    let mine = answered(&asked.message(), |part| {
        part["state"] = json!("approval-responded");
        part["approval"]["approved"] = json!(true);
    });
    let body = json!({"id": "c", "messages": [mine]});
    let request = stage.client.post(format!("{}{}", stage.base, BASES[0])).bearer_auth(secret).json(&body);
    assert_eq!(request.send().await.unwrap().status(), StatusCode::FORBIDDEN);
    stage.server.stop().await;
}

/// FA14: an edit and a regeneration rewind the chat here; a client is equal after a reload, and keeps its ids.
#[tokio::test]
async fn edits_and_regenerations_rewind() {
    for base in BASES {
        let stage = Stage::new().await;
        let (one, two) = (user("m1", "count to 3"), user("m2", "count to 4"));
        let first = send(&stage, base, says("c", "numbered", &one)).await.whole().await;
        send(&stage, base, says("c", "numbered", &two)).await.whole().await;
        assert_eq!(load(&stage, base, "c").await.len(), 4);
        let again = json!({"id": "c", "messages": [one], "trigger": "regenerate-message", "messageId": first.id});
        let again = send(&stage, base, again).await.whole().await;
        assert_eq!(again.text(), "t1 t2 t3");
        assert_eq!(load(&stage, base, "c").await, [one.clone(), again.message()], "what was behind is gone");
        let last = json!({"id": "c", "trigger": "regenerate-message"});
        let last = send(&stage, base, last).await.whole().await;
        assert_eq!(load(&stage, base, "c").await, [one.clone(), last.message()]);
        let edited = user("m1", "count to 5");
        let body = json!({"id": "c", "messages": [edited], "trigger": "submit-message", "messageId": "m1"});
        let ui = send(&stage, base, body.clone()).await.whole().await;
        assert_eq!(ui.text(), "t1 t2 t3 t4 t5");
        assert_eq!(load(&stage, base, "c").await, [edited.clone(), ui.message()]);
        let repeat = send(&stage, base, body).await.whole().await;
        assert_eq!(repeat.message(), ui.message(), "a repeat of the edit is the same turn");
        let back = json!({"id": "c", "messages": [one], "trigger": "submit-message", "messageId": "m1"});
        let back = send(&stage, base, back).await.whole().await;
        assert_eq!(load(&stage, base, "c").await, [one, back.message()], "and back to the first words");
        stage.server.stop().await;
    }
}

/// A message for a busy chat is accepted; its stream stays open and tells its own turn.
#[tokio::test]
async fn a_queued_message_is_told_its_own_turn() {
    for base in BASES {
        let stage = slow().await;
        let mut first = send(&stage, base, says("c", "numbered", &user("m1", "count to 50"))).await;
        first.until("text-delta").await;
        let second = send(&stage, base, says("c", "numbered", &user("m2", "count to 3"))).await;
        let (first, second) = tokio::join!(first.whole(), second.whole());
        assert_eq!(second.text(), "t1 t2 t3");
        assert_ne!(first.id, second.id);
        let loaded = load(&stage, base, "c").await;
        let ids: Vec<&str> = loaded.iter().map(|message| message["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["m1", first.id.as_deref().unwrap(), "m2", second.id.as_deref().unwrap()]);
        stage.server.stop().await;
    }
}

/// FA16: a failed turn is told with what to tell people, and another message works.
#[tokio::test]
async fn a_failed_turn_is_an_error() {
    let stage = Stage::new().await;
    let ui = send(&stage, BASES[0], says("c", "fails", &user("m", "hello"))).await.whole().await;
    assert!(ui.error.as_ref().is_some_and(|why| !why.is_empty()) && ui.finish.is_none());
    let again = send(&stage, BASES[0], says("c", "fails", &user("m2", "hello"))).await.whole().await;
    assert!(again.error.is_some());
    stage.server.stop().await;
}

/// A chat of the native API is opened under its own id, and files come back as they were sent.
#[tokio::test]
async fn a_native_chat_can_be_opened() {
    let stage = Stage::new().await;
    let chat = stage.talk("numbered", &["count to 3"]).await;
    let id = chat.rsplit('/').next().unwrap();
    let loaded = load(&stage, BASES[0], id).await;
    assert_eq!((loaded.len(), text_of(&loaded[1]).as_str()), (2, "t1 t2 t3"));
    assert_eq!(loaded[0]["id"], "m1");
    let picture = json!({"type": "file", "mediaType": "image/png", "filename": "dot.png", "url": "data:image/png;base64,iVBORw0KGgo="});
    let said = json!({"id": "m-x", "role": "user", "parts": [picture, {"type": "text", "text": "count to 2"}]});
    let ui = send(&stage, BASES[0], json!({"id": id, "message": said})).await.whole().await;
    assert_eq!(load(&stage, BASES[0], id).await[2..], [said, ui.message()]);
    stage.server.stop().await;
}

/// Requests that mean nothing are refused with a sentence.
#[tokio::test]
async fn bad_requests_are_told_in_a_sentence() {
    let stage = Stage::new().await;
    let odd = json!({"id": "m", "role": "user", "parts": [{"type": "tool-x"}]});
    let far = json!({"id": "m", "role": "user", "parts": [{"type": "file", "url": "https://example.com/a.png"}]});
    for (body, status) in [
        (json!({}), 422),
        (json!({"id": "c"}), 422),
        (json!({"id": "a b", "messages": [user("m", "x")]}), 422),
        (json!({"id": "c", "messages": [user("", "x")]}), 422),
        (json!({"id": "c", "messages": [user("m", "")]}), 422),
        (json!({"id": "c", "messages": [odd]}), 422),
        (json!({"id": "c", "messages": [far]}), 422),
        (json!({"id": "c", "messages": [user("m", "x")], "everturn": {"agent": "x"}}), 422),
        (json!({"id": "c", "messages": [user("m", "x")], "everturn": {"chat": {"agent": "none"}}}), 422),
        (json!({"id": "c2", "trigger": "regenerate-message"}), 404),
    ] {
        let (got, why) = answer(stage.ask(Method::POST, BASES[0]).json(&body).send().await.unwrap()).await;
        assert_eq!((got.as_u16(), why.is_string()), (status, true), "{body}: {why}");
    }
    stage.server.stop().await;
}

/// Every route of the front × every token × own and foreign chats: nothing answers without a token, scopes are those of
/// the native API, and a chat of another owner looks like one that does not exist.
#[tokio::test]
async fn every_route_asks_for_its_scope() {
    let stage = Stage::new().await;
    let secret = |name: &str| format!("evt_front-matrix-{name}");
    for scope in Scope::ALL {
        stage.grant(&secret(scope.name()), "me", &[scope]).await;
    }
    stage.grant(&secret("other"), "you", &Scope::ALL).await;
    let whole = send(&stage, BASES[0], says("mine", "numbered", &user("m", "count to 2"))).await.whole().await;
    let routes: Vec<_> = front_routes().into_iter().filter(|(_, path)| path.starts_with("/ai/")).collect();
    assert_eq!(routes.len(), 8);
    for (method, path) in routes {
        let ask = async |token: Option<&str>| {
            let url = format!("{}{}", stage.base, path.replace("{id}", "mine"));
            let mut request = stage.client.request(method.clone(), url);
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            if method == Method::POST {
                request = request.json(&json!({"id": "mine", "trigger": "regenerate-message"}));
            }
            request.send().await.unwrap()
        };
        assert_eq!(ask(None).await.status(), StatusCode::UNAUTHORIZED, "{method} {path}");
        for scope in Scope::ALL {
            let allowed = match (method.as_str(), path.ends_with("/stop")) {
                ("GET", _) => scope == Scope::Read,
                ("POST", true) => scope == Scope::Chat,
                _ => false, // A turn is begun with `chat`, and streamed with `read`: both are needed.
            };
            let refused = ask(Some(&secret(scope.name()))).await.status() == StatusCode::FORBIDDEN;
            assert_eq!(refused, !allowed, "{method} {path} with {scope:?}");
        }
        let response = ask(Some(&secret("other"))).await;
        let (status, body) = answer(response).await;
        let expected = match (method.as_str(), path.rsplit('/').next().unwrap()) {
            ("GET", "stream") => (StatusCode::NO_CONTENT, json!("")),
            _ => (StatusCode::NOT_FOUND, json!("It does not exist, or it belongs to another owner.")),
        };
        assert_eq!((status, body), expected, "{method} {path}");
    }
    assert_eq!(load(&stage, BASES[0], "mine").await[1], whole.message());
    let theirs = says("mine", "numbered", &user("m", "count to 3"));
    let request = stage.client.post(format!("{}{}", stage.base, BASES[0])).bearer_auth(secret("other"));
    let theirs = Ui::open(request.json(&theirs)).await.whole().await;
    assert_eq!(theirs.text(), "t1 t2 t3", "one name of two owners is two chats");
    let chat = answer(stage.ask(Method::GET, "/v1/chats").send().await.unwrap()).await.1;
    let id = chat["chats"][0]["id"].as_str().unwrap().to_owned();
    let by_id = stage.client.get(format!("{}{}/{id}/messages", stage.base, BASES[0])).bearer_auth(secret("other"));
    assert_eq!(by_id.send().await.unwrap().status(), StatusCode::NOT_FOUND, "nor by the native id");
    stage.server.stop().await;
}

/// FA20: an unknown chat is 204 for a client that wants to resume and 404 for one that loads; ids may have any visible
/// characters, percent-encoded.
#[tokio::test]
async fn ids_are_those_of_the_client() {
    let stage = Stage::new().await;
    assert!(resume(&stage, BASES[0], "unknown").await.is_none());
    assert_eq!(stage.get("/ai/6/chat/unknown/messages").await.0, StatusCode::NOT_FOUND);
    for (id, encoded) in [("a/b?c", "a%2Fb%3Fc"), ("Käse-日本", "K%C3%A4se-%E6%97%A5%E6%9C%AC"), ("..a", "..a")] {
        let said = user("m", "count to 3");
        let ui = send(&stage, BASES[0], says(id, "numbered", &said)).await.whole().await;
        assert_eq!(load(&stage, BASES[0], encoded).await, [said, ui.message()], "{id}");
        assert!(resume(&stage, BASES[0], encoded).await.is_none());
    }
    for encoded in ["a%20b", "%00", "%ff", &"x".repeat(200)] {
        assert_eq!(stage.get(&format!("/ai/6/chat/{encoded}/stream")).await.0, StatusCode::NOT_FOUND, "{encoded}");
    }
    stage.server.stop().await;
}
