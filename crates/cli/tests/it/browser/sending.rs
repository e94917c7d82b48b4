//! What a person types is sent once, whatever happens on the way.

use serde_json::{Value, json};

use super::{Stand, counted};

const MODEL: &str = "understudy/numbered";

/// The texts of the person's messages, as they are stored.
async fn said(stand: &Stand, chat: &str) -> Vec<String> {
    let page = stand.daemon.get(&format!("{chat}/messages")).await;
    let messages = page["messages"].as_array().unwrap().iter().filter(|message| message["kind"] == "user");
    messages.map(|message| message["parts"][0]["text"].as_str().unwrap().to_owned()).collect()
}

/// PG12: every request for a change has a key, and the answer to a message that is lost on the way five times makes one
/// message of it.
#[tokio::test]
async fn a_lost_answer_sends_no_second_message() {
    let mut stand = Stand::new(MODEL).await;
    let drop_answers = "
        globalThis.lost = 0; globalThis.keys = [];
        await context.route(/\\/v1\\/chats\\/[^/]+\\/messages$/, async (route) => {
            if (route.request().method() !== 'POST') return route.fallback();
            globalThis.keys.push(route.request().headers()['idempotency-key']);
            if (globalThis.lost >= 5) return route.fallback();
            globalThis.lost += 1;
            await route.fetch().catch(() => undefined);
            return route.abort('connectionreset');
        });";
    stand.browser.run(drop_answers, Value::Null).await;
    stand.browser.say("count to 12").await;
    stand.browser.until_shown("t12").await;
    let chat = stand.browser.chat().await;
    stand.browser.run("while (globalThis.keys.length < 6) await page.waitForTimeout(100);", Value::Null).await;
    assert_eq!(stand.stored(&chat).await, counted(12));
    assert_eq!(said(&stand, &chat).await, ["count to 12"]);
    let keys = stand.browser.run("return globalThis.keys;", Value::Null).await;
    let keys: Vec<_> = keys.as_array().unwrap().iter().map(|key| key.as_str().expect("a key").to_owned()).collect();
    assert!(keys.len() >= 6 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    stand.end().await;
}

/// PG13: the tab is closed before the message was accepted. When the page is opened again it is sent, once.
#[tokio::test]
async fn a_closed_tab_does_not_lose_the_message() {
    let mut stand = Stand::new(MODEL).await;
    let chat = stand.daemon.chat().await;
    let id = chat.rsplit('/').next().unwrap().to_owned();
    stand.browser.go(&stand.daemon, &format!("/c/{id}")).await;
    let hold = "
        globalThis.held = new Promise((resolve) => context.route(/\\/messages$/, (route) => {
            if (route.request().method() !== 'POST') return route.fallback();
            resolve(); // And it is never answered.
        }));";
    stand.browser.run(hold, Value::Null).await;
    stand.browser.say("count to 9").await;
    let close = "
        await globalThis.held;
        const tab = await helper.tab();
        await page.close();
        await context.unroute(/\\/messages$/);
        pages.shift();
        await tab.goto(given.url);";
    stand.browser.run(close, json!({"url": format!("{}/c/{id}", stand.daemon.base)})).await;
    stand.browser.until_shown("t9").await;
    assert_eq!(stand.stored(&chat).await, counted(9));
    assert_eq!(said(&stand, &chat).await, ["count to 9"]);
    stand.end().await;
}

/// PG14: what is typed while the server is away is kept, also over a reload of the page that the browser has, and sent in
/// order when the server is back.
#[tokio::test]
async fn what_is_typed_while_the_server_is_away_is_sent_in_order() {
    let mut stand = Stand::new(MODEL).await;
    stand.browser.say("count to 3").await;
    stand.browser.until_shown("t3").await;
    let chat = stand.browser.chat().await;
    stand.stored(&chat).await;
    stand.daemon.signal("KILL").await;
    stand.daemon.child.wait().await.unwrap();
    stand.browser.say("count to 4").await;
    stand.browser.say("count to 5").await;
    let listed = "await page.getByText('count to 4').waitFor(); await page.getByText('count to 5').waitFor();";
    stand.browser.run(listed, Value::Null).await;
    let at = stand.daemon.base.strip_prefix("http://").unwrap().to_owned();
    stand.daemon = super::serve(&stand.scratch, MODEL, &at).await;
    stand.browser.until_shown("t5").await;
    stand.stored(&chat).await;
    assert_eq!(said(&stand, &chat).await, ["count to 3", "count to 4", "count to 5"]);
    stand.end().await;
}
