use serde_json::json;

use super::*;

/// A chat in which the prompt was sent after message 2.
fn view(status: &str, queue: &[u64], is_heard: bool) -> View {
    let waiting: Vec<_> = queue.iter().map(|id| json!({"id": id, "at": 0, "parts": [], "steers": false})).collect();
    let asks = match status {
        "awaiting" => json!([{"call": "1.0", "tool": "launch", "wants": "approval", "input": "{}", "input_hash": ""}]),
        _ => json!([]),
    };
    let standing = json!({"version": 1, "step": 1, "title": "", "status": status, "archived": false, "queue": waiting,
        "asks": asks, "ended": {"how": "done"}, "usage": everturn_server::wire::Usage::default()});
    let said = json!([{"id": 3, "at": 0, "kind": "user", "parts": [{"type": "text", "text": "Hi!"}]}]);
    View {
        messages: if is_heard { serde_json::from_value(said).unwrap() } else { Vec::new() },
        status: Some(serde_json::from_value(standing).unwrap()),
        draft: None,
    }
}

fn ends(views: &[View]) -> Option<End> {
    let mut asked = SentMessage { prompt: "Hi!".into(), before: 2, queued: 7, has_waited: false, is_heard: false };
    views.iter().find_map(|view| asked.end(view))
}

/// Only the end of our own turn ends the wait, or a state in which it cannot come.
#[test]
fn following_ends_with_our_turn_or_when_it_cannot_continue() {
    let done = Some(End::Ended(Ended::Done));
    let what = |more: &str| format!("launch waits for approval{more}");
    let awaits =
        |more: &str| Some(End::Awaits { what: what(more), input: Some("{}".into()), wants: AskKind::Approval });
    let queued = || view("running", &[6, 7], false);
    for (views, end) in [
        (vec![view("idle", &[], false)], None), // An earlier turn; ours was not reported yet.
        (vec![queued(), view("running", &[], true)], None),
        (vec![queued(), view("running", &[], true), view("idle", &[], true)], done),
        (vec![view("idle", &[], true), view("idle", &[], false)], Some(End::Ended(Ended::Done))),
        (vec![view("running", &[], true), view("idle", &[], false)], Some(End::Ended(Ended::Done))), // After a reset.
        (vec![view("awaiting", &[], true)], awaits("")),
        (vec![view("awaiting", &[7], false)], awaits(", and your message waits for that")),
        (vec![view("awaiting", &[], false)], None),
        (vec![queued(), view("running", &[6], false)], Some(End::Dropped)),
        (vec![queued(), view("idle", &[], false)], Some(End::Dropped)),
    ] {
        assert_eq!(ends(&views), end, "{views:#?}");
    }
}
