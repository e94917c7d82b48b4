//! `everturn doctor` and `everturn replay`, as people run them.

use std::path::Path;

use everturn::core::chat::{TranscriptTail, TurnEnd};
use everturn::core::doctor::foreign::read;
use everturn::core::fact::Fact;
use everturn::core::ids::{ChatId, Timestamp};
use everturn::stores::sqlite::{Sqlite, SqliteOptions};
use everturn::stores::{NewChat, Store};
use reqwest::Method;
use serde_json::{Value, json};

use crate::daemon::{Daemon, Scratch, everturn};
use crate::reader::Reader;

/// A session with an orphan, a stray result and a character that does not belong on a terminal.
fn broken() -> Value {
    json!([
        {"role": "user", "content": "Pay.\u{1b}[2J"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "pay\u{1b}", "input": {}}]},
        {"role": "user", "content": "Well?"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_9", "content": "paid"}]},
    ])
}

async fn ran(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = everturn(arguments).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A private directory with this file in it.
fn scratch(name: &str, text: &str) -> (Scratch, String) {
    use std::os::unix::fs::DirBuilderExt as _;
    let scratch = Scratch::new();
    std::fs::DirBuilder::new().mode(0o700).create(scratch.path()).unwrap();
    let file = scratch.path().join(name);
    std::fs::write(&file, text).unwrap();
    (scratch, file.to_str().unwrap().to_owned())
}

/// A chat as no driver would leave it, in a data directory.
async fn store_broken(dir: &Path) -> ChatId {
    store_as_it_is(&Sqlite::open(dir, &SqliteOptions::default()).unwrap(), &broken()).await
}

/// A chat in which a session of messages was said, whatever is wrong with it.
pub async fn store_as_it_is(store: &dyn Store, session: &Value) -> ChatId {
    let session = read(session.to_string().as_bytes(), Timestamp(1_000)).unwrap();
    let chat = ChatId::new(Timestamp(1_000), 7);
    store.create(&NewChat::of(chat, "default", "local")).await.unwrap();
    let mut lease = store.acquire(chat).await.unwrap();
    let said = session.messages.iter().map(|message| Fact::Said(message.clone(), TranscriptTail::Nothing));
    let facts: Vec<Fact> = said.chain([Fact::TurnEnded(TurnEnd::Done)]).collect();
    store.commit(&mut lease, &facts).await.unwrap();
    store.release(lease).await.unwrap();
    chat
}

/// What is wrong is explained; a mended copy becomes a chat in which nothing is, and the file stays as it
/// was.
#[tokio::test]
async fn a_foreign_session_is_explained_and_imported() {
    let (scratch, file) = scratch("messages.json", &broken().to_string());
    let data = scratch.path().join("data");
    let data = data.to_str().unwrap();
    let (code, told, _) = ran(&["doctor", &file]).await;
    assert_eq!(code, Some(1), "{told}");
    for part in [
        "Anthropic messages",
        "message 2: the call of pay␛ has no result",
        "message 4: the result of unknown_tool answers no call",
        "--fix",
        "What a request changes:",
        "OpenAI Responses",
    ] {
        assert!(told.contains(part), "{part} is missing:\n{told}");
    }
    assert!(!told.contains('\u{1b}'), "{told:?}");
    let (code, told, error) = ran(&["doctor", &file, "--fix", "--data", data]).await;
    assert_eq!(code, Some(0), "{told}{error}");
    let chat = told.trim().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), broken().to_string());
    let (code, told, _) = ran(&["doctor", &chat, "--data", data]).await;
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("the transcript has no flaws"), "{told}");
    let (code, shown, _) = ran(&["replay", &chat, "--data", data]).await;
    assert_eq!(code, Some(0));
    for part in ["Imported from Anthropic messages; 2 of it mended", "> Pay.␛[2J", "outcome not known", "> Well?"] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    let (_, cut, _) = ran(&["replay", &chat, "--data", data, "--until", "2"]).await;
    assert!(cut.contains("> Pay.") && !cut.contains("Well?"), "{cut}");
}

/// A mended session can be had as a file in its own format; a healthy one comes out to the byte.
#[tokio::test]
async fn a_mended_session_is_written_in_its_format() {
    let (scratch, file) = scratch("messages.json", &broken().to_string());
    let to = scratch.path().join("mended.json");
    let to = to.to_str().unwrap();
    assert_eq!(ran(&["doctor", &file, "--fix", "--out", to]).await.0, Some(0));
    let (code, told, _) = ran(&["doctor", to]).await;
    assert_eq!(code, Some(0), "{told}");
    let mended: Value = serde_json::from_str(&std::fs::read_to_string(to).unwrap()).unwrap();
    assert_eq!(mended[2]["content"][0]["type"], "tool_result", "{mended:#}");
    let (code, _, error) = ran(&["doctor", &file, "--fix", "--out", to]).await;
    assert_eq!(code, Some(1), "what is there is not overwritten");
    assert!(error.contains("mended.json cannot be created"), "{error}");
    let silent = json!([
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Hello."}]},
        {"role": "user", "content": ""},
    ]);
    std::fs::write(&file, silent.to_string()).unwrap();
    let (code, told, _) = ran(&["doctor", &file]).await;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("2 blank messages or thoughts without a seal"), "{told}");
    let spoken = scratch.path().join("spoken.json");
    let spoken = spoken.to_str().unwrap();
    assert_eq!(ran(&["doctor", &file, "--fix", "--out", spoken]).await.0, Some(0));
    assert_eq!(ran(&["doctor", spoken]).await.0, Some(0));
    let odd = "[ {\"role\":\"user\",  \"content\": \"Hi.\"}\n ]";
    std::fs::write(&file, odd).unwrap();
    let same = scratch.path().join("same.json");
    assert_eq!(ran(&["doctor", &file, "--fix", "--out", same.to_str().unwrap()]).await.0, Some(0));
    assert_eq!(std::fs::read_to_string(same).unwrap(), odd);
}

/// Everything that is kept is looked at and mended, permissions too; a second time nothing is left to do, and
/// what the doctor took back is still there.
#[tokio::test]
async fn a_data_directory_is_checked_and_mended() {
    let (scratch, _) = scratch("note", "");
    let (dir, data) = (scratch.path(), scratch.path().to_str().unwrap());
    let chat = store_broken(dir).await.to_string();
    let (code, told, _) = ran(&["doctor", "--data", data]).await;
    assert_eq!(code, Some(1), "{told}");
    for part in
        ["only its owner", "schema 9", "no damage", "the call of pay␛ has no result", "1 chat, 4 messages: 1 has flaws"]
    {
        assert!(told.contains(part), "{part} is missing:\n{told}");
    }
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (code, told, error) = ran(&["doctor", "--fix", "--data", data]).await;
    assert_eq!(code, Some(0), "{told}{error}");
    assert!(told.contains("now it is private") && told.contains(&format!("chat {chat}: mended")), "{told}");
    let (code, told, _) = ran(&["doctor", "--data", data]).await;
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("every transcript is in order"), "{told}");
    let again = ran(&["doctor", &chat, "--fix", "--data", data]).await;
    assert!(again.1.contains("5 messages: the transcript has no flaws"), "{}", again.1);
}

/// A chat that cannot be read is named, and the others are looked at all the same.
#[tokio::test]
async fn one_bad_row_does_not_end_the_visit() {
    let (scratch, _) = scratch("note", "");
    let (dir, data) = (scratch.path(), scratch.path().to_str().unwrap());
    let flawed = store_broken(dir).await;
    let unreadable = ChatId::new(Timestamp(500), 1);
    let store = Sqlite::open(dir, &SqliteOptions::default()).unwrap();
    store.create(&NewChat::of(unreadable, "default", "local")).await.unwrap();
    drop(store);
    let file = rusqlite::Connection::open(dir.join("everturn.db")).unwrap();
    let changed = file.execute("UPDATE chats SET status = 'asleep' WHERE id = (SELECT min(id) FROM chats)", []);
    assert_eq!(changed.unwrap(), 1);
    drop(file);
    let (code, told, error) = ran(&["doctor", "--data", data]).await;
    assert_eq!(code, Some(1), "{told}{error}");
    assert!(told.contains(&format!("  chat {unreadable}: ")), "{told}{error}");
    assert!(told.contains(&format!("  chat {flawed}: ")) && told.contains("has no result"), "{told}{error}");
}

/// Beside a server the doctor reads, and refuses to write.
#[tokio::test]
async fn a_running_server_is_only_looked_at() {
    let scratch = Scratch::new();
    let data = scratch.path().to_str().unwrap();
    let daemon = Daemon::start(scratch.path(), "understudy/persona").await;
    let chat = daemon.chat().await;
    let mut reader = Reader::open(daemon.ask(Method::GET, &format!("{chat}/stream"))).await;
    daemon.post(&format!("{chat}/messages"), &json!({"text": "What are you?"})).await;
    reader.until_rest().await;
    let (code, told, error) = ran(&["doctor", "--data", data]).await;
    assert_eq!(code, Some(0), "{told}{error}");
    let (_kept, file) = self::scratch("messages.json", &broken().to_string());
    let (code, _, error) = ran(&["doctor", &file, "--fix", "--data", data]).await;
    assert_eq!(code, Some(1));
    assert!(error.contains("in use by process") && error.contains("stop it, or choose another directory"), "{error}");
    let id = chat.rsplit('/').next().unwrap();
    let (code, shown, _) = ran(&["replay", id, "--data", data]).await;
    assert_eq!(code, Some(0));
    for part in
        ["1 > What are you?", "· step 1, attempt 1, first: understudy/persona", "· answered after", "1 attempts"]
    {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
}

/// Chats that several processes share are looked at and mended where they are.
#[tokio::test]
async fn chats_in_postgres_are_treated_alike() {
    let (_scratch, file) = scratch("messages.json", &broken().to_string());
    let url = everturn_props::database().unwrap();
    let treated = async |arguments: &[&str]| {
        let output = everturn(arguments).env("DATABASE_URL", &url).output().await.unwrap();
        let told = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.code(), told)
    };
    let (code, told) = treated(&["doctor", &file, "--fix"]).await;
    assert_eq!(code, Some(0), "{told}");
    let chat = told.trim().rsplit(' ').next().unwrap().to_owned();
    let (code, told) = treated(&["doctor"]).await;
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("1 chat, 6 messages: every transcript is in order"), "{told}");
    let (code, told) = treated(&["doctor", &chat, "--fix"]).await;
    assert_eq!(code, Some(0), "{told}");
    let (code, told) = treated(&["replay", &chat]).await;
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("> Well?"), "{told}");
}

/// What is neither is wrong usage; what is not there is said.
#[tokio::test]
async fn what_cannot_be_looked_at_is_said() {
    let (scratch, file) = scratch("words.txt", "Hello.");
    let data = scratch.path().to_str().unwrap();
    let missing = "01kdg1qg7v3m8s1t1j0a9n2x4c";
    for (arguments, code, said) in [
        (vec!["doctor", "nothing-of-the-kind"], 2, "neither a file nor a chat"),
        (vec!["doctor", "--out", "x"], 2, "--fix"),
        (vec!["doctor", &file], 1, "neither JSON nor lines of JSON"),
        (vec!["doctor", "--data", data], 1, "there is no database"),
        (vec!["replay", missing, "--data", data], 1, "there is no database"),
        (vec!["replay", missing, "--speed", "0"], 2, "a number above 0"),
    ] {
        let (found, told, error) = ran(&arguments).await;
        assert_eq!(found, Some(code), "{told}{error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
}

/// A message that was changed behind everybody's back: its chat says so, ends its turn and takes nothing
/// more, the doctor names it, and all other chats go on.
#[tokio::test]
async fn a_damaged_chat_is_set_aside_and_others_go_on() {
    let data = Scratch::new();
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let (damaged, whole) = (daemon.chat().await, daemon.chat().await);
    for chat in [&damaged, &whole] {
        let mut reader = daemon.watch(chat).await;
        daemon.post(&format!("{chat}/messages"), &json!({"text": "count to 5"})).await;
        reader.until(|view| view.messages.len() == 2).await;
    }
    daemon.end().await;
    let id: ChatId = damaged.strip_prefix("/v1/chats/").unwrap().parse().unwrap();
    let database = rusqlite::Connection::open(data.path().join("everturn.db")).unwrap();
    let flip = "UPDATE messages SET body = replace(body, 'count to 5', 'count to 6') WHERE chat = ?1 AND id = 1";
    assert_eq!(database.execute(flip, [id.as_u128().to_be_bytes()]).unwrap(), 1);
    drop(database);
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let send = async |chat: &str| {
        let (status, answer) =
            daemon.answer(Method::POST, &format!("{chat}/messages"), &json!({"text": "count to 3"})).await;
        (status.as_u16(), answer["type"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(send(&damaged).await.0, 202, "it was not read yet");
    daemon.until_logged("chat damaged").await;
    assert_eq!(send(&damaged).await, (500, "urn:everturn:problem:damaged".into()));
    let (status, problem) = daemon.answer(Method::GET, &format!("{damaged}/messages"), &json!({})).await;
    assert_eq!(status.as_u16(), 500);
    assert!(problem["detail"].as_str().unwrap().contains("checksum"), "{problem}");
    let mut reader = daemon.watch(&whole).await;
    assert_eq!(send(&whole).await.0, 202);
    reader.until(|view| view.messages.len() == 4).await;
    daemon.end().await;
    let (code, told, _) = ran(&["doctor", "--data", data.path().to_str().unwrap()]).await;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains(&id.to_string()) && told.contains("its checksum does not match"), "{told}");
}

/// E8, TL08: the state of one chat is damaged while calls of two wait for a person. The list of open calls has the other
/// one, and the log says which chat is not listed.
#[tokio::test]
async fn open_calls_are_listed_beside_a_damaged_chat() {
    let data = Scratch::new();
    let daemon = Daemon::start(data.path(), "understudy/persona").await;
    let (damaged, whole) = (daemon.chat().await, daemon.chat().await);
    for chat in [&damaged, &whole] {
        let mut reader = daemon.watch(chat).await;
        daemon.post(&format!("{chat}/messages"), &json!({"text": "note: buy kelp"})).await;
        reader.until(|view| view.status.as_ref().is_some_and(|status| !status.asks.is_empty())).await;
    }
    let listed = async |daemon: &Daemon| {
        let asks = daemon.get("/v1/asks").await;
        let chats = asks["chats"].as_array().unwrap().iter();
        chats.map(|chat| format!("/v1/chats/{}", chat["chat"].as_str().unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(listed(&daemon).await, [whole.clone(), damaged.clone()]);
    daemon.end().await;
    let id: ChatId = damaged.strip_prefix("/v1/chats/").unwrap().parse().unwrap();
    let database = rusqlite::Connection::open(data.path().join("everturn.db")).unwrap();
    let flip = "UPDATE chats SET body = replace(body, 'leave_note', 'leave_vote') WHERE id = ?1";
    assert_eq!(database.execute(flip, [id.as_u128().to_be_bytes()]).unwrap(), 1);
    drop(database);
    let daemon = Daemon::start(data.path(), "understudy/persona").await;
    assert_eq!(listed(&daemon).await, [whole]);
    let log = daemon.end().await;
    assert!(log.contains("its asks are not listed") && log.contains(&id.to_string()), "{log}");
}
