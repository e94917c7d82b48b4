//! Generations that outlive their connections.

use everturn_core::message::Stop;
use everturn_core::prompt::WireFormat;
use serde_json::{Value, json};

use super::client::{Ended, Got, ask, get, post, post_until, start};
use crate::{Understudy, call, cut, hang, reset, script, stop, text, wait_ms};

const WIRE: WireFormat = WireFormat::OpenAiResponses;

fn numbers(got: &Got) -> Vec<u64> {
    got.events().iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect()
}

fn words(events: &[Value]) -> String {
    events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .filter_map(|event| event["delta"].as_str())
        .collect()
}

async fn begin(server: &super::super::UnderstudyServer, model: &str) -> Got {
    let body = json!({"model": model, "stream": true, "background": true, "store": true, "input": "hi"});
    post(server, WIRE, "/v1/responses", &body).await
}

fn id(got: &Got) -> String {
    got.events()[0]["response"]["id"].as_str().unwrap().into()
}

async fn again(server: &super::super::UnderstudyServer, id: &str, after: u64) -> Got {
    get(server, WIRE, &format!("/v1/responses/{id}?stream=true&starting_after={after}")).await
}

#[tokio::test]
async fn a_broken_generation_goes_on_and_can_be_reattached() {
    for (trouble, ended) in [(cut(), Ended::Whole), (reset(), Ended::Reset)] {
        let cues = [text("Hello, "), trouble, wait_ms(5), text("world."), stop(Stop::End)];
        let server = start(Understudy::new([script(cues)])).await;
        let first = begin(&server, "m").await;
        assert_eq!(first.ended, ended);
        let last = *numbers(&first).last().unwrap();
        let second = again(&server, &id(&first), last).await;
        assert_eq!(second.ended, Ended::Whole);
        let all = [numbers(&first), numbers(&second)].concat();
        assert!(all.iter().copied().eq(0..all.len() as u64), "{all:?}");
        assert_eq!(words(&[first.events(), second.events()].concat()), "Hello, world.");
        assert_eq!(second.events().last().unwrap()["type"], "response.completed");
        let whole = get(&server, WIRE, &format!("/v1/responses/{}", id(&first))).await.json();
        assert_eq!(
            (&whole["status"], &whole["output"][0]["content"][0]["text"]),
            (&json!("completed"), &json!("Hello, world."))
        );
    }
}

#[tokio::test]
async fn a_fault_of_the_connection_is_none_of_the_generation() {
    let server = start(Understudy::new([script([text("Hello, "), text("world."), stop(Stop::End)])])).await;
    let first = begin(&server, "faults:reset-at-byte@700").await;
    assert_eq!((first.body.len(), first.ended), (700, Ended::Reset));
    // The last event did not come whole.
    let whole: String = first.text().split_inclusive("\n\n").filter(|event| event.ends_with("\n\n")).collect();
    let seen = whole.matches("data: ").count() as u64;
    let id = whole.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap();
    let second = again(&server, id, seen - 1).await;
    assert_eq!((numbers(&second)[0], words(&second.events()).as_str()), (seen, "Hello, world."));
}

#[tokio::test]
async fn the_next_script_goes_on_with_a_generation_that_fell_silent() {
    let scripts = [script([text("Hello, "), reset()]), script([text("world."), stop(Stop::End)])];
    let server = start(Understudy::new(scripts)).await;
    let first = begin(&server, "m").await;
    let second = again(&server, &id(&first), *numbers(&first).last().unwrap()).await;
    assert_eq!(words(&[first.events(), second.events()].concat()), "Hello, world.");
}

/// A request without streaming must still get the id of its response.
#[tokio::test]
async fn one_that_has_said_nothing_has_a_name() {
    let server = start(Understudy::new([script([text("Hello"), stop(Stop::End)])])).await;
    let body = json!({"model": "m-faults:slow@60000", "background": true, "input": "hi"});
    let begun = post(&server, WIRE, "/v1/responses", &body).await.json();
    assert_eq!(begun["status"], "queued");
    let id = begun["id"].as_str().unwrap();
    assert_eq!(get(&server, WIRE, &format!("/v1/responses/{id}")).await.json(), begun);
}

#[tokio::test]
async fn one_that_is_cancelled_ends() {
    let server = start(Understudy::new([script([text("Hello"), hang(), wait_ms(60_000), text("never")])])).await;
    let body = json!({"model": "m", "stream": true, "background": true, "input": "hi"});
    let first = post_until(&server, WIRE, "/v1/responses", &body, Ended::Silent).await;
    assert_eq!(first.ended, Ended::Silent);
    let id = id(&first);
    assert_eq!(get(&server, WIRE, &format!("/v1/responses/{id}")).await.json()["status"], "in_progress");
    let cancelled = post(&server, WIRE, &format!("/v1/responses/{id}/cancel"), &json!({})).await.json();
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(again(&server, &id, 99).await.ended, Ended::Whole);
}

#[tokio::test]
async fn only_what_is_kept_can_be_found() {
    let server = start(Understudy::new([
        script([text("Hello, "), cut()]),
        script([call("look", json!({})), stop(Stop::ToolUse)]),
        script([text("Kelp."), stop(Stop::End)]),
    ]))
    .await;
    let gone = ask(&server, WIRE, "m", "hi").await;
    assert_eq!(again(&server, &id(&gone), 0).await.status, 404, "closing a plain stream ends it");
    let asked = ask(&server, WIRE, "m", "hi").await;
    let body =
        |id: &str, input: Value| json!({"model": "m", "stream": true, "previous_response_id": id, "input": input});
    let unanswered = post(&server, WIRE, "/v1/responses", &body(&id(&asked), json!("and?"))).await;
    assert_eq!(unanswered.status, 400);
    assert!(unanswered.text().contains("No tool output found for function call id_look."));
    let output = json!([{"type": "function_call_output", "call_id": "id_look", "output": "kelp"}]);
    assert_eq!(post(&server, WIRE, "/v1/responses", &body(&id(&asked), output)).await.status, 200);
    let refused = post(&server, WIRE, "/v1/responses", &body(&id(&gone), json!("and?"))).await;
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!("previous_response_not_found")));
    assert_eq!(again(&server, &id(&asked), 0).await.status, 400, "it was not in the background");
}
