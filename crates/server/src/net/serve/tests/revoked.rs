//! The streams of a revoked token end within five seconds, whatever else goes wrong.

use std::future::pending;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use async_trait::async_trait;
use everturn::stores::{IdempotencyRecord, StoreError};

use super::*;

/// The promised time.
const NOTICED: Duration = Duration::from_secs(5);

/// A token store that can be unavailable.
#[derive(Default)]
struct Away {
    memory: Arc<Memory>,
    how: AtomicU8,
}

const HERE: u8 = 0;
const BROKEN: u8 = 1;
const SILENT: u8 = 2;

#[async_trait]
impl Tokens for Away {
    async fn put(&self, token: &Token) -> Result<(), StoreError> {
        self.memory.put(token).await
    }

    async fn find(&self, hash: &TokenHash) -> Result<Option<Token>, StoreError> {
        match self.how.load(Ordering::Relaxed) {
            HERE => self.memory.find(hash).await,
            BROKEN => Err(StoreError::Unavailable("on purpose".into())),
            _ => pending().await,
        }
    }

    async fn list(&self) -> Result<Vec<Token>, StoreError> {
        self.memory.list().await
    }

    async fn revoke(&self, hash: &TokenHash, at: Timestamp) -> Result<(), StoreError> {
        self.memory.revoke(hash, at).await
    }

    async fn exchange(&self, code: &TokenHash, session: &Token) -> Result<bool, StoreError> {
        self.memory.exchange(code, session).await
    }

    async fn forget(&self, before: Timestamp) -> Result<(), StoreError> {
        self.memory.forget(before).await
    }

    async fn remember(&self, asked: &IdempotencyRecord) -> Result<IdempotencyRecord, StoreError> {
        self.memory.remember(asked).await
    }

    async fn recall(&self, owner: &str, key: &str) -> Result<Option<IdempotencyRecord>, StoreError> {
        self.memory.recall(owner, key).await
    }
}

/// Waits until no stream is open, and checks that it took no longer than promised.
async fn noticed(app: &SharedApp) {
    let began = Instant::now();
    while app.meter.streams.get() > 0 {
        assert!(began.elapsed() < NOTICED, "a stream is still open");
        sleep(Duration::from_millis(100)).await;
    }
}

/// With the default limits, and at any moment between two checks.
#[tokio::test(start_paused = true)]
async fn a_revoked_token_is_noticed_in_time() {
    for after in [0, 1_500, 2_999, 3_001, 10_000] {
        let memory = Arc::new(Memory::new());
        let app = app(&memory, ServerLimits::default()).await;
        let chat = chat_with(&app, json!({"text": "hello"})).await;
        let mut reader = come(&app);
        reader.write_all(head(&format!("{chat}/stream")).as_bytes()).await.unwrap();
        until(|| app.meter.streams.get() == 1).await;
        sleep(Duration::from_millis(after)).await;
        memory.revoke(&TokenHash::of(SECRET), app.now()).await.unwrap();
        noticed(&app).await;
        let mut read = [0; 64 * 1024];
        let len = reader.read(&mut read).await.unwrap();
        let told = String::from_utf8_lossy(&read[..len]);
        assert!(told.contains(": bye, the token is not good any more"), "it is told: {told}");
        assert_eq!(app.meter.readers_cut.get(), 0);
    }
}

/// A client that does not read gets no reason, but is cut: in HTTP/1.1 with its connection, in HTTP/2 without affecting the
/// other streams on it; and its memory is freed.
#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_read_is_cut_too() {
    for is_one in [true, false] {
        let memory = Arc::new(Memory::new());
        let app = app(&memory, ServerLimits::default()).await;
        let chat = chat_with(&app, json!({"text": "x".repeat(300_000)})).await;
        let many = format!("/v1/stream?chats={}", &chat["/v1/chats/".len()..]);
        let path = if is_one { format!("{chat}/stream") } else { many };
        let ((client, connection), mut mute) = (come_mute(&app).await, come_with(&app, 1_000));
        mute.write_all(head(&path).as_bytes()).await.unwrap();
        let (_one, _two) = (get(&client, &path).await, get(&client, &format!("{chat}/export")).await);
        until(|| app.meter.streams.get() == 2 && app.answers.free() < app.limits.answers_bytes_max).await;
        memory.revoke(&TokenHash::of(SECRET), app.now()).await.unwrap();
        noticed(&app).await;
        sleep(SECOND).await;
        assert_eq!(app.meter.readers_cut.get(), 3);
        assert_eq!(app.answers.free(), app.limits.answers_bytes_max);
        let mut rest = Vec::new();
        mute.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() <= 1_000, "{} bytes", rest.len());
        assert_eq!(get(&client, "/v1/models").await.status(), 401, "there is an answer, if only this");
        assert!(!connection.is_finished());
    }
}

/// The wall clock decides when a token expires, also after the clock was set: for requests, and for open streams.
#[tokio::test(start_paused = true)]
async fn a_token_is_over_when_the_wall_clock_says_so() {
    static SET_BY: AtomicI64 = AtomicI64::new(0);
    let memory = Arc::new(Memory::new());
    let app = app_at(&memory, memory.clone(), ServerLimits::default(), |engine| {
        engine.wall_clock(|| Timestamp(1_000_000_000_000 + SET_BY.load(Ordering::SeqCst)))
    });
    memory.put(&token(SECRET, Some(app.now() + SECOND * 3_600))).await.unwrap();
    let (_, chat) = ask(&app, "POST", "/v1/chats", json!({})).await;
    let mut reader = come(&app);
    reader.write_all(head(&format!("/v1/chats/{}/stream", chat["id"].as_str().unwrap())).as_bytes()).await.unwrap();
    until(|| app.meter.streams.get() == 1).await;
    assert_eq!(ask(&app, "GET", "/v1/models", json!({})).await.0, 200);
    SET_BY.fetch_add(86_400_000, Ordering::SeqCst);
    assert_eq!(ask(&app, "GET", "/v1/models", json!({})).await.0, 401);
    noticed(&app).await;
}

/// An expired token is refused while the store is unavailable or hangs; a token that has not expired goes on.
#[tokio::test(start_paused = true)]
async fn an_expired_token_needs_no_store() {
    for how in [BROKEN, SILENT] {
        let away = Arc::new(Away::default());
        let app = app_with(&away.memory, away.clone(), ServerLimits::default());
        away.put(&token(SECRET, Some(app.now() + SECOND * 60))).await.unwrap();
        let chat = chat_with(&app, json!({"text": "hello"})).await;
        let mut reader = come(&app);
        reader.write_all(head(&format!("{chat}/stream")).as_bytes()).await.unwrap();
        until(|| app.meter.streams.get() == 1).await;
        away.how.store(how, Ordering::Relaxed);
        sleep(SECOND * 50).await;
        assert_eq!(app.meter.streams.get(), 1, "no stream is cut because the store is unavailable");
        sleep(SECOND * 10).await;
        noticed(&app).await;
    }
}
