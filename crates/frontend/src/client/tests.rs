use everturn_server::wire::{Event, When};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::canned::{answer, daemon, key, problem};
use super::*;

fn stream(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}")
}

#[tokio::test]
async fn a_command_keeps_its_key_until_it_is_answered() {
    let accepted = answer("202 Accepted", "application/json", r#"{"chat":"c","id":7}"#);
    let broken = accepted[..accepted.len() - 4].to_owned();
    let (client, served) = daemon(vec![String::new(), broken, problem(503, "unavailable"), accepted]).await;
    assert_eq!(client.send("c", "Hi!", When::Queue).await.unwrap().id, 7);
    let asked = served.await.unwrap();
    assert!(asked.iter().all(|request| key(request) == key(&asked[0])), "{asked:?}");
    assert!(asked[0].contains("authorization: bearer evt_token"));
}

/// After a dead connection another one is tried.
#[tokio::test]
async fn a_silent_connection_is_given_up_for_another() {
    let Patience { total, begin_max } = Patience::default();
    assert!(begin_max < total);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let _silent = listener.accept().await.unwrap();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 8192]).await.unwrap();
            let accepted = answer("202 Accepted", "application/json", r#"{"chat":"c","id":7}"#);
            let _ = stream.write_all(accepted.as_bytes()).await; // The client may have closed this one as well.
        }
    });
    let client = Client::new(base.parse().unwrap(), "evt_token".into());
    let patience = Patience { total: Duration::from_secs(60), begin_max: Duration::from_millis(100) };
    let client = Client { patience, ..client };
    assert_eq!(client.send("c", "Hi!", When::Queue).await.unwrap().id, 7);
    serving.abort();
}

#[tokio::test]
async fn another_command_has_another_key() {
    let accepted = answer("202 Accepted", "application/json", r#"{"chat":"c","id":7}"#);
    let (client, served) = daemon(vec![accepted.clone(), accepted]).await;
    client.send("c", "Hi!", When::Queue).await.unwrap();
    client.send("c", "Hi!", When::Queue).await.unwrap();
    let asked = served.await.unwrap();
    assert_ne!(key(&asked[0]), key(&asked[1]));
}

#[tokio::test]
async fn a_refusal_is_reported_and_not_retried() {
    let (client, served) = daemon(vec![problem(409, "status")]).await;
    let error = client.compact("c").await.unwrap_err();
    assert_eq!((error.to_string().as_str(), error.kind()), ("What happened.", Some("status")));
    assert_eq!(served.await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_request_without_a_key_is_not_sent_twice() {
    let (client, served) = daemon(vec![String::new()]).await;
    let new = everturn_server::wire::NewToken { name: "n".into(), owner: None, scopes: Vec::new(), seconds: None };
    assert!(matches!(client.make_token(&new).await, Err(ClientError::Connection(_))));
    assert_eq!(served.await.unwrap().len(), 1);
}

/// A delta of a stream, with a cursor or without.
fn delta(n: u64, text: &str, id: Option<&str>) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("event: delta\n{id}data: {{\"step\":1,\"n\":{n},\"at\":0,\"kind\":\"text\",\"text\":\"{text}\"}}\n\n")
}

#[tokio::test]
async fn a_stream_reconnects_with_its_cursor_and_yields_each_event_once() {
    let one = [delta(1, "é", None), delta(2, "b", Some("c2")), delta(3, "c", None)].concat();
    // Cut inside an event; events without a cursor are sent again.
    let two = [delta(3, "c", None), delta(4, "d", Some("c4"))].concat();
    let half = delta(5, "e", Some("c5"));
    let (client, served) = daemon(vec![
        stream(&one),
        problem(503, "unavailable"),
        problem(503, "unavailable"), // Reported again: the daemon's successor may have ended by now.
        stream(&format!("{two}{}", &half[..half.len() - 3])),
        stream(&half),
        problem(404, "not-found"),
    ])
    .await;
    let mut watch = client.watch("c");
    let mut told = Vec::new();
    let error = loop {
        match watch.next().await {
            Ok(WatchEvent::Events(events)) => told.extend(events.iter().map(|event| match event {
                Event::Delta(delta) => delta.n.to_string(),
                other => other.name().to_owned(),
            })),
            Ok(WatchEvent::Lost(_)) => told.push("lost".into()),
            Ok(WatchEvent::Back) => told.push("back".into()),
            Err(error) => break error,
        }
    };
    assert_eq!(told, ["1", "2", "lost", "lost", "back", "3", "4", "5"]);
    assert_eq!(error.kind(), Some("not-found"));
    let asked = served.await.unwrap();
    assert!(!asked[0].contains("last-event-id"));
    for (request, cursor) in asked[1..].iter().zip(["c2", "c2", "c2", "c4", "c5"]) {
        assert!(request.contains(&format!("last-event-id: {cursor}\r")), "{request}");
    }
}

/// A proxy may cut anywhere, also inside of a letter.
#[tokio::test]
async fn a_stream_may_be_cut_at_every_byte() {
    let whole = stream(&[delta(1, "é日", Some("c1")), delta(2, "ü", None), delta(3, "x", Some("c3"))].concat());
    let head = whole.find("\r\n\r\n").unwrap() + 4;
    for cut in head..whole.len() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (first, last) = whole.as_bytes().split_at(cut);
        let (first, last) = (first.to_vec(), last.to_vec());
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 8192]).await.unwrap();
            stream.write_all(&first).await.unwrap();
            stream.flush().await.unwrap();
            tokio::task::yield_now().await;
            stream.write_all(&last).await.unwrap();
            std::future::pending::<()>().await;
        });
        let mut watch = Client::new(base.parse().unwrap(), "t".into()).watch("c");
        while watch.view().draft.as_ref().is_none_or(|draft| draft.n < 3) {
            assert!(matches!(watch.next().await.unwrap(), WatchEvent::Events(_)));
        }
        let draft = watch.view().draft.as_ref().unwrap();
        let everturn_server::wire::Part::Text(text) = &draft.parts[0] else { panic!("{draft:?}") };
        assert_eq!(text.text, "é日üx", "cut at byte {cut}");
        serving.abort();
    }
}
