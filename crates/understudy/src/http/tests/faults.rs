//! Trouble, to the byte.

use std::time::Duration;

use everturn_core::error::{Cause, ErrorKind};
use everturn_core::message::Stop;
use everturn_core::prompt::WireFormat;
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::super::{KEY, UnderstudyOptions, UnderstudyServer};
use super::client::{Ended, Got, ask, ask_until, question, start};
use crate::{Cue, Manner, Script, Understudy, cut, fail, hang, raw, reset, script, stop, text, wait_ms};

const QUICK: Manner = Manner { pace: Duration::ZERO, seed: 0 };

fn short() -> Script {
    script([text("Hello, "), text("world."), stop(Stop::End)])
}

/// One that always says the same.
fn parrot() -> Understudy {
    Understudy::hearing(|_| short())
}

async fn plays(wire: WireFormat, cues: Vec<Cue>, ended: Ended) -> Got {
    let server = start(Understudy::new([script(cues)])).await;
    ask_until(&server, wire, "m", ended).await
}

#[tokio::test]
async fn a_script_without_faults_arrives_whole() {
    for wire in WireFormat::ALL {
        let got = plays(wire, short(), Ended::Whole).await;
        assert_eq!((got.status, got.ended), (200, Ended::Whole), "{wire:?}");
        assert!(got.head.contains("text/event-stream"));
        assert!(got.text().contains("world."));
    }
}

#[tokio::test]
async fn scripts_break_the_connection_as_they_say() {
    let each = WireFormat::ALL.map(|wire| async move {
        let broken = |how: Cause| fail(ErrorKind::Timeout, how);
        for (cue, ended) in [
            (cut(), Ended::Whole),
            (broken(Cause::Truncated), Ended::Closed),
            (reset(), Ended::Reset),
            (broken(Cause::GoAway), Ended::Closed),
            (hang(), Ended::Silent),
            (broken(Cause::IdleStall), Ended::Silent),
            (broken(Cause::ServerError), Ended::Whole),
        ] {
            let name = format!("{wire:?} {cue:?}");
            let got = plays(wire, vec![text("Hel"), wait_ms(1), cue, text("lo"), stop(Stop::End)], ended).await;
            assert_eq!(got.ended, ended, "{name}");
            assert!(got.text().contains("Hel"), "{name}");
            assert!(!got.text().contains("lo\""), "{name}: {}", got.text());
        }
    });
    join_all(each).await;
}

#[tokio::test]
async fn a_script_may_break_before_it_begins() {
    for (how, ended) in
        [(Cause::Reset, Ended::Reset), (Cause::Truncated, Ended::Closed), (Cause::IdleStall, Ended::Silent)]
    {
        let got = plays(WireFormat::Anthropic, vec![fail(ErrorKind::Timeout, how)], ended).await;
        assert_eq!((got.status, got.ended), (0, ended), "{how:?}");
    }
}

#[tokio::test]
async fn bytes_go_out_as_they_are() {
    let got = plays(WireFormat::OpenAiChat, vec![raw("\u{feff}: hi\r\rdata\n\n"), cut()], Ended::Whole).await;
    assert!(got.text().ends_with("\u{feff}: hi\r\rdata\n\n"));
}

/// Many bytes of every wire, three ways to lose the rest: exactly so much arrives, and it ends just so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_byte_can_be_the_last() {
    for wire in WireFormat::ALL {
        let server = start(parrot()).await;
        for (fault, ended) in
            [("cut-at-byte", Ended::Whole), ("truncate-at-byte", Ended::Closed), ("reset-at-byte", Ended::Reset)]
        {
            let whole = ask(&server, wire, &format!("faults:{fault}@{:08}", 99_999_999), "hi").await.body.len();
            let step = if ended == Ended::Reset { 7 } else { 13 };
            let cuts: Vec<usize> = (0..whole).step_by(step).chain([1, whole - 1, whole]).collect();
            let asked = cuts.iter().map(|cut| {
                let (server, model) = (&server, format!("faults:{fault}@{cut:08}"));
                async move { ask(server, wire, &model, "hi").await }
            });
            let got: Vec<Got> = stream::iter(asked).buffered(16).collect().await;
            for (cut, got) in cuts.iter().zip(got) {
                // The model's name is in the body, so its length counts.
                assert_eq!((got.body.len(), got.ended), (*cut, ended), "{wire:?} {fault}@{cut}");
            }
        }
    }
}

#[tokio::test]
async fn faults_come_by_the_models_name() {
    let server = &start(parrot()).await;
    let each = WireFormat::ALL.map(|wire| async move {
        let events = |got: &Got| got.text().matches("data: ").count();
        for (model, status, ended, count) in [
            ("faults:cut@2", 200, Ended::Whole, Some(2)),
            ("faults:truncate@2", 200, Ended::Closed, Some(2)),
            ("faults:reset@2", 200, Ended::Reset, Some(2)),
            ("faults:goaway@2", 200, Ended::Closed, Some(2)),
            ("faults:stall@2", 200, Ended::Silent, Some(2)),
            ("faults:malformed@2", 200, Ended::Whole, Some(3)),
            ("faults:error@2", 200, Ended::Whole, Some(3)),
            ("faults:slow@1+cut@1", 200, Ended::Whole, Some(1)),
            ("faults:drip", 200, Ended::Whole, None),
            ("faults:late@1", 200, Ended::Whole, None),
            ("faults:silent", 0, Ended::Silent, None),
            ("faults:html", 200, Ended::Whole, Some(0)),
            ("faults:empty", 200, Ended::Whole, Some(0)),
            ("faults:redirect", 307, Ended::Whole, Some(0)),
            ("faults:503", 503, Ended::Whole, Some(0)),
            ("faults:nonsense", 404, Ended::Whole, Some(0)),
        ] {
            let got = ask_until(server, wire, model, ended).await;
            assert_eq!((got.status, got.ended), (status, ended), "{wire:?} {model}");
            if let Some(count) = count {
                assert_eq!(events(&got), count, "{wire:?} {model}: {}", got.text());
            }
        }
    });
    join_all(each).await;
}

#[tokio::test]
async fn a_fault_that_is_counted_stops() {
    let server = start(parrot()).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(ask(&server, WireFormat::OpenAiChat, "faults:429x3", "hi").await.status);
    }
    assert_eq!(statuses, [429, 429, 429, 200]);
}

#[tokio::test]
async fn chatter_is_only_signs_of_life() {
    let server = start(parrot()).await;
    let asked = ask(&server, WireFormat::Anthropic, "faults:chatter@3", "hi");
    // It goes on for a minute; what came so far is lost with the client.
    assert!(tokio::time::timeout(Duration::from_millis(900), asked).await.is_err());
}

#[tokio::test]
async fn chance_is_repeatable() {
    let run = async |seed| {
        let options = UnderstudyOptions { chaos: 0.7, seed, ..UnderstudyOptions::default() };
        let server = UnderstudyServer::start(Understudy::numbered(QUICK), options).await.unwrap();
        let mut seen = Vec::new();
        for _ in 0..12 {
            let got = ask(&server, WireFormat::OpenAiChat, "numbered", "30").await;
            seen.push((got.status, got.ended, got.body.len()));
        }
        seen
    };
    let first = run(5).await;
    assert_eq!(first, run(5).await);
    assert!(first.iter().any(|(status, ended, _)| *status != 200 || *ended != Ended::Whole), "{first:?}");
}

#[tokio::test]
async fn hanging_up_ends_the_answer() {
    let understudy = Understudy::new([script([text("Hel"), hang()])]);
    let server = start(understudy.clone()).await;
    assert_eq!(ask_until(&server, WireFormat::Anthropic, "m", Ended::Silent).await.ended, Ended::Silent);
    for _ in 0..200 {
        if understudy.streams_open() == 0 && server.connections_open() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{} streams and {} connections are still open", understudy.streams_open(), server.connections_open());
}

/// A client of HTTP/2, as far as its answer goes.
async fn ask_h2(server: &UnderstudyServer, model: &str) -> (usize, Option<h2_reason::Reason>) {
    let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let (path, body) = question(WireFormat::OpenAiChat, model, "hi");
    let request = hyper::Request::post(format!("http://{}{path}", server.address()))
        .header("authorization", format!("Bearer {KEY}"))
        .body(Full::new(bytes::Bytes::from(body.to_string())))
        .unwrap();
    let mut body = sender.send_request(request).await.unwrap().into_body();
    let mut events = 0;
    let broken = loop {
        match body.frame().await {
            None => break None,
            Some(Ok(frame)) => events += frame.into_data().unwrap().windows(6).filter(|six| *six == b"data: ").count(),
            Some(Err(error)) => break Some(error),
        }
    };
    connection.abort();
    (events, broken.map(|error| h2_reason::of(&error)))
}

/// What an error of HTTP/2 was, from its own words.
mod h2_reason {
    #[derive(Debug, PartialEq, Eq)]
    pub(super) enum Reason {
        StreamReset,
        GoneAway,
        Other(String),
    }

    pub(super) fn of(error: &hyper::Error) -> Reason {
        let words = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        if words.contains("stream error") || words.contains("stream no longer needed") {
            Reason::StreamReset
        } else if words.contains("connection") || words.contains("broken pipe") || words.contains("go away") {
            Reason::GoneAway
        } else {
            Reason::Other(words)
        }
    }
}

#[tokio::test]
async fn http_2_breaks_in_its_own_ways() {
    use h2_reason::Reason::{GoneAway, StreamReset};
    let server = start(parrot()).await;
    assert_eq!(ask_h2(&server, "m").await, (6, None));
    assert_eq!(ask_h2(&server, "faults:cut@2").await, (2, None));
    assert_eq!(ask_h2(&server, "faults:truncate@2").await, (2, Some(StreamReset)));
    assert_eq!(ask_h2(&server, "faults:goaway@2").await, (2, Some(GoneAway)));
    assert_eq!(ask_h2(&server, "faults:reset@2").await, (2, Some(GoneAway)));
}
