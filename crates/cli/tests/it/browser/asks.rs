//! Approvals: everything is shown, and nothing is approved by accident.

use serde_json::{Value, json};

use super::Stand;

const CARD: &str = "section.ask";

/// The status and the asks of a chat.
async fn asked(stand: &Stand, chat: &str) -> Value {
    stand.daemon.get(chat).await
}

/// PG21, PG22: the whole input is on the card, invisible characters too, and so is its hash. Enter and Escape approve
/// nothing, nor does a double click when the card appears. A click later does.
#[tokio::test]
async fn nothing_is_approved_by_accident() {
    let mut stand = Stand::new("understudy/persona").await;
    // Time stands still for the page, so that the clicks come at the moment the card appears, however busy the machine is.
    stand
        .browser
        .run("await page.evaluate(() => { const now = performance.now(); performance.now = () => now; });", Value::Null)
        .await;
    stand.browser.say("note: pay\u{202e} 100\u{200b}").await;
    let appears = "await page.locator(given.card).waitFor();
        const button = page.getByRole('button', { name: 'Allow once' });
        await button.waitFor();
        await button.dblclick({ noWaitAfter: true, force: true });
        await page.keyboard.press('Enter');
        await page.keyboard.press('Escape');
        return page.locator(given.card).innerText();";
    let text = stand.browser.run(appears, json!({"card": CARD})).await;
    let chat = stand.browser.chat().await;
    let status = asked(&stand, &chat).await;
    assert_eq!(status["status"], "awaiting", "{status}");
    let (text, hash) = (text.as_str().unwrap(), status["asks"][0]["input_hash"].as_str().unwrap());
    for shown in ["leave_note", "pay", "202E", "200B", hash] {
        assert!(text.contains(shown), "the card lacks {shown}: {text}");
    }
    let allow = "await page.evaluate(() => { delete performance.now; }); await page.waitForTimeout(1000); await page.getByRole('button', { name: 'Allow once' }).click();";
    stand.browser.run(allow, Value::Null).await;
    stand.stored(&chat).await;
    let page = stand.daemon.get(&format!("{chat}/messages")).await;
    let result = page["messages"].as_array().unwrap().iter().find(|message| message["kind"] == "result").unwrap();
    assert_eq!(result["verdict"], "done", "{result}");
    stand.end().await;
}

/// PG21: a reason for denying reaches the model.
#[tokio::test]
async fn a_denial_says_why() {
    let mut stand = Stand::new("understudy/persona").await;
    stand.browser.say("note: sell everything").await;
    let deny = "await page.locator(given.card).waitFor();
        await page.getByLabel('Reason for denying').fill('not on a Friday');
        await page.waitForTimeout(1000);
        await page.getByRole('button', { name: 'Deny' }).click();";
    stand.browser.run(deny, json!({"card": CARD})).await;
    let chat = stand.browser.chat().await;
    stand.stored(&chat).await;
    let page = stand.daemon.get(&format!("{chat}/messages")).await;
    let result = page["messages"].as_array().unwrap().iter().find(|message| message["kind"] == "result").unwrap();
    assert_eq!(result["verdict"], "denied", "{result}");
    assert!(result["output"].as_str().unwrap().contains("not on a Friday"), "{result}");
    stand.end().await;
}
