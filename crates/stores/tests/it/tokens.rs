//! Tokens, the same in every store.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use everturn_core::ids::Timestamp;
use everturn_stores::{
    IDEMPOTENCY_AGE_MAX, IdempotencyRecord, Memory, Scope, Scopes, Token, TokenHash, TokenKind, Tokens,
};

fn token(secret: &str, made: i64) -> Token {
    Token {
        hash: TokenHash::of(secret),
        name: format!("näme of {secret}"),
        owner: "somebody".into(),
        scopes: [Scope::Read, Scope::Approve].into_iter().collect(),
        made: Timestamp(made),
        expires: Some(Timestamp(1_000)),
        revoked: None,
        kind: TokenKind::Bearer,
    }
}

async fn tokens_are_kept_by_their_hash(tokens: &dyn Tokens) {
    let (first, second) = (token("first", 2), token("second", 1));
    tokens.put(&first).await.unwrap();
    tokens.put(&second).await.unwrap();
    assert_eq!(tokens.find(&first.hash).await.unwrap().as_ref(), Some(&first));
    assert_eq!(tokens.find(&TokenHash::of("third")).await.unwrap(), None);
    assert_eq!(tokens.list().await.unwrap(), [second.clone(), first.clone()]);

    // Made again, a token gains nothing: neither more scopes nor a life after it was taken back.
    tokens.revoke(&first.hash, Timestamp(5)).await.unwrap();
    tokens.revoke(&first.hash, Timestamp(6)).await.unwrap();
    tokens.put(&Token { scopes: Scopes::all(), ..first.clone() }).await.unwrap();
    let revoked = Token { revoked: Some(Timestamp(5)), ..first.clone() };
    assert_eq!(tokens.find(&first.hash).await.unwrap(), Some(revoked));
    tokens.revoke(&TokenHash::of("third"), Timestamp(7)).await.unwrap();
    assert_eq!(tokens.list().await.unwrap().len(), 2);
}

/// I2: the first request under a key of an owner is the one that is stored, for a week.
async fn requests_are_kept_for_a_while(tokens: &dyn Tokens) {
    let asked = |owner: &str, key: &str, what: u8, at: i64| IdempotencyRecord {
        owner: owner.into(),
        key: key.into(),
        request: [what; 32],
        salt: [what; 32],
        at: Timestamp(at),
    };
    let first = asked("me", "k\u{0}", 1, 10);
    assert_eq!(tokens.recall("me", "k\u{0}").await.unwrap(), None);
    assert_eq!(tokens.remember(&first).await.unwrap(), first);
    assert_eq!(tokens.remember(&asked("me", "k\u{0}", 2, 20)).await.unwrap(), first);
    assert_eq!(tokens.recall("me", "k\u{0}").await.unwrap(), Some(first.clone()));
    assert_eq!(tokens.recall("you", "k\u{0}").await.unwrap(), None);
    let theirs = asked("you", "k\u{0}", 3, 10);
    assert_eq!(tokens.remember(&theirs).await.unwrap(), theirs);
    let week = IDEMPOTENCY_AGE_MAX.as_millis() as i64;
    assert_eq!(tokens.remember(&asked("me", "k\u{0}", 4, 10 + week)).await.unwrap(), first, "to the last moment");
    let later = asked("me", "k\u{0}", 5, 11 + week);
    assert_eq!(tokens.remember(&later).await.unwrap(), later);
    assert_eq!(tokens.recall("you", "k\u{0}").await.unwrap(), None, "all that are old are forgotten");
}

/// PG36: a code opens one session, until it expires, and only a code does. What is over is forgotten, tokens are not.
async fn a_code_opens_one_session(tokens: &dyn Tokens) {
    let parent = TokenHash::of("parent");
    let code = |secret: &str| Token { kind: TokenKind::Code { parent }, ..token(secret, 1) };
    let session = |secret: &str, made| Token {
        expires: Some(Timestamp(9_000)),
        kind: TokenKind::Session { parent },
        ..token(secret, made)
    };
    let (fresh, bearer) = (code("code"), token("bearer", 3));
    for token in [&fresh, &code("late code"), &bearer] {
        tokens.put(token).await.unwrap();
    }
    let exchanges = [
        ("no code", session("s1", 10), false),
        ("bearer", session("s2", 10), false),
        ("late code", session("s3", 1_000), false), // It expires then.
        ("code", session("s4", 999), true),
        ("code", session("s5", 999), false), // Used by now.
    ];
    for (secret, session, is_opened) in exchanges {
        assert_eq!(tokens.exchange(&TokenHash::of(secret), &session).await.unwrap(), is_opened, "{secret}");
        let found = tokens.find(&session.hash).await.unwrap();
        assert_eq!(found, is_opened.then_some(session), "{secret}");
    }
    let used = tokens.find(&fresh.hash).await.unwrap().unwrap();
    assert_eq!((used.revoked, used.kind), (Some(Timestamp(999)), fresh.kind));
    tokens.revoke(&bearer.hash, Timestamp(5)).await.unwrap();
    tokens.forget(Timestamp(1_001)).await.unwrap();
    assert_eq!(tokens.find(&fresh.hash).await.unwrap(), None);
    assert_eq!(tokens.find(&TokenHash::of("late code")).await.unwrap(), None);
    assert!(tokens.find(&bearer.hash).await.unwrap().is_some(), "a client's token is kept for the list");
    assert!(tokens.find(&TokenHash::of("s4")).await.unwrap().is_some(), "a session that is open");
}

#[tokio::test]
async fn in_memory() {
    a_code_opens_one_session(&Memory::new()).await;
    tokens_are_kept_by_their_hash(&Memory::new()).await;
    requests_are_kept_for_a_while(&Memory::new()).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn in_sqlite_also_after_it_was_closed() {
    use everturn_stores::Sqlite;
    use everturn_stores::sqlite::SqliteOptions;

    let scratch = crate::scratch::Scratch::new();
    let sqlite = Sqlite::open(scratch.as_ref(), &SqliteOptions::default()).unwrap();
    tokens_are_kept_by_their_hash(&sqlite).await;
    requests_are_kept_for_a_while(&sqlite).await;
    a_code_opens_one_session(&sqlite).await;
    let before = sqlite.list().await.unwrap();
    drop(sqlite);
    let sqlite = Sqlite::open(scratch.as_ref(), &SqliteOptions::default()).unwrap();
    assert_eq!(sqlite.list().await.unwrap(), before);
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_postgres() {
    use everturn_stores::Postgres;
    use everturn_stores::postgres::PostgresOptions;

    let url = everturn_props::database().unwrap();
    let postgres = Postgres::open(&url, PostgresOptions::default()).await.unwrap();
    tokens_are_kept_by_their_hash(&postgres).await;
    requests_are_kept_for_a_while(&postgres).await;
    a_code_opens_one_session(&postgres).await;
}
