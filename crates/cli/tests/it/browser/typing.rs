//! The message box.

use serde_json::{Value, json};

use super::Stand;

/// PG15: what is typed survives a reload, and belongs to its chat.
#[tokio::test]
async fn what_is_typed_survives_a_reload() {
    let mut stand = Stand::new("understudy/numbered").await;
    let (one, other) = (stand.daemon.chat().await, stand.daemon.chat().await);
    let id = |chat: &str| format!("/c/{}", chat.rsplit('/').next().unwrap());
    for (chat, text) in [(&one, "first thought"), (&other, "second thought")] {
        stand.browser.go(&stand.daemon, &id(chat)).await;
        stand.browser.run("await page.locator('#box').fill(given.text);", json!({"text": text})).await;
        stand.browser.run("await page.reload(); await page.locator('#box').waitFor();", Value::Null).await;
        let typed = stand.browser.run("return page.locator('#box').inputValue();", Value::Null).await;
        assert_eq!(typed, text);
    }
    stand.browser.go(&stand.daemon, &id(&one)).await;
    let typed = stand.browser.run("return page.locator('#box').inputValue();", Value::Null).await;
    assert_eq!(typed, "first thought");
    stand.end().await;
}

/// PG43: Enter that ends a composition sends nothing, in browsers that say so and in those that say 229.
#[tokio::test]
async fn a_composition_is_not_sent() {
    let mut stand = Stand::new("understudy/numbered").await;
    let compose = "
        await page.locator('#box').fill('にほんご');
        const kept = await page.evaluate(() => {
            const box = document.querySelector('#box');
            const press = (more) => box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true, ...more }));
            press({ isComposing: true });
            press({ keyCode: 229 });
            return box.value;
        });
        return [kept, await page.locator('article.user').count()];";
    assert_eq!(stand.browser.run(compose, Value::Null).await, json!(["にほんご", 0]));
    let chats = stand.daemon.get("/v1/chats").await;
    assert_eq!(chats["chats"], json!([]), "no chat was made");
    stand.browser.run("await page.locator('#box').press('Enter');", Value::Null).await;
    stand.browser.until_shown("t20").await;
    stand.end().await;
}
