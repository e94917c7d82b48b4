//! One stream for many chats.

use std::sync::Arc;
use std::time::Duration;

use everturn::stores::{Scope, TokenHash, Tokens as _};
use everturn_server::ServerLimits;
use everturn_server::wire::{Followers, Status, View};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::json;
use tokio::time::timeout;

use crate::reader::reply;
use crate::stage::{Stage, TOKEN, answer, kind};

const PATIENCE: Duration = Duration::from_secs(60);

/// A client of the stream over many chats.
struct Watcher {
    response: Response,
    rest: String,
    followers: Followers,
    comments: Vec<String>,
    gone: Vec<String>,
}

fn id(path: &str) -> String {
    path.rsplit('/').next().unwrap().to_owned()
}

impl Watcher {
    async fn open(request: RequestBuilder, followers: Followers) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, rest: String::new(), followers, comments: Vec::new(), gone: Vec::new() }
    }

    async fn resume(stage: &Stage, mut followers: Followers) -> Self {
        let request = stage.ask(Method::GET, &format!("/v1/stream?chats={}", followers.cut()));
        Self::open(request, followers).await
    }

    /// Follows these chats and the list.
    async fn of(stage: &Stage, chats: &[&String]) -> Self {
        Self::resume(stage, Followers::new(chats.iter().map(|chat| id(chat)))).await
    }

    /// Folds the complete events received. The understudy's text is ASCII, so no cut is inside a character.
    fn take(&mut self, bytes: &[u8]) {
        self.rest.push_str(std::str::from_utf8(bytes).unwrap());
        while let Some(end) = self.rest.find("\n\n") {
            let event: String = self.rest.drain(..end + 2).collect();
            let (mut name, mut data) = (None, None);
            for line in event.trim_end().lines() {
                match line.split_once(": ") {
                    Some(("event", value)) => name = Some(value),
                    Some(("data", value)) => assert_eq!(data.replace(value), None, "data is one line"),
                    Some(("", comment)) => self.comments.push(comment.into()),
                    Some(("retry", _)) => {}
                    _ => panic!("not a line of this protocol: {line}"),
                }
            }
            let (Some(name), Some(data)) = (name, data) else { continue };
            if name == "gone" {
                let data: serde_json::Value = serde_json::from_str(data).unwrap();
                self.gone.push(data["chat"].as_str().unwrap().into());
            }
            self.followers.take(name, data).unwrap();
        }
    }

    async fn until(&mut self, is_so: impl Fn(&Self) -> bool) {
        while !is_so(self) {
            let chunk = timeout(PATIENCE, self.response.chunk()).await.expect("the stream is silent").unwrap();
            self.take(&chunk.unwrap_or_else(|| panic!("it has ended: {:?}", self.comments)));
        }
    }

    async fn until_the_end(&mut self) {
        while let Some(chunk) = timeout(PATIENCE, self.response.chunk()).await.expect("the stream is silent").unwrap() {
            self.take(&chunk);
        }
    }

    /// Reads at most `bytes` bytes, then drops the connection.
    async fn cut_after(mut self, bytes: usize) -> Followers {
        let mut read = 0;
        while read < bytes && !all_rest(&self.followers) {
            let Ok(Ok(Some(more))) = timeout(PATIENCE, self.response.chunk()).await else { break };
            let more = &more[..more.len().min(bytes - read)];
            read += more.len();
            self.take(more);
        }
        self.followers
    }

    fn view(&self, chat: &str) -> &View {
        self.followers.chats()[&id(chat)].view()
    }

    fn title(&self, chat: &str) -> Option<&str> {
        self.followers.list().get(&id(chat)).map(|heading| heading.title.as_str())
    }
}

fn rests(view: &View) -> bool {
    view.status.as_ref().is_some_and(|status| status.status == Status::Idle && status.ended.is_some())
}

fn all_rest(followers: &Followers) -> bool {
    followers.chats().values().all(|follower| rests(follower.view()))
}

/// A cursor paired with another chat's id is rejected, although both chats have the same version.
#[tokio::test]
async fn cursors_are_not_mixed_up() {
    let stage = Stage::new().await;
    let chats = [stage.talk("numbered", &["count to 9"]).await, stage.talk("numbered", &["count to 9"]).await];
    let mut watcher = Watcher::of(&stage, &[&chats[0], &chats[1]]).await;
    watcher.until(|watcher| all_rest(&watcher.followers)).await;
    let cut = watcher.followers.cut();
    let [one, other] = cut.split(',').map(|each| each.split_once('@').unwrap()).collect::<Vec<_>>()[..] else {
        panic!("{cut}")
    };
    let path = format!("/v1/stream?chats={}@{},{}@{}&list=false", one.0, other.1, other.0, one.1);
    let anew = Followers::new(chats.iter().map(|chat| id(chat)));
    let mut mixed = Watcher::open(stage.ask(Method::GET, &path), anew).await;
    mixed.until(|mixed| all_rest(&mixed.followers)).await;
    for chat in &chats {
        assert_eq!(mixed.view(chat), watcher.view(chat));
    }
    stage.server.stop().await;
}

/// Clients of many chats that are cut at random bytes and resume end with the server's view of every chat.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_and_resumed_streams_end_with_the_servers_view() {
    let stage = Arc::new(Stage::with(ServerLimits::default(), Duration::from_millis(1)).await);
    let mut chats = Vec::new();
    for _ in 0..4 {
        chats.push(stage.chat("numbered").await);
    }
    let clients = (0..12_u64).map(|seed| {
        let (stage, chats) = (stage.clone(), chats.clone());
        tokio::spawn(async move {
            let (mut seed, mut cuts) = (seed, 0);
            let mut followers = Followers::new(chats.iter().map(|chat| id(chat)));
            while !all_rest(&followers) {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let watcher = Watcher::resume(&stage, followers).await;
                followers = watcher.cut_after(1 + (seed >> 33) as usize % 9_000).await;
                cuts += 1;
            }
            (followers, cuts)
        })
    });
    let clients: Vec<_> = clients.collect();
    for (chat, n) in chats.iter().zip([150, 100, 50, 200]) {
        stage.say(chat, &format!("count to {n}")).await;
    }
    let mut cuts_all = 0;
    for client in clients {
        let (followers, cuts) = client.await.unwrap();
        cuts_all += cuts;
        for (chat, n) in chats.iter().zip([150, 100, 50, 200]) {
            let view = followers.chats()[&id(chat)].view();
            assert_eq!(*view, stage.view(chat).await);
            assert_eq!(reply(view).split(' ').count(), n);
        }
    }
    assert!(cuts_all > 60, "only {cuts_all} cuts");
}

/// The list and the followed chats show a message from the moment it is accepted.
#[tokio::test]
async fn an_accepted_message_is_shown_before_it_is_applied() {
    let (stage, store) = Stage::sluggish(ServerLimits::default()).await;
    let chat = stage.talk("numbered", &["count to 2"]).await;
    let mut earlier = Watcher::of(&stage, &[&chat]).await;
    earlier.until(|watcher| all_rest(&watcher.followers) && watcher.title(&chat).is_some()).await;
    store.commits.shut();
    let receipt = stage.say(&chat, "count to 3").await;
    let runs = |watcher: &Watcher| {
        let listed = watcher.followers.list().get(&id(&chat)).map(|heading| heading.status);
        let followed = watcher.view(&chat).status.as_ref().map(|status| (status.status, status.unanswered.clone()));
        listed == Some(Status::Running) && followed == Some((Status::Running, vec![receipt]))
    };
    let mut later = Watcher::of(&stage, &[&chat]).await;
    later.until(|watcher| watcher.view(&chat).status.is_some() && watcher.title(&chat).is_some()).await;
    assert!(runs(&later), "it begins with it");
    earlier.until(runs).await;
    store.commits.open();
    earlier.until(|watcher| all_rest(&watcher.followers)).await;
    stage.server.stop().await;
}

/// New chats, titles and statuses are sent without a request; nothing of another owner is.
#[tokio::test]
async fn the_list_is_kept_up_to_date() {
    let stage = Stage::new().await;
    let other = "evt_of-somebody-else-who-makes-chats-too";
    stage.grant(other, "you", &Scope::ALL).await;
    let old = stage.talk("numbered", &["count to 2"]).await;
    let mut watcher = Watcher::of(&stage, &[]).await;
    watcher.until(|watcher| watcher.title(&old) == Some("count to 2")).await;
    let theirs =
        stage.client.post(format!("{}/v1/chats", stage.base)).bearer_auth(other).json(&json!({"title": "Theirs"}));
    let (_, theirs) = answer(theirs.send().await.unwrap()).await;
    let (_, new) = stage.post("/v1/chats", json!({"title": "New"})).await;
    let new = format!("/v1/chats/{}", new["id"].as_str().unwrap());
    watcher.until(|watcher| watcher.title(&new) == Some("New")).await;
    stage.send(Method::PATCH, &old, json!({"title": "Renamed"})).await;
    watcher.until(|watcher| watcher.title(&old) == Some("Renamed")).await;
    let asks = stage.chat("asks").await;
    stage.say(&asks, "Show me Oslo").await;
    let awaits = |watcher: &Watcher| {
        watcher.followers.list().get(&id(&asks)).is_some_and(|heading| heading.status == Status::Awaiting)
    };
    watcher.until(awaits).await;
    let delete = async |chat: &str, token: &str| {
        let request = stage.client.delete(format!("{}{chat}", stage.base)).bearer_auth(token);
        assert_eq!(request.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    };
    let theirs = theirs["id"].as_str().unwrap();
    delete(&format!("/v1/chats/{theirs}"), other).await;
    delete(&old, TOKEN).await;
    watcher.until(|watcher| !watcher.gone.is_empty()).await;
    assert_eq!(watcher.gone, [id(&old)]);
    assert_eq!(watcher.title(&old), None);
    let mut known: Vec<&String> = watcher.followers.list().keys().collect();
    known.sort();
    let mut mine = [id(&new), id(&asks)];
    mine.sort();
    assert_eq!(known, mine.iter().collect::<Vec<_>>());
    stage.server.stop().await;
}

/// A followed chat that is deleted gets a `gone` event, and the other chats go on. A missing chat, or one of
/// another owner, gets it at once.
#[tokio::test]
async fn chats_that_are_gone_are_told() {
    let stage = Stage::new().await;
    stage.grant("evt_of-somebody-else-who-may-do-anything", "you", &Scope::ALL).await;
    let theirs = stage.client.post(format!("{}/v1/chats", stage.base)).json(&json!({}));
    let theirs = answer(theirs.bearer_auth("evt_of-somebody-else-who-may-do-anything").send().await.unwrap()).await.1;
    let (kept, lost) = (stage.chat("numbered").await, stage.chat("numbered").await);
    let (theirs, nobodys) = (theirs["id"].as_str().unwrap().to_owned(), "00000000000000000000000000".to_owned());
    let mut watcher = Watcher::of(&stage, &[&kept, &lost, &theirs, &nobodys]).await;
    watcher.until(|watcher| watcher.view(&kept).status.is_some() && watcher.view(&lost).status.is_some()).await;
    let mut gone = watcher.gone.clone();
    gone.sort();
    assert_eq!(gone, [nobodys, theirs]);
    stage.ask(Method::DELETE, &lost).send().await.unwrap();
    watcher.until(|watcher| watcher.gone.contains(&id(&lost))).await;
    stage.say(&kept, "count to 3").await;
    watcher.until(|watcher| rests(watcher.view(&kept))).await;
    assert_eq!(*watcher.view(&kept), stage.view(&kept).await);
    stage.server.stop().await;
}

/// The stream over many chats has the same keep-alive, end and limits as every other stream.
#[tokio::test]
async fn it_lives_and_ends_like_every_stream() {
    let soon = Duration::from_millis(20);
    let limits = ServerLimits { recheck: soon, heartbeat: soon, streams_max: 2, ..ServerLimits::default() };
    let stage = Stage::with(limits, Duration::ZERO).await;
    let secret = "evt_of-a-device-that-will-be-lost-soon";
    stage.grant(secret, "me", &[Scope::Read]).await;
    let lost = stage.client.get(format!("{}/v1/stream", stage.base)).bearer_auth(secret);
    let mut lost = Watcher::open(lost, Followers::default()).await;
    let (mut one, _two) = (Watcher::of(&stage, &[]).await, Watcher::of(&stage, &[]).await);
    let (status, problem) = stage.get("/v1/stream").await;
    assert_eq!((status, kind(&problem)), (StatusCode::TOO_MANY_REQUESTS, "too-many"));
    one.until(|one| one.comments.iter().filter(|comment| *comment == "still here").count() > 2).await;
    stage.memory.revoke(&TokenHash::of(secret), stage.engine.now()).await.unwrap();
    lost.until_the_end().await;
    assert_eq!(lost.comments.last().unwrap(), "bye, the token is not good any more");
    tokio::join!(stage.server.stop(), async {
        one.until_the_end().await;
        assert_eq!(one.comments.last().unwrap(), "bye, the server is going down");
    });
}

/// Too many chats and invalid ids are refused; the list can be left out.
#[tokio::test]
async fn invalid_sets_of_chats_are_refused() {
    let stage = Stage::new().await;
    let chat = stage.chat("numbered").await;
    let many: Vec<String> = (0..33).map(|n| format!("{n:026}")).collect();
    for chats in [many.join(",").as_str(), "x", "../x", &format!("{};", id(&chat))] {
        let (status, problem) = stage.get(&format!("/v1/stream?chats={chats}")).await;
        assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{chats}");
    }
    let request = stage.ask(Method::GET, &format!("/v1/stream?list=false&chats={}@nonsense", id(&chat)));
    let mut watcher = Watcher::open(request, Followers::new([id(&chat)])).await;
    watcher.until(|watcher| watcher.view(&chat).status.is_some()).await;
    stage.say(&chat, "count to 2").await;
    watcher.until(|watcher| rests(watcher.view(&chat))).await;
    assert!(watcher.followers.list().is_empty());
    stage.server.stop().await;
}

/// More deletes at once than are tracked one by one: the list is sent again without any of the deleted chats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chats_deleted_at_once_all_leave_the_list() {
    let stage = Stage::new().await;
    let mut watcher = Watcher::of(&stage, &[]).await;
    for round in 0..3 {
        let made = futures_util::future::join_all((0..60).map(|_| stage.chat("numbered"))).await;
        watcher.until(|watcher| watcher.followers.list().len() >= 50).await;
        let deletes = made.iter().map(|chat| stage.ask(Method::DELETE, chat).send());
        for deleted in futures_util::future::join_all(deletes).await {
            assert_eq!(deleted.unwrap().status(), StatusCode::NO_CONTENT, "round {round}");
        }
        watcher.until(|watcher| watcher.followers.list().is_empty()).await;
    }
    stage.server.stop().await;
}

/// A slow read of the list delays no event of the followed chats.
#[tokio::test]
async fn a_slow_list_holds_up_no_chat() {
    let (stage, store) = Stage::sluggish(ServerLimits::default()).await;
    let chat = stage.chat("numbered").await;
    store.lists.shut();
    let mut watcher = Watcher::of(&stage, &[&chat]).await;
    timeout(PATIENCE, store.lists.until(1)).await.expect("it is asked for");
    let id_of: everturn::core::ids::ChatId = id(&chat).parse().unwrap();
    stage.engine.chat(id_of).send("count to 3").await.unwrap(); // Not over HTTP: a request would read the list too.
    watcher.until(|watcher| rests(watcher.view(&chat))).await;
    assert_eq!(watcher.title(&chat), None, "the list has not been sent");
    store.lists.open();
    watcher.until(|watcher| watcher.title(&chat) == Some("count to 3")).await;
    stage.server.stop().await;
}

/// A stream over many chats loads a few of them at the same time, not all.
#[tokio::test]
async fn a_stream_begins_with_a_few_glances_at_a_time() {
    let (stage, store) = Stage::sluggish(ServerLimits::default()).await;
    let mut chats = Vec::new();
    for _ in 0..12 {
        chats.push(stage.chat("numbered").await);
    }
    store.glances.shut();
    let opened = async {
        let chats: Vec<&String> = chats.iter().collect();
        Watcher::of(&stage, &chats).await
    };
    let ((), mut watcher) = tokio::join!(
        async {
            timeout(PATIENCE, store.glances.until(4)).await.expect("they are looked at");
            store.glances.open();
        },
        opened
    );
    watcher.until(|watcher| chats.iter().all(|chat| watcher.view(chat).status.is_some())).await;
    assert_eq!(store.glances.most(), 4);
    stage.server.stop().await;
}
