//! Breaking things for show.

use everturn_server::openapi;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::stage::{Stage, kind};

/// A server that does real work breaks nothing, whatever the token may do.
#[tokio::test]
async fn a_server_that_works_has_no_drill() {
    let stage = Stage::new().await;
    for what in ["cut", "kill"] {
        let (status, problem) = stage.post("/v1/drill", json!({"what": what})).await;
        assert_eq!((status, kind(&problem)), (StatusCode::NOT_FOUND, "not-found"));
    }
    let (_, who) = stage.send(Method::GET, "/v1/session", Value::Null).await;
    assert_eq!(who["drills"], Value::Null);
    assert!(openapi().paths.paths.contains_key("/v1/drill"));
    stage.server.stop().await;
}
