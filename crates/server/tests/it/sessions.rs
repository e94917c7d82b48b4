//! The web page and its sessions: files without a token, everything else with both halves of a session.

use std::time::Duration;

use everturn::core::ids::Timestamp;
use everturn::stores::{Scope, TokenHash, Tokens as _};
use everturn_server::{ServerLimits, openapi};
use reqwest::header::{HeaderMap, SET_COOKIE};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::stage::{PAGE, Stage, TOKEN, answer, kind};

/// Both halves of a session.
#[derive(Debug, Clone)]
struct Halves {
    cookie: String,
    key: String,
}

impl Halves {
    fn on(&self, request: RequestBuilder) -> RequestBuilder {
        request
            .header("cookie", &self.cookie)
            .header("x-everturn-key", &self.key)
            .header("sec-fetch-site", "same-origin")
    }
}

async fn log_in(stage: &Stage, proof: Value) -> Response {
    let request = stage.client.post(format!("{}/v1/session", stage.base)).header("origin", &stage.base);
    request.header("sec-fetch-site", "same-origin").json(&proof).send().await.unwrap()
}

async fn code(stage: &Stage) -> String {
    let (status, made) = stage.post("/v1/codes", json!({})).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    made["code"].as_str().unwrap().to_owned()
}

async fn session(stage: &Stage) -> Halves {
    let response = log_in(stage, json!({"code": code(stage).await})).await;
    assert_eq!(response.status(), StatusCode::CREATED);
    let cookie = response.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    let key = answer(response).await.1["key"].as_str().unwrap().to_owned();
    Halves { cookie, key }
}

fn get(stage: &Stage, path: &str) -> RequestBuilder {
    stage.client.get(format!("{}{path}", stage.base))
}

/// PG36: a code opens one session, which has the scopes and the owner of the token. It works once.
#[tokio::test]
async fn a_code_works_once() {
    let stage = Stage::new().await;
    let code = code(&stage).await;
    let response = log_in(&stage, json!({"code": code})).await;
    assert_eq!(response.status(), StatusCode::CREATED);
    let set = response.headers()[SET_COOKIE].to_str().unwrap().to_owned();
    let port = stage.server.address().port();
    assert!(set.starts_with(&format!("everturn-{port}=")), "{set}");
    for part in ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43200"] {
        assert!(set.contains(part), "{set} lacks {part}");
    }
    let (_, made) = answer(response).await;
    assert_eq!(made["owner"], "me");
    assert_eq!(made["scopes"], json!(["read", "chat", "approve", "admin", "metrics"]));
    let halves = Halves { cookie: set.split(';').next().unwrap().into(), key: made["key"].as_str().unwrap().into() };
    let (status, who) = answer(halves.on(get(&stage, "/v1/session")).send().await.unwrap()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&who["id"], &who["stand_in"], &who["page"]), (&made["id"], &json!(true), &json!("0123456789abcdef")));
    let again = answer(log_in(&stage, json!({"code": code})).await).await;
    assert_eq!((again.0, kind(&again.1)), (StatusCode::UNAUTHORIZED, "unauthorized"));
    for wrong in [json!({}), json!({"code": "x", "token": TOKEN})] {
        assert_eq!(log_in(&stage, wrong).await.status(), StatusCode::UNPROCESSABLE_ENTITY);
    }
    stage.server.stop().await;
}

/// PG36: a code is not valid after a minute, under another host, or from a page of another site; neither is one of a
/// token that was revoked meanwhile. Guesses are counted.
#[tokio::test]
async fn a_code_works_nowhere_else() {
    let stage = Stage::befriending("https://friend.example").await;
    let login = |code: &str| stage.client.post(format!("{}/v1/session", stage.base)).json(&json!({"code": code}));
    let fresh = code(&stage).await;
    let misdirected = login(&fresh).header("host", "evil.example").send().await.unwrap();
    assert_eq!(misdirected.status(), StatusCode::MISDIRECTED_REQUEST);
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "http://127.0.0.1:1"),
        ("origin", "https://friend.example"), // May use the API with a token, and gets no session.
    ] {
        let response = login(&fresh).header(name, value).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{name}: {value}");
    }
    assert_eq!(log_in(&stage, json!({"code": fresh})).await.status(), StatusCode::CREATED, "none of them used it up");

    let old = code(&stage).await;
    let hash = TokenHash::of(&format!("everturn code\n{old}"));
    let stored = stage.memory.find(&hash).await.unwrap().unwrap();
    assert_eq!(stored.expires.unwrap().0 - stored.made.0, 60_000);
    stage.memory.forget(Timestamp(stored.expires.unwrap().0 + 1)).await.unwrap(); // As if the minute had passed.
    assert_eq!(log_in(&stage, json!({"code": old})).await.status(), StatusCode::UNAUTHORIZED);

    let orphan = code(&stage).await;
    stage.memory.revoke(&TokenHash::of(TOKEN), Timestamp(1)).await.unwrap();
    assert_eq!(log_in(&stage, json!({"code": orphan})).await.status(), StatusCode::UNAUTHORIZED);
    let mut statuses = Vec::new();
    for guess in 0..12 {
        statuses.push(log_in(&stage, json!({"code": format!("guess-{guess}")})).await.status());
    }
    assert!(statuses.contains(&StatusCode::TOO_MANY_REQUESTS), "{statuses:?}");
    stage.server.stop().await;
}

fn operations() -> Vec<(Method, String)> {
    let document: Value = serde_json::from_str(&openapi().to_json().unwrap()).unwrap();
    let mut operations = vec![(Method::GET, "/openapi.json".to_owned())];
    for (path, methods) in document["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().keys().map(|method| method.to_uppercase().parse().unwrap());
        operations.extend(methods.map(|method: Method| (method, path.clone())));
    }
    let is_open = |(method, path): &(Method, String)| {
        matches!(path.as_str(), "/healthz" | "/readyz") || (method == Method::POST && path == "/v1/session")
    };
    operations.retain(|operation| !is_open(operation));
    assert!(operations.len() > 30);
    operations
}

/// PG37: every route × each half alone, two ways in at once, and every place that is not the page: 401 or 403. Only both
/// halves from the page's own origin pass.
#[tokio::test]
async fn a_session_needs_both_halves_and_the_page() {
    let limits = ServerLimits { failures_max: u32::MAX, ..ServerLimits::default() };
    let stage = Stage::with(limits, Duration::ZERO).await;
    let (one, other) = (session(&stage).await, session(&stage).await);
    let port = stage.server.address().port();
    let renamed = one.cookie.replace(&format!("everturn-{port}"), &format!("everturn-{}", port ^ 1));
    let bearer = format!("Bearer {TOKEN}");
    let (cookie, key) = (("cookie", one.cookie.as_str()), ("x-everturn-key", one.key.as_str()));
    let site = |site| ("sec-fetch-site", site);
    let refused: Vec<Vec<(&str, &str)>> = vec![
        vec![cookie, site("same-origin")],
        vec![key, site("same-origin")],
        vec![cookie, ("x-everturn-key", &other.key), site("same-origin")],
        vec![("cookie", &other.cookie), key, site("same-origin")],
        vec![("cookie", &renamed), key, site("same-origin")],
        vec![cookie, ("authorization", &bearer), site("same-origin")],
        vec![cookie, key, ("authorization", &bearer), site("same-origin")],
        vec![cookie, key, site("same-site")],
        vec![cookie, key, site("cross-site")],
        vec![cookie, key, site("none")],
        vec![cookie, key, site("same-origin"), ("origin", "http://127.0.0.1:1")],
        vec![cookie, key, site("same-origin"), ("origin", "null")],
    ];
    for (method, path) in operations() {
        let id = "00000000000000000000000000";
        let path = path.replace("{id}", id).replace("{number}", "7").replace("{place}", "0").replace("{call}", "7.0");
        let ask = |told: &[(&str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in told {
                headers.insert(name.parse::<reqwest::header::HeaderName>().unwrap(), value.parse().unwrap());
            }
            let request = stage.client.request(method.clone(), format!("{}{path}", stage.base)).headers(headers);
            if method == Method::GET { request } else { request.json(&json!({})) }.send()
        };
        for told in &refused {
            let status = ask(told).await.unwrap().status();
            let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            assert!(is_refused, "{method} {path} with {told:?}: {status}");
        }
        if (method.as_str(), path.as_str()) != ("DELETE", "/v1/session") {
            let status = ask(&[cookie, key, site("same-origin"), ("origin", &stage.base)]).await.unwrap().status();
            assert_ne!(status, StatusCode::UNAUTHORIZED, "{method} {path}");
        }
    }
    stage.server.stop().await;
}

/// PG37: a script in the page cannot make what outlives the page.
#[tokio::test]
async fn a_session_makes_neither_tokens_nor_codes() {
    let stage = Stage::new().await;
    let halves = session(&stage).await;
    for (path, body) in [("/v1/tokens", json!({"name": "n", "scopes": ["read"]})), ("/v1/codes", json!({}))] {
        let request = halves.on(stage.client.post(format!("{}{path}", stage.base)).header("origin", &stage.base));
        let (status, problem) = answer(request.json(&body).send().await.unwrap()).await;
        assert_eq!((status, kind(&problem)), (StatusCode::FORBIDDEN, "scope"), "{path}");
    }
    let (_, tokens) = stage.get("/v1/tokens").await;
    assert_eq!(tokens["tokens"].as_array().unwrap().len(), 1, "sessions are not in the list: {tokens}");
    stage.server.stop().await;
}

/// PG38: a session ends with the token that it was made from, and its streams end within seconds; so does one that
/// is ended by itself. The other sessions go on.
#[tokio::test]
async fn a_session_ends_with_its_token() {
    let limits = ServerLimits { recheck: Duration::from_millis(50), ..ServerLimits::default() };
    let stage = Stage::with(limits, Duration::ZERO).await;
    stage.grant("evt_the-token-of-a-phone-that-was-lost", "me", &[Scope::Read, Scope::Chat]).await;
    let phone = log_in(&stage, json!({"token": "evt_the-token-of-a-phone-that-was-lost"})).await;
    let set = phone.headers()[SET_COOKIE].to_str().unwrap().to_owned();
    assert!(set.contains("Max-Age=2592000"), "30 days without approve and admin: {set}");
    let (_, made) = answer(phone).await;
    let phone = Halves { cookie: set.split(';').next().unwrap().into(), key: made["key"].as_str().unwrap().into() };
    let (desk, laptop) = (session(&stage).await, session(&stage).await);
    let mut stream = phone.on(get(&stage, "/v1/stream")).send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    stage.memory.revoke(&TokenHash::of("evt_the-token-of-a-phone-that-was-lost"), Timestamp(1)).await.unwrap();
    while stream.chunk().await.unwrap().is_some() {} // Ends.
    let who = async |halves: &Halves| halves.on(get(&stage, "/v1/session")).send().await.unwrap().status();
    assert_eq!(who(&phone).await, StatusCode::UNAUTHORIZED);
    let closing = desk.on(stage.client.delete(format!("{}/v1/session", stage.base)));
    let closed = closing.header("origin", &stage.base).send().await.unwrap();
    assert_eq!(closed.status(), StatusCode::NO_CONTENT);
    assert!(closed.headers()[SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!((who(&desk).await, who(&laptop).await), (StatusCode::UNAUTHORIZED, StatusCode::OK));
    let (_, sessions) = stage.get("/v1/sessions").await;
    let [left] = &sessions["sessions"].as_array().unwrap()[..] else { panic!("{sessions}") };
    let (status, _) =
        stage.send(Method::DELETE, &format!("/v1/sessions/{}", left["id"].as_str().unwrap()), json!({})).await;
    assert_eq!((status, who(&laptop).await), (StatusCode::NO_CONTENT, StatusCode::UNAUTHORIZED));
    stage.server.stop().await;
}

/// PG35: the page's files need no token and have exactly these headers; answers of the API have theirs.
#[tokio::test]
async fn the_page_has_its_headers_and_the_api_its_own() {
    let stage = Stage::new().await;
    let told = |response: &Response, name: &str| {
        response.headers().get(name).map_or(String::new(), |value| value.to_str().unwrap().to_owned())
    };
    for (path, status, caching) in [
        ("/", 200, "no-cache"),
        ("/c/01m7pcr7nnv4a5pvzryf680t1f?look=turns", 200, "no-cache"),
        (PAGE[1].path, 200, "public, max-age=31536000, immutable"),
        ("/assets/page-GONEGONE.js", 404, "no-store"),
    ] {
        let response = get(&stage, path).send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), told(&response, "cache-control").as_str()),
            (status, caching),
            "{path}"
        );
        let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; \
                      font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";
        for (name, value) in [
            ("content-security-policy", policy),
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("access-control-allow-origin", ""),
            ("set-cookie", ""),
            ("strict-transport-security", ""),
        ] {
            assert_eq!(told(&response, name), value, "{name} of {path}");
        }
        assert!(told(&response, "permissions-policy").contains("clipboard-write=(self)"), "{path}");
    }
    for (path, status) in [("/v1/chats", 401), ("/v1/nothing", 401), ("/metrics", 401), ("/healthz", 200)] {
        let response = get(&stage, path).send().await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        let policy = "default-src 'none'; frame-ancestors 'none'";
        assert_eq!(told(&response, "content-security-policy"), policy, "{path}");
        assert_eq!(
            (told(&response, "permissions-policy"), told(&response, "x-frame-options")),
            <_>::default(),
            "{path}"
        );
    }
    let posted = stage.client.post(format!("{}/", stage.base)).json(&json!({})).send().await.unwrap();
    assert_eq!(posted.status(), StatusCode::UNAUTHORIZED, "only reading needs no token");
    stage.server.stop().await;
}

/// PG39: under a foreign host name there is no page either. A link of another site opens the document; no other page
/// loads its files, and no frame shows it.
#[tokio::test]
async fn the_page_is_for_its_own_hosts() {
    let stage = Stage::new().await;
    for path in ["/", PAGE[1].path, "/nowhere"] {
        let response = get(&stage, path).header("host", "rebound.example").send().await.unwrap();
        assert_eq!(response.status(), StatusCode::MISDIRECTED_REQUEST, "{path}");
    }
    let from = |path: &str, mode: &str, dest: &str| {
        let request = get(&stage, path).header("sec-fetch-site", "cross-site");
        request.header("sec-fetch-mode", mode).header("sec-fetch-dest", dest).send()
    };
    assert_eq!(from("/", "navigate", "document").await.unwrap().status(), StatusCode::OK);
    for (mode, dest) in [("navigate", "iframe"), ("no-cors", "script"), ("cors", "empty")] {
        for path in ["/", PAGE[1].path] {
            assert_eq!(from(path, mode, dest).await.unwrap().status(), StatusCode::FORBIDDEN, "{path} {mode} {dest}");
        }
    }
    assert_eq!(from("/v1/chats", "navigate", "document").await.unwrap().status(), StatusCode::FORBIDDEN);
    stage.server.stop().await;
}
