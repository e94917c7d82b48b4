//! Chats with a model of their own, over HTTP.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::reader::reply;
use crate::stage::{Stage, kind};

async fn choose(stage: &Stage, chat: &str, model: Value) -> (StatusCode, Value) {
    stage.send(Method::PATCH, chat, json!({ "model": model })).await
}

/// A chat is created with a model, changed to another, and reset to its agent's; every stream shows each change.
#[tokio::test]
async fn a_chat_has_a_model_of_its_own() {
    let stage = Stage::new().await;
    let (status, chat) = stage.post("/v1/chats", json!({"model": "understudy/numbered"})).await;
    assert_eq!(
        (status, &chat["model"], &chat["agent"]),
        (StatusCode::CREATED, &json!("understudy/numbered"), &json!("default"))
    );
    let chat = format!("/v1/chats/{}", chat["id"].as_str().unwrap());
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, "count to 3").await;
    assert_eq!(reply(&reader.until_rest().await), "t1 t2 t3");

    let (status, now) = choose(&stage, &chat, json!("understudy/extra-2")).await;
    assert_eq!((status, &now["model"]), (StatusCode::OK, &json!("understudy/extra-2")), "it begins like one on offer");
    let own = |model: Option<&'static str>| {
        move |view: &everturn_server::wire::View| view.status.as_ref().is_some_and(|is| is.model.as_deref() == model)
    };
    reader.until(own(Some("understudy/extra-2"))).await;
    let (status, now) = choose(&stage, &chat, Value::Null).await;
    assert_eq!((status, now.get("model")), (StatusCode::OK, None));
    reader.until(own(None)).await;
    let (_, usage) = stage.get(&format!("{chat}/usage?each=true")).await;
    assert_eq!(usage["each"][0]["model"], "understudy/numbered");
    stage.server.stop().await;
}

/// A model that is not offered is 422 with the list of offered ones, and nothing else of the request is applied.
#[tokio::test]
async fn a_model_that_is_not_there_changes_nothing() {
    let stage = Stage::new().await;
    let chat = stage.talk("numbered", &["count to 2"]).await;
    choose(&stage, &chat, json!("understudy/persona")).await;
    let (_, before) = stage.get(&chat).await;
    for model in ["understudy/nobody", "elsewhere/extra", "extra", "", "/"] {
        let asked = [
            (Method::PATCH, chat.clone(), json!({"model": model, "title": "Another"})),
            (Method::POST, "/v1/chats".to_owned(), json!({ "model": model })),
            (Method::POST, format!("{chat}/fork"), json!({"at": 2, "model": model})),
        ];
        for (method, path, body) in asked {
            let (status, problem) = stage.send(method, &path, body).await;
            assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{path} {model}");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("understudy/numbered") && detail.contains("understudy/extra"), "{detail}");
        }
    }
    assert_eq!(stage.get(&chat).await.1, before);
    assert_eq!(stage.get("/v1/chats").await.1["chats"].as_array().unwrap().len(), 1);
    stage.server.stop().await;
}

/// A fork uses its source's model unless the request names one; under a key it is still created once.
#[tokio::test]
async fn a_fork_takes_the_model_along() {
    let stage = Stage::new().await;
    let chat = stage.talk("default", &["Hello."]).await;
    choose(&stage, &chat, json!("understudy/numbered")).await;
    let fork = async |body: Value| {
        let response = stage.ask(Method::POST, &format!("{chat}/fork")).header("idempotency-key", body.to_string());
        crate::stage::answer(response.json(&body).send().await.unwrap()).await
    };
    for (body, model) in [
        (json!({"at": 2}), Some("understudy/numbered")),
        (json!({"at": 2, "model": "understudy/extra"}), Some("understudy/extra")),
        (json!({"at": 2, "model": null}), None),
    ] {
        let (status, made) = fork(body.clone()).await;
        assert_eq!((status, made.get("model").and_then(Value::as_str)), (StatusCode::CREATED, model));
        choose(&stage, &chat, json!("understudy/persona")).await;
        assert_eq!(fork(body).await.1["id"], made["id"], "whatever the other chat asks by now");
        choose(&stage, &chat, json!("understudy/numbered")).await;
    }
    stage.server.stop().await;
}

/// The models that a chat can choose are listed beside those of the agents.
#[tokio::test]
async fn models_to_choose_are_listed() {
    let stage = Stage::new().await;
    let (_, listed) = stage.get("/v1/models").await;
    let models = listed["models"].as_array().unwrap();
    let agents = |id: &str| models.iter().find(|model| model["id"] == id).map(|model| model["agents"].clone());
    assert_eq!(agents("understudy/extra"), Some(json!([])));
    assert_eq!(agents("understudy/numbered"), Some(json!(["numbered"])));
    stage.server.stop().await;
}
