//! Exports of a whole chat.

use std::sync::atomic::Ordering;
use std::time::Duration;

use everturn::core::chat::StepAttempts;
use everturn::core::cost::{Spend, Tally};
use everturn::core::fact::{AttemptOutcome, AttemptPurpose, AttemptRecord, Fact};
use everturn::core::ids::{ChatId, StepId, Timestamp};
use everturn::stores::{NewChat, Scope, Store as _, TokenHash, Tokens as _};
use everturn_server::{ServerLimits, wire};
use expect_test::expect;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::stage::{Stage, kind};

/// A JSON export has every message and attempt over all pages, and nothing that was committed after it began.
#[tokio::test]
async fn json_is_complete() {
    let stage = Stage::new().await;
    let texts: Vec<String> = (1..=30).map(|n| format!("count to {n}")).collect();
    let chat = stage.talk("numbered", &texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let response = stage.ask(Method::GET, &format!("{chat}/export")).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    let id = chat.rsplit('/').next().unwrap();
    let name = format!("attachment; filename=\"count-to-1-{id}.json\"");
    assert_eq!(response.headers()["content-disposition"], name.as_str());
    let export: wire::Export = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    let view = stage.view(&chat).await;
    assert_eq!((export.format, export.messages.len(), export.attempts.len()), (1, 60, 30));
    assert_eq!(export.messages, view.messages);
    assert_eq!(Some(export.chat.standing), view.status);
    let (_, usage) = stage.get(&format!("{chat}/usage?each=true")).await;
    assert_eq!(json!(export.attempts), usage["each"]);
    stage.server.stop().await;
}

/// A chat without messages is exported too; characters that are unsafe in a file name are left out of it.
#[tokio::test]
async fn an_empty_chat_is_exported() {
    let stage = Stage::new().await;
    let (_, made) = stage.post("/v1/chats", json!({"title": "\"; rm -rf / \u{202e}\r\nx: \u{e9}"})).await;
    let chat = format!("/v1/chats/{}", made["id"].as_str().unwrap());
    let response = stage.ask(Method::GET, &format!("{chat}/export?format=json")).send().await.unwrap();
    let name = response.headers()["content-disposition"].to_str().unwrap().to_owned();
    assert_eq!(name, format!("attachment; filename=\"rm-rf-x-{}.json\"", made["id"].as_str().unwrap()));
    let export: wire::Export = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!((export.messages, export.attempts), (vec![], vec![]));
    let (status, problem) = stage.get(&format!("{chat}/export?format=pdf")).await;
    assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"));
    stage.server.stop().await;
}

/// A Markdown export is readable text.
#[tokio::test]
async fn markdown_is_readable() {
    let stage = Stage::new().await;
    let chat = stage.talk("numbered", &["count to 3", "count <b>to</b> 2"]).await;
    let response = stage.ask(Method::GET, &format!("{chat}/export?format=markdown")).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/markdown; charset=utf-8");
    assert!(response.headers()["content-disposition"].to_str().unwrap().ends_with(".md\""));
    let text = response.text().await.unwrap().replace(chat.rsplit('/').next().unwrap(), "ID");
    let timeless: Vec<&str> =
        text.lines().map(|line| if line.starts_with("*20") { "*(time)*" } else { line }).collect();
    expect![[r#"
        # count to 3

        Chat `ID` with agent `numbered`.

        ## You

        *(time)*

        count to 3

        ## Model

        *(time)*

        t1 t2 t3

        ## You

        *(time)*

        count &lt;b>to&lt;/b> 2

        ## Model

        *(time)*

        t1 t2

        ---

        *End of chat `ID`.*"#]]
    .assert_eq(&timeless.join("\n"));
    stage.server.stop().await;
}

/// Attempts are exported once each and in order, for none, exactly one page, and more than one page.
#[tokio::test]
async fn attempts_of_any_number_are_one_list() {
    let (stage, store) = Stage::sluggish(ServerLimits::default()).await;
    for (n, len) in [0, 1, 499, 500, 501, 1_000, 1_203].into_iter().enumerate() {
        let id = ChatId::from_u128(n as u128 + 1);
        stage.memory.create(&NewChat::of(id, "default", "me")).await.unwrap();
        let mut lease = stage.memory.acquire(id).await.unwrap();
        let fact = |number| {
            let (step, model, began) = (StepId(1), "understudy/any".parse().unwrap(), Timestamp(0));
            let (took, tally, spend) = (Duration::ZERO, Tally::default(), Spend::default());
            let outcome = AttemptOutcome::Lost;
            let row =
                AttemptRecord { step, number, model, aim: AttemptPurpose::Summary, began, took, tally, spend, outcome };
            Fact::Attempted(Box::new(row), StepAttempts::default())
        };
        stage.memory.commit(&mut lease, &(1..=len).map(fact).collect::<Vec<_>>()).await.unwrap();
        for (path, list) in [("export", "attempts"), ("usage?each=true", "each")] {
            let (status, told) = stage.get(&format!("/v1/chats/{id}/{path}")).await;
            assert_eq!(status, StatusCode::OK);
            let rows = told[list].as_array().unwrap().iter();
            let numbers: Vec<u64> = rows.map(|row| row["number"].as_u64().unwrap()).collect();
            assert_eq!(numbers, (1..=u64::from(len)).collect::<Vec<_>>(), "{path}");
        }
        let usage: wire::Usage =
            serde_json::from_value(stage.get(&format!("/v1/chats/{id}/usage?each=true")).await.1).unwrap();
        assert_eq!((usage.attempts, usage.each.len()), (u64::from(len), len as usize));
    }
    assert_eq!(store.attempts_len_max.load(Ordering::SeqCst), 500, "and none is read at once with all others");
    stage.server.stop().await;
}

/// Revoking the token in the middle of a long export ends the export.
#[tokio::test]
async fn a_revoked_token_ends_its_export() {
    let stage = Stage::with(ServerLimits { recheck: Duration::ZERO, ..ServerLimits::default() }, Duration::ZERO).await;
    let secret = "evt_of-a-device-that-will-be-lost-soon";
    stage.grant(secret, "me", &[Scope::Read]).await;
    let long = format!("count to 1 {}", "x".repeat(1_000_000)); // One page is more than all socket buffers hold.
    let chat = stage.talk("numbered", &[long.as_str(); 12]).await;
    let url = format!("{}{chat}/export", stage.base);
    let export = async || stage.client.get(&url).bearer_auth(secret).send().await.unwrap();
    let whole = export().await.text().await.unwrap();
    assert!(whole.ends_with("]}\n") && whole.len() > 12_000_000);
    let mut response = export().await;
    let mut read = response.chunk().await.unwrap().expect("its beginning").len();
    stage.memory.revoke(&TokenHash::of(secret), stage.engine.now()).await.unwrap();
    let cut = loop {
        match response.chunk().await {
            Ok(Some(more)) => read += more.len(),
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    assert!(cut && read < whole.len(), "{read} of {} bytes", whole.len());
    stage.server.stop().await;
}
