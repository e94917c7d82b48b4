//! Streams send the shapes that the OpenAPI document describes.

use std::collections::BTreeSet;
use std::time::Duration;

use everturn_server::ServerLimits;
use jsonschema::Validator;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::stage::Stage;

/// Reads events until one matches, checks each against the document, and returns their names.
async fn read(
    stream: &mut Response,
    shapes: &[(&str, Validator)],
    is_last: impl Fn(&str, &Value) -> bool,
) -> Vec<String> {
    let (mut rest, mut names) = (String::new(), Vec::new());
    loop {
        let bytes = stream.chunk().await.unwrap().expect("the stream goes on");
        rest.push_str(str::from_utf8(&bytes).unwrap());
        while let Some((event, behind)) = rest.split_once("\n\n") {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
            if let (Some(name), Some(data)) = (field("event:"), field("data:")) {
                let data: Value = serde_json::from_str(data).unwrap();
                let (_, shape) = shapes.iter().find(|(known, _)| *known == name).expect("an event of the page");
                shape.validate(&data).unwrap_or_else(|error| panic!("{name} {data:#}: {error}"));
                names.push(name.to_owned());
                if is_last(name, &data) {
                    return names;
                }
            }
            rest = behind.to_owned();
        }
    }
}

/// CS07: the data of every event of a chat's stream has the documented shape, whatever happens in the chat.
#[tokio::test]
async fn events_have_the_documented_shape() {
    let stage = Stage::with(ServerLimits::default(), Duration::from_millis(2)).await;
    let document = stage.get("/openapi.json").await.1;
    let shape = |name: &str| {
        let schema = json!({"$ref": format!("#/components/schemas/{name}"), "components": document["components"]});
        jsonschema::validator_for(&schema).unwrap()
    };
    let kinds = [
        ("message", "Message"),
        ("delta", "Delta"),
        ("rewound", "Rewound"),
        ("status", "Standing"),
        ("reset", "Snapshot"),
    ];
    let shapes = kinds.map(|(event, name)| (event, shape(name)));
    assert!(shapes.iter().all(|(_, shape)| !shape.is_valid(&json!({}))), "each wants something");
    let mut seen = BTreeSet::new();
    for (agent, rests) in
        [("default", "idle"), ("numbered", "idle"), ("asks", "awaiting"), ("launches", "awaiting"), ("fails", "failed")]
    {
        let chat = stage.chat(agent).await;
        let mut stream = stage.ask(Method::GET, &format!("{chat}/stream")).send().await.unwrap();
        seen.extend(read(&mut stream, &shapes, |name, _| name == "reset").await);
        stage.say(&chat, "count to 30").await;
        seen.extend(read(&mut stream, &shapes, |name, data| name == "status" && data["status"] == rests).await);
        if rests == "idle" {
            stage.send(Method::PUT, &format!("{chat}/messages/1"), json!({"text": "count to 2"})).await;
            seen.extend(read(&mut stream, &shapes, |name, _| name == "rewound").await);
        }
    }
    assert_eq!(seen.len(), shapes.len(), "all of them came: {seen:?}");
    stage.server.stop().await;
}
