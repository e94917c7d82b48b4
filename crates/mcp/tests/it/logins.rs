//! Logins at remote servers, against a real authorization server.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use everturn::ErrorOutcome;
use everturn::core::ids::ChatId;
use everturn_mcp::{
    LoginError, LoginFlow, LoginOptions, Logins, McpServers, ServerConfig, ServerEntry, ServerScope, ServerState,
    StartFailureKind,
};
use futures_util::future::join_all;
use serde_json::json;

use crate::oauth_site::OauthSite;
use crate::{Scratch, checked, context, tool};

const OWNER: &str = "ada";

fn config(site: &OauthSite, scope: ServerScope) -> ServerConfig {
    checked("x", ServerEntry { url: Some(site.url()), scope: Some(scope), ..ServerEntry::default() })
}

fn servers(scratch: &Scratch, site: &OauthSite) -> McpServers {
    scratch.servers([config(site, ServerScope::Owner)])
}

fn logins(scratch: &Scratch) -> Logins {
    Logins::new(scratch.path("data"))
}

async fn begin(config: &ServerConfig) -> LoginFlow {
    let options = LoginOptions { owner: OWNER.into(), redirect: "http://127.0.0.1:1/callback".into(), scope: None };
    LoginFlow::begin(config, &options).await.unwrap()
}

/// Opens the address of a login as a browser does, and says where that ends.
async fn browse(flow: &LoginFlow) -> String {
    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let answer = browser.get(flow.address.clone()).send().await.unwrap();
    answer.headers()["location"].to_str().unwrap().to_owned()
}

async fn log_in(scratch: &Scratch, config: &ServerConfig) {
    let flow = begin(config).await;
    let back = browse(&flow).await;
    flow.finish(&back, &logins(scratch)).await.unwrap();
}

/// Calls the tool in the name of an owner.
async fn echo(servers: &McpServers, owner: &str) -> Result<String, everturn::ToolError> {
    let mut context = context();
    context.owner = owner.into();
    context.chat = ChatId::from_u128(if owner == OWNER { 1 } else { 2 });
    let output = tool(servers, "x", "echo").run(context, json!({"a": 1})).await?.output().unwrap();
    Ok(String::from_utf8(output.bytes).unwrap())
}

fn files(scratch: &Scratch) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(scratch.path("data/logins/x")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|kind| kind == "json")).collect()
}

/// TM15: a server that wants a login says so at once. After the login it works without a restart, and what is stored can be
/// read by its user only and is shown nowhere.
#[tokio::test]
async fn a_login_needs_no_restart() {
    let scratch = Scratch::new();
    let site = OauthSite::start().await;
    let servers = servers(&scratch, &site);
    let failure = servers.learn("x").await.unwrap_err();
    assert_eq!(failure.kind, StartFailureKind::NeedsLogin);
    let why = "the server refused the credentials (HTTP 401): log in with `everturn mcp login x`";
    assert_eq!(failure.reason, why);
    assert_eq!(servers.status("x").unwrap().state, ServerState::NeedsLogin);
    log_in(&scratch, servers.config("x").unwrap()).await;
    assert_eq!(servers.status("x").unwrap().state, ServerState::Configured, "the login was noticed");
    servers.learn("x").await.unwrap();
    assert_eq!(echo(&servers, OWNER).await.unwrap(), r#"{"a":1}"#);
    let file = &files(&scratch)[0];
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(file).unwrap().contains("secret-access"));
    let status = servers.status("x").unwrap();
    let shown = format!("{status:?} {:?} {:?}", servers.config("x").unwrap(), logins(&scratch).at("x"));
    assert!(!shown.contains("secret-"), "{shown}");
    assert!(logins(&scratch).remove("x", OWNER).unwrap());
    assert!(logins(&scratch).at("x").is_empty());
}

/// TM15: an access token that is refused is renewed once, whatever number of calls of two processes meet that: a refresh
/// token that is used twice would end the login. No call is lost or made twice.
#[tokio::test]
async fn a_login_is_renewed_once() {
    let scratch = Scratch::new();
    let site = OauthSite::start().await;
    let both = [servers(&scratch, &site), servers(&scratch, &site)];
    log_in(&scratch, both[0].config("x").unwrap()).await;
    for servers in &both {
        servers.learn("x").await.unwrap();
        echo(servers, OWNER).await.unwrap();
    }
    site.revoke_access();
    let calls = both.iter().flat_map(|servers| (0..8).map(move |_| echo(servers, OWNER)));
    for result in join_all(calls).await {
        assert_eq!(result.unwrap(), r#"{"a":1}"#);
    }
    assert_eq!((site.renewals(), site.calls()), (1, 18));
}

/// A token that expires soon is renewed before it is sent.
#[tokio::test]
async fn a_token_is_renewed_before_it_expires() {
    let scratch = Scratch::new();
    let site = OauthSite::start().await;
    site.expire_in(10);
    let servers = servers(&scratch, &site);
    log_in(&scratch, servers.config("x").unwrap()).await;
    site.expire_in(3_600);
    servers.learn("x").await.unwrap();
    echo(&servers, OWNER).await.unwrap();
    assert_eq!(site.renewals(), 1);
    assert!(!site.sent().contains(&"secret-access-1".to_owned()), "{:?}", site.sent());
}

/// A login that cannot be renewed wants another one; one whose authorization server is down is tried again.
#[tokio::test]
async fn a_login_that_is_refused_is_needed_again() {
    let scratch = Scratch::new();
    let site = OauthSite::start().await;
    let servers = servers(&scratch, &site);
    log_in(&scratch, servers.config("x").unwrap()).await;
    servers.learn("x").await.unwrap();
    echo(&servers, OWNER).await.unwrap();
    site.revoke_access();
    site.fail_with(Some(503));
    let error = echo(&servers, OWNER).await.unwrap_err();
    assert_eq!(error.outcome, ErrorOutcome::Failed, "it was not run");
    assert!(error.message.contains("the authorization server failed: HTTP 503"), "{error}");
    site.fail_with(None);
    echo(&servers, OWNER).await.unwrap();
    site.revoke_all();
    let error = echo(&servers, OWNER).await.unwrap_err();
    assert!(
        error.message.contains("the authorization server refused") || error.message.contains("log in with"),
        "{error}"
    );
    assert_eq!(servers.status("x").unwrap().state, ServerState::NeedsLogin);
    assert_eq!((logins(&scratch).at("x").len(), logins(&scratch).at("x")[0].is_usable), (1, false));
    log_in(&scratch, servers.config("x").unwrap()).await;
    echo(&servers, OWNER).await.unwrap();
}

/// A login is that of its owner, unless the server's entry says that all share it.
#[tokio::test]
async fn a_login_is_its_owners() {
    for (scope, others_may) in [(ServerScope::Owner, false), (ServerScope::Chat, false), (ServerScope::Daemon, true)] {
        let scratch = Scratch::new();
        let site = OauthSite::start().await;
        let servers = scratch.servers([config(&site, scope)]);
        log_in(&scratch, servers.config("x").unwrap()).await;
        servers.learn("x").await.unwrap();
        echo(&servers, OWNER).await.unwrap();
        let other = echo(&servers, "eve").await;
        assert_eq!(other.is_ok(), others_may, "{scope:?}: {other:?}");
        assert_eq!(site.calls(), 1 + usize::from(others_may), "{scope:?}");
    }
}

/// A token goes to the address that it was given for, and to no other.
#[tokio::test]
async fn a_token_goes_to_no_other_address() {
    let scratch = Scratch::new();
    let (site, other) = (OauthSite::start().await, OauthSite::start().await);
    log_in(&scratch, &config(&site, ServerScope::Owner)).await;
    let moved = servers(&scratch, &other);
    assert_eq!(moved.learn("x").await.unwrap_err().kind, StartFailureKind::NeedsLogin);
    assert_eq!(other.sent(), Vec::<String>::new());
}

/// What comes back from the browser must belong to the login. A code that a person copied alone does, by its verifier.
#[tokio::test]
async fn what_comes_back_is_checked() {
    let scratch = Scratch::new();
    let site = OauthSite::start().await;
    let config = config(&site, ServerScope::Owner);
    let finish = async |change: &dyn Fn(String) -> String| {
        let flow = begin(&config).await;
        let back = browse(&flow).await;
        flow.finish(&change(back), &logins(&scratch)).await
    };
    let without = |back: &str, field: &str| {
        let (before, query) = back.split_once('?').unwrap();
        let kept: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with(field)).collect();
        format!("{before}?{}", kept.join("&"))
    };
    for (change, told) in [
        (&(|back: String| back.replace("state=", "state=x")) as &dyn Fn(String) -> String, "belongs to another login"),
        (&|back: String| without(&back, "state="), "belongs to another login"),
        (&|back: String| back.replace("issuer", "other"), "is from another authorization server"),
        (&|back: String| without(&back, "iss="), "does not say which authorization server"),
        (&|back: String| format!("{}&error=access_denied", without(&back, "code=")), "access_denied"),
        (&|back: String| without(&back, "code="), "no code came back"),
        (&|_| String::new(), "nothing came back"),
        (&|_| "guessed".into(), "invalid_grant"),
    ] {
        let error = finish(change).await.unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
        assert!(files(&scratch).is_empty(), "{told}");
    }
    let code = |back: String| back.split(['=', '&']).nth(1).unwrap().to_owned();
    finish(&code).await.unwrap();
    assert_eq!(files(&scratch).len(), 1);
}

/// A server without logins, and one with credentials of its own, say that no login is needed.
#[tokio::test]
async fn a_login_that_is_not_needed_is_told() {
    let scratch = Scratch::new();
    let site = OauthSite::start().await;
    let options = LoginOptions { owner: OWNER.into(), redirect: "http://127.0.0.1:1/callback".into(), scope: None };
    let headers = [("Authorization".to_owned(), "Bearer own".to_owned())].into();
    let own = checked("x", ServerEntry { url: Some(site.url()), headers, ..ServerEntry::default() });
    for config in [own, scratch.config("x", &[])] {
        let error = LoginFlow::begin(&config, &options).await.unwrap_err();
        assert!(matches!(error, LoginError::NotNeeded(_)), "{error}");
    }
    assert_eq!(site.registrations(), 0);
}

/// One process for all chats of an owner, one for each chat, or one for all.
#[tokio::test]
async fn the_scope_of_a_server_says_who_shares_a_process() {
    for (scope, processes) in [(None, 2), (Some(ServerScope::Chat), 3), (Some(ServerScope::Daemon), 1)] {
        let scratch = Arc::new(Scratch::new());
        let entry = ServerEntry { scope, ..scratch.entry("x", &["--speaks", "2026-07-28"]) };
        let servers = scratch.servers([checked("x", entry)]);
        servers.learn("x").await.unwrap();
        let begins = |scratch: &Scratch| scratch.methods("x").iter().filter(|method| *method == "tools/list").count();
        let before = begins(&scratch);
        for (owner, chat) in [("ada", 1), ("ada", 2), ("eve", 3), ("ada", 1)] {
            let mut context = context();
            (context.owner, context.chat) = (owner.into(), ChatId::from_u128(chat));
            tool(&servers, "x", "echo").run(context, json!({})).await.unwrap();
        }
        assert_eq!(begins(&scratch) - before, processes, "{scope:?}");
    }
}
