//! Queue, steer, interrupt, answer, edit, summarise.

use std::time::Duration;

use everturn::stores::Store as _;
use everturn_server::ServerLimits;
use everturn_server::wire::{Body, Ended, Status, View};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::reader::{Reader, reply};
use crate::stage::{Stage, kind};

/// A server with slow answers, a chat in the middle of a long one, and a reader of its stream.
async fn busy() -> (Stage, String, Reader) {
    let stage = Stage::with(ServerLimits::default(), Duration::from_millis(2)).await;
    let chat = stage.chat("numbered").await;
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, "count to 5000").await;
    reader.until(|view| view.draft.as_ref().is_some_and(|draft| draft.n > 20)).await;
    (stage, chat, reader)
}

fn status(view: &View) -> Option<Status> {
    view.status.as_ref().map(|status| status.status)
}

/// An interrupt is answered when the shown part of the answer is stored, and every stream shows the same.
#[tokio::test]
async fn an_interrupt_returns_after_the_partial_answer_is_stored() {
    let (stage, chat, mut reader) = busy().await;
    let (code, now) = stage.post(&format!("{chat}/interrupt"), json!({})).await;
    assert_eq!((code, &now["status"], &now["ended"]["how"]), (StatusCode::OK, &json!("idle"), &json!("interrupted")));
    let (_, page) = stage.get(&format!("{chat}/messages")).await;
    let kept = &page["messages"][1];
    assert_eq!(kept["stop"]["why"], "interrupted");
    let view = reader.until_rest().await;
    assert!(reply(&view).starts_with("t1 t2 t3 "));
    assert_eq!(view, stage.view(&chat).await);
    // An interrupt of an idle chat changes nothing.
    let (code, again) = stage.post(&format!("{chat}/interrupt"), json!({})).await;
    assert_eq!((code, &again["version"]), (StatusCode::OK, &now["version"]));
    stage.server.stop().await;
}

/// Messages for a busy chat wait in order, can be deleted and promoted, and are answered once.
#[tokio::test]
async fn queued_messages_are_listed_deleted_promoted_and_answered_once() {
    let (stage, chat, mut reader) = busy().await;
    let first = stage.say(&chat, "count to 1").await;
    let second = stage.say(&chat, "count to 2").await;
    let third = stage.say(&chat, "count to 3").await;
    reader.until(|view| view.status.as_ref().is_some_and(|status| status.queue.len() == 3)).await;
    let (_, queue) = stage.get(&format!("{chat}/queue")).await;
    let ids: Vec<&Value> = queue.as_array().unwrap().iter().map(|queued| &queued["id"]).collect();
    assert_eq!(ids, [&json!(first), &json!(second), &json!(third)]);

    let (code, _) = stage.send(Method::DELETE, &format!("{chat}/queue/{first}"), Value::Null).await;
    assert_eq!(code, StatusCode::OK);
    let (code, problem) = stage.send(Method::DELETE, &format!("{chat}/queue/{first}"), Value::Null).await;
    assert_eq!((code, kind(&problem)), (StatusCode::NOT_FOUND, "not-found"));
    assert_eq!(problem["chat"]["queue"].as_array().unwrap().len(), 2);
    let (code, _) = stage.post(&format!("{chat}/queue/{third}/promote"), json!({})).await;
    assert_eq!(code, StatusCode::OK);
    stage.post(&format!("{chat}/interrupt"), json!({})).await;
    let view = reader.until_rest().await;
    let said: Vec<String> = view
        .messages
        .iter()
        .filter_map(|message| match &message.body {
            Body::User { parts, .. } => {
                Some(serde_json::to_value(parts).unwrap()[0]["text"].as_str().unwrap().to_owned())
            }
            _ => None,
        })
        .collect();
    assert_eq!(said, ["count to 5000", "count to 3", "count to 2"]);
    assert_eq!(view, stage.view(&chat).await);
    stage.server.stop().await;
}

/// A message sent with `now` interrupts first, and the shown part of the answer is kept.
#[tokio::test]
async fn sending_now_interrupts_first() {
    let (stage, chat, mut reader) = busy().await;
    let (code, _) = stage.post(&format!("{chat}/messages"), json!({"text": "count to 2", "when": "now"})).await;
    assert_eq!(code, StatusCode::ACCEPTED);
    let view = reader.until(|view| view.messages.len() == 4 && status(view) == Some(Status::Idle)).await;
    assert_eq!(reply(&view), "t1 t2");
    stage.server.stop().await;
}

/// The queue of a busy chat is limited; a message above the limit gets Retry-After.
#[tokio::test]
async fn a_full_queue_says_so_and_when_to_come_back() {
    let (stage, chat, _reader) = busy().await;
    for _ in 0..20 {
        stage.say(&chat, "more").await;
    }
    let request = stage.ask(Method::POST, &format!("{chat}/messages")).json(&json!({"text": "more"}));
    let response = request.send().await.unwrap();
    assert_eq!(
        (response.status(), response.headers()["retry-after"].to_str().unwrap()),
        (StatusCode::TOO_MANY_REQUESTS, "1")
    );
    stage.server.stop().await;
}

/// A client runs its tool and sends the result; a second result, or one for no open call, is refused.
#[tokio::test]
async fn a_client_answers_the_calls_of_its_tools() {
    let stage = Stage::new().await;
    let chat = stage.chat("asks").await;
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, "Show me Oslo").await;
    let view = reader.until(|view| status(view) == Some(Status::Awaiting)).await;
    let ask = view.status.unwrap().asks[0].clone();
    assert_eq!((ask.tool.as_str(), serde_json::to_value(ask.wants).unwrap()), ("map", json!("result")));
    let answers = format!("{chat}/answers");
    let result = |call: &str| json!({"answers": [{"kind": "result", "call": call, "output": "a map of Oslo"}]});
    for (call, code, name) in
        [("99.0", StatusCode::CONFLICT, "not-asked"), ("x", StatusCode::UNPROCESSABLE_ENTITY, "invalid")]
    {
        let (status, problem) = stage.post(&answers, result(call)).await;
        assert_eq!((status, kind(&problem)), (code, name));
    }
    assert_eq!(ask.input.as_deref(), Some(r#"{"of":"Show me Oslo"}"#), "what is asked about");
    let approval = json!({"answers": [{"kind": "approve", "call": ask.call, "input_hash": ask.input_hash}]});
    let (code, problem) = stage.post(&answers, approval).await;
    assert_eq!((code, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"));
    let (code, _) = stage.post(&answers, result(&ask.call)).await;
    assert_eq!(code, StatusCode::OK);
    let view = reader.until_rest().await;
    assert!(reply(&view).contains("a map of Oslo"), "{view:?}");
    assert_eq!(view, stage.view(&chat).await);
    stage.server.stop().await;
}

/// A call waits for an approval, which is bound to the call's input and needs a token with the scope.
#[tokio::test]
async fn a_person_with_the_scope_approves_exactly_what_was_shown() {
    let stage = Stage::new().await;
    stage.grant("evt_chats-and-never-approves-anything", "me", &[everturn::stores::Scope::Chat]).await;
    let chat = stage.chat("launches").await;
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, "Launch it").await;
    let view = reader.until(|view| status(view) == Some(Status::Awaiting)).await;
    let ask = view.status.unwrap().asks[0].clone();
    let approve = |hash: &str| json!({"answers": [{"kind": "approve", "call": ask.call, "input_hash": hash}]});
    let request = stage.client.post(format!("{}{chat}/answers", stage.base));
    let request = request.bearer_auth("evt_chats-and-never-approves-anything").json(&approve(&ask.input_hash));
    let (code, problem) = crate::stage::answer(request.send().await.unwrap()).await;
    assert_eq!((code, kind(&problem)), (StatusCode::FORBIDDEN, "scope"));
    let (code, problem) = stage.post(&format!("{chat}/answers"), approve("0000000000000001")).await;
    assert_eq!((code, kind(&problem)), (StatusCode::CONFLICT, "not-asked"));
    // A token with only the scope `approve` can approve, and do nothing else.
    let only = "evt_approves-and-does-nothing-else-here";
    stage.grant(only, "me", &[everturn::stores::Scope::Approve]).await;
    let approver = async |body: Value| {
        let request = stage.client.post(format!("{}{chat}/answers", stage.base)).bearer_auth(only).json(&body);
        crate::stage::answer(request.send().await.unwrap()).await
    };
    let result = json!({"kind": "result", "call": ask.call, "output": "launched, I say"});
    let (code, problem) = approver(json!({"answers": [result]})).await;
    assert_eq!((code, kind(&problem)), (StatusCode::FORBIDDEN, "scope"));
    let (code, problem) = approver(approve("0000000000000001")).await;
    assert_eq!((code, kind(&problem), &problem["chat"]), (StatusCode::CONFLICT, "not-asked", &Value::Null));
    let (code, _) = approver(approve(&ask.input_hash)).await;
    assert_eq!(code, StatusCode::OK);
    assert!(reply(&reader.until_rest().await).contains("launched"));
    stage.server.stop().await;
}

/// An edit replaces a message and everything after it, in every client.
#[tokio::test]
async fn an_edit_rewinds_every_client() {
    let stage = Stage::new().await;
    let chat = stage.chat("numbered").await;
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, "count to 3").await;
    reader.until_rest().await;
    let (code, problem) = stage.send(Method::PUT, &format!("{chat}/messages/2"), json!({"text": "count to 4"})).await;
    assert_eq!((code, kind(&problem)), (StatusCode::CONFLICT, "not-editable"));
    let (code, _) = stage.send(Method::PUT, &format!("{chat}/messages/1"), json!({"text": "count to 4"})).await;
    assert_eq!(code, StatusCode::OK);
    let view = reader.until(|view| reply(view) == "t1 t2 t3 t4" && status(view) == Some(Status::Idle)).await;
    assert_eq!(view.messages.len(), 2);
    assert_eq!(view, stage.view(&chat).await);
    stage.server.stop().await;
}

/// A requested summary is in the transcript, and its cost is counted.
#[tokio::test]
async fn a_summary_is_written_when_asked_for_and_everything_is_counted() {
    let stage = Stage::new().await;
    let chat = stage.chat("numbered").await;
    let nothing = async || {
        let (code, problem) = stage.post(&format!("{chat}/compact"), json!({})).await;
        assert_eq!(code, StatusCode::CONFLICT);
        assert!(problem["detail"].as_str().unwrap().starts_with("There is nothing to summarise"), "{problem}");
    };
    nothing().await;
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, "count to 3").await;
    reader.until_rest().await;
    let (code, _) = stage.post(&format!("{chat}/compact"), json!({})).await;
    assert_eq!(code, StatusCode::OK);
    let is_summary = |view: &View| view.messages.iter().any(|message| matches!(message.body, Body::Summary(_)));
    let view = reader.until(|view| is_summary(view) && status(view) == Some(Status::Idle)).await;
    assert_eq!(view.status.unwrap().ended, Some(Ended::Done));
    nothing().await;
    let (_, usage) = stage.get(&format!("{chat}/usage?each=true")).await;
    let each = usage["each"].as_array().unwrap().iter().map(|row| (row["rung"].as_str(), row["outcome"].as_str()));
    let answered = ["first", "summary"].map(|rung| (Some(rung), Some("answered")));
    assert_eq!((usage["attempts"].as_u64(), each.collect::<Vec<_>>()), (Some(2), answered.to_vec()));
    stage.server.stop().await;
}

/// Two clients race for one queued message: it is deleted or answered, never both, and both clients get the outcome.
#[tokio::test]
async fn two_clients_that_race_both_hear_what_came_of_it() {
    let stage = Stage::with(ServerLimits::default(), Duration::from_micros(200)).await;
    for round in 0..20 {
        let chat = stage.chat("numbered").await;
        let mut reader = stage.watch(&chat).await;
        stage.say(&chat, "count to 30").await;
        let queued = stage.say(&chat, "count to 2").await;
        let path = format!("{chat}/queue/{queued}");
        let promote = format!("{path}/promote");
        let (one, other) =
            tokio::join!(stage.send(Method::DELETE, &path, Value::Null), stage.send(Method::POST, &promote, json!({})));
        let view = reader.until_rest().await;
        let heard = view.messages.iter().filter(|message| matches!(message.body, Body::User { .. })).count() == 2;
        assert_eq!(one.0 == StatusCode::OK, !heard, "round {round}: {one:?} {other:?}");
        assert!([StatusCode::OK, StatusCode::NOT_FOUND, StatusCode::CONFLICT].contains(&other.0), "{other:?}");
        assert_eq!(view, stage.view(&chat).await);
    }
    stage.server.stop().await;
}

/// A command that no driver applied in time stays stored, and the answer is 503 with Retry-After.
#[tokio::test]
async fn a_command_not_applied_in_time_gets_retry_after() {
    let stage =
        Stage::with(ServerLimits { outcome_max: Duration::from_millis(20), ..ServerLimits::default() }, Duration::ZERO)
            .await;
    let chat = stage.chat("numbered").await;
    stage.engine.shutdown().await;
    for _ in 0..2 {
        let patch = stage.ask(Method::PATCH, &chat).header("idempotency-key", "late").json(&json!({"title": "Late"}));
        let response = patch.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()["retry-after"], "1");
    }
    let id = chat.rsplit('/').next().unwrap().parse().unwrap();
    assert_eq!(stage.memory.inbox(id).await.unwrap().len(), 1, "it is kept, once");
    stage.server.stop().await;
}
