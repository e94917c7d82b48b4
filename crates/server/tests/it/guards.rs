//! Checks before every route: host names, origins, content types, sizes.

use std::time::Duration;

use everturn_server::ServerLimits;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::stage::{Stage, TOKEN, answer, kind};

/// Sends raw bytes and returns the status of the response; `None` if the connection ends without one.
async fn raw(stage: &Stage, bytes: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(stage.server.address()).await.unwrap();
    let _ = stream.write_all(bytes).await; // The server may refuse before it has read everything.
    let mut head = [0; 64];
    let read = timeout(Duration::from_secs(30), stream.read(&mut head)).await.expect("an answer or an end");
    let head = std::str::from_utf8(&head[..read.unwrap_or(0)]).unwrap();
    head.split(' ').nth(1).and_then(|status| status.parse().ok())
}

/// A Host that is not configured is refused on every route, although DNS may point it to this machine.
#[tokio::test]
async fn only_configured_hosts_are_answered() {
    let stage = Stage::new().await;
    let port = stage.server.address().port();
    let ours =
        [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}"), "Everturn.test".into()];
    let others =
        ["evil.example", "localhost", "localhost:1", "", "127.0.0.1.evil.example", "localhost:80@evil.example"];
    let others =
        others.map(String::from).into_iter().chain([format!("evil.example:{port}"), format!("localhost:{port}.")]);
    for path in ["/healthz", "/v1/chats", "/nowhere"] {
        let get = |host: &str| format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
        for host in &ours {
            assert_ne!(raw(&stage, get(host).as_bytes()).await, Some(421), "{host}");
        }
        for host in others.clone() {
            assert!(matches!(raw(&stage, get(&host).as_bytes()).await, Some(421 | 400)), "{host}");
        }
        let twice = format!("GET {path} HTTP/1.1\r\nhost: localhost:{port}\r\nhost: evil.example\r\n\r\n");
        assert!(matches!(raw(&stage, twice.as_bytes()).await, Some(421 | 400)));
        let none = format!("GET {path} HTTP/1.1\r\n\r\n");
        assert!(matches!(raw(&stage, none.as_bytes()).await, Some(421 | 400)));
        let other = format!("GET http://evil.example{path} HTTP/1.1\r\nhost: localhost:{port}\r\n\r\n");
        assert!(matches!(raw(&stage, other.as_bytes()).await, Some(421 | 400)));
    }
    stage.server.stop().await;
}

/// A page of another origin gets nothing, not even liveness, and no CORS header that would let it read a response.
#[tokio::test]
async fn pages_of_other_sites_get_nothing() {
    let stage = Stage::new().await;
    let foreign = [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://localhost:1"),
        ("origin", "file://"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ];
    for (name, value) in foreign {
        for path in ["/healthz", "/v1/chats"] {
            let response = stage.ask(Method::GET, path).header(name, value).send().await.unwrap();
            assert!(!response.headers().keys().any(|name| name.as_str().starts_with("access-control")));
            let (status, problem) = answer(response).await;
            assert_eq!((status, kind(&problem)), (StatusCode::FORBIDDEN, "origin"), "{name}: {value}");
        }
    }
    let own = stage.ask(Method::GET, "/v1/chats").header("origin", &stage.base).header("sec-fetch-site", "same-origin");
    assert_eq!(own.send().await.unwrap().status(), StatusCode::OK);
    let preflight = stage.ask(Method::OPTIONS, "/v1/chats").header("origin", "https://evil.example");
    assert_eq!(preflight.send().await.unwrap().status(), StatusCode::FORBIDDEN);
    stage.server.stop().await;
}

/// Pages of a configured origin can read responses, problems included; other origins still cannot.
#[tokio::test]
async fn pages_of_a_site_that_was_named_may_ask() {
    const FRIEND: &str = "https://app.example.com";
    let stage = Stage::befriending(FRIEND).await;
    let told = |response: &reqwest::Response, name: &str| -> Option<String> {
        response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    let preflight = |origin: &'static str, host: &str| {
        let asked = stage.client.request(Method::OPTIONS, format!("{}/v1/chats", stage.base)).header("origin", origin);
        asked
            .header("host", host)
            .header("access-control-request-method", "POST")
            .header("sec-fetch-site", "cross-site")
    };
    let host = stage.base.strip_prefix("http://").unwrap();
    let may = preflight(FRIEND, host).send().await.unwrap();
    assert_eq!(
        (may.status(), told(&may, "access-control-allow-origin").unwrap().as_str()),
        (StatusCode::NO_CONTENT, FRIEND)
    );
    assert!(told(&may, "access-control-allow-headers").unwrap().contains("authorization"));
    assert!(told(&may, "access-control-allow-methods").unwrap().contains("DELETE"));
    for (origin, host, status) in [
        ("https://evil.example", host, StatusCode::FORBIDDEN),
        ("https://app.example.com.evil.example", host, StatusCode::FORBIDDEN),
        ("http://app.example.com", host, StatusCode::FORBIDDEN),
        ("null", host, StatusCode::FORBIDDEN),
        (FRIEND, "evil.example", StatusCode::MISDIRECTED_REQUEST),
    ] {
        let refused = preflight(origin, host).send().await.unwrap();
        assert_eq!(refused.status(), status, "{origin} {host}");
        let is_told = told(&refused, "access-control-allow-origin").is_some();
        assert_eq!(is_told, origin == FRIEND, "{origin} {host}");
    }
    let ask = |token| stage.client.get(format!("{}/v1/chats", stage.base)).bearer_auth(token).header("origin", FRIEND);
    for (token, status) in [(TOKEN, StatusCode::OK), ("wrong", StatusCode::UNAUTHORIZED)] {
        let answered = ask(token).header("sec-fetch-site", "cross-site").send().await.unwrap();
        assert_eq!(
            (answered.status(), told(&answered, "access-control-allow-origin").as_deref()),
            (status, Some(FRIEND))
        );
        assert_eq!(told(&answered, "vary").as_deref(), Some("origin"));
        assert!(told(&answered, "access-control-expose-headers").unwrap().contains("retry-after"));
        assert_eq!(told(&answered, "access-control-allow-credentials"), None);
    }
    let twice = ask(TOKEN).header("origin", "https://evil.example").send().await.unwrap();
    assert_eq!((twice.status(), told(&twice, "access-control-allow-origin")), (StatusCode::FORBIDDEN, None));
    let unasked = stage.client.request(Method::OPTIONS, format!("{}/v1/chats", stage.base)).header("origin", FRIEND);
    assert_eq!(unasked.send().await.unwrap().status(), StatusCode::UNAUTHORIZED, "that is no preflight");
    stage.server.stop().await;
}

/// Invalid text, numbers out of range and invalid ids are refused, and change nothing.
#[tokio::test]
async fn values_out_of_range_are_refused() {
    let stage = Stage::new().await;
    let chat = stage.talk("numbered", &["count to 2"]).await;
    let before = stage.view(&chat).await;
    let long = "7".repeat(10_000);
    let bodies: [(&str, &[u8]); 7] = [
        ("/messages", b"{\"text\": \"\xff\xfe\"}"),
        ("/messages", b"{\"text\": \"\xed\xa0\x80\"}"),
        ("/messages", b"{\"text\": 1e999}"),
        ("/fork", b"{\"at\": 1e999}"),
        ("/fork", b"{\"at\": 18446744073709551616}"),
        ("/fork", b"{\"at\": -1}"),
        ("/fork", b"{\"at\": 1.5}"),
    ];
    for (path, body) in bodies {
        let request = stage.ask(Method::POST, &format!("{chat}{path}")).header("content-type", "application/json");
        let (status, problem) = answer(request.body(body).send().await.unwrap()).await;
        let sent = String::from_utf8_lossy(body);
        assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{sent}");
    }
    for id in [long.as_str(), "", "%20", "-1", "99999999999999999999999999999999999999999"] {
        for path in
            [format!("/v1/chats/{id}/messages"), format!("{chat}/messages/{id}/files/0"), format!("{chat}/queue/{id}")]
        {
            let method = if path.contains("/queue/") { Method::DELETE } else { Method::GET };
            let (status, problem) = answer(stage.ask(method, &path).send().await.unwrap()).await;
            let is_refused = matches!((status.as_u16(), kind(&problem)), (404, "not-found") | (422, "invalid"));
            assert!(is_refused, "{}: {status} {problem}", &path[..path.len().min(80)]);
        }
    }
    let keyed = stage.ask(Method::POST, &format!("{chat}/messages")).header("idempotency-key", &long);
    assert_eq!(keyed.json(&json!({"text": "hi"})).send().await.unwrap().status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(stage.view(&chat).await, before);
    stage.server.stop().await;
}

/// The content types that an HTML form can send are refused, and change nothing.
#[tokio::test]
async fn forms_change_nothing() {
    let stage = Stage::new().await;
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""] {
        let request = stage.ask(Method::POST, "/v1/chats").header("content-type", content_type).body("{}");
        let (status, problem) = answer(request.send().await.unwrap()).await;
        assert_eq!((status, kind(&problem)), (StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type"), "{content_type}");
    }
    let (_, page) = stage.get("/v1/chats").await;
    assert_eq!(page["chats"], json!([]));
    stage.server.stop().await;
}

/// Limits on the size and depth of bodies, on the size of heads, and on the time for both.
#[tokio::test]
async fn requests_are_bounded() {
    let limits = ServerLimits { head_time_max: Duration::from_millis(50), ..ServerLimits::default() };
    let stage = Stage::with(limits, Duration::ZERO).await;
    let post =
        |body: String| stage.ask(Method::POST, "/v1/chats").header("content-type", "application/json").body(body);
    let large = format!(r#"{{"title": "{}"}}"#, "x".repeat(1024 * 1024));
    let (status, problem) = answer(post(large).send().await.unwrap()).await;
    assert_eq!((status, kind(&problem)), (StatusCode::PAYLOAD_TOO_LARGE, "too-long"));
    let deep = format!("{}1{}", r#"{"a":"#.repeat(65), "}".repeat(65));
    let (status, problem) = answer(post(deep).send().await.unwrap()).await;
    assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"));
    assert!(problem["detail"].as_str().unwrap().contains("64"));
    let port = stage.server.address().port();
    let head = format!("GET /healthz HTTP/1.1\r\nhost: localhost:{port}\r\nx-much: {}\r\n\r\n", "x".repeat(20_000));
    assert!(matches!(raw(&stage, head.as_bytes()).await, Some(431) | None));
    let slow = format!("GET /healthz HTTP/1.1\r\nhost: localhost:{port}\r\n");
    assert!(matches!(raw(&stage, slow.as_bytes()).await, Some(408) | None));
    stage.server.stop().await;
}

/// A field that is twice in a body is refused on every route, because parsers disagree about which one counts.
#[tokio::test]
async fn a_name_comes_once() {
    let stage = Stage::new().await;
    let chat = stage.chat("asks").await;
    let answer_of = |fields: &str| format!(r#"{{"answers": [{{"kind": "result", {fields}}}]}}"#);
    for (method, path, body) in [
        (Method::POST, "/v1/chats".to_owned(), r#"{"title": "a", "title": "b"}"#.to_owned()),
        (Method::PATCH, chat.clone(), r#"{"archived": false, "archived": true}"#.to_owned()),
        (Method::POST, format!("{chat}/messages"), r#"{"text": "a", "text": "b"}"#.to_owned()),
        (Method::POST, "/v1/tokens".to_owned(), r#"{"name": "a", "scopes": ["read"], "scopes": ["admin"]}"#.to_owned()),
        (
            Method::POST,
            "/v1/tokens".to_owned(),
            r#"{"name": "a", "owner": "me", "owner": "you", "scopes": ["read"]}"#.to_owned(),
        ),
        (Method::POST, format!("{chat}/answers"), r#"{"answers": [], "answers": []}"#.to_owned()),
        (Method::POST, format!("{chat}/answers"), answer_of(r#""call": "1.0", "call": "1.1", "output": "x""#)),
        (Method::POST, format!("{chat}/answers"), answer_of(r#""kind": "approve", "call": "1.0", "output": "x""#)),
    ] {
        let request = stage.ask(method, &path).header("content-type", "application/json").body(body.clone());
        let (status, problem) = answer(request.send().await.unwrap()).await;
        assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{path} {body}");
        assert!(problem["detail"].as_str().unwrap().contains("duplicate field"), "{problem}");
    }
    assert_eq!(stage.get("/v1/tokens").await.1["tokens"].as_array().unwrap().len(), 1);
    stage.server.stop().await;
}

/// Unknown paths and methods are answered with problems like all others, and need a token too.
#[tokio::test]
async fn unknown_paths_are_problems_too() {
    let stage = Stage::new().await;
    let (status, problem) = stage.get("/v1/nowhere").await;
    assert_eq!((status, kind(&problem)), (StatusCode::NOT_FOUND, "not-found"));
    let (status, problem) = stage.send(Method::PUT, "/v1/chats", json!({})).await;
    assert_eq!((status, kind(&problem)), (StatusCode::METHOD_NOT_ALLOWED, "method"));
    let nobody = stage.client.get(format!("{}/v1/nowhere", stage.base)).send().await.unwrap();
    assert_eq!(nobody.status(), StatusCode::UNAUTHORIZED);
    stage.server.stop().await;
}

/// A method that a path does not have is answered with 405 and the Allow header.
#[tokio::test]
async fn an_unknown_method_is_told_so() {
    let stage = Stage::new().await;
    for (path, allowed) in [("/v1/models", "GET,HEAD"), ("/v1/chats", "GET,HEAD,POST")] {
        let response = stage.ask(Method::PUT, path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert_eq!(response.headers()["allow"], allowed);
    }
}

/// No response can be rendered as a page, and no page of another origin can embed one.
#[tokio::test]
async fn no_page_is_made_of_an_answer() {
    let stage = Stage::new().await;
    let chat = stage.chat("default").await;
    for (path, status) in [
        ("/healthz".to_owned(), StatusCode::OK),
        ("/openapi.json".to_owned(), StatusCode::OK),
        ("/v1/chats".to_owned(), StatusCode::OK),
        (format!("{chat}/stream"), StatusCode::OK),
        ("/v1/nowhere".to_owned(), StatusCode::NOT_FOUND),
    ] {
        let response = stage.ask(Method::GET, &path).send().await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        for (name, value) in [
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(response.headers().get(name).map(|value| value.to_str().unwrap()), Some(value), "{path} {name}");
        }
    }
    stage.server.stop().await;
}
