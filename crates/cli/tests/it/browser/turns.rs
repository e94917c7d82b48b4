//! Queued messages, edits and forks.

use serde_json::{Value, json};

use super::{Stand, counted};

const MODEL: &str = "understudy/numbered";

/// The texts of the person's messages, with their numbers.
async fn said(stand: &Stand, chat: &str) -> Vec<(u64, String)> {
    let page = stand.daemon.get(&format!("{chat}/messages")).await;
    let messages = page["messages"].as_array().unwrap().iter().filter(|message| message["kind"] == "user");
    let pair =
        |message: &Value| (message["id"].as_u64().unwrap(), message["parts"][0]["text"].as_str().unwrap().to_owned());
    messages.map(pair).collect()
}

/// PG16: Enter queues while an answer arrives; a queued message is deleted; stop leaves the queue, which goes on; Alt-Enter
/// stops and says.
#[tokio::test]
async fn messages_wait_in_a_queue_that_can_be_changed() {
    let mut stand = Stand::new(MODEL).await;
    stand.browser.say("count to 20000").await;
    stand.browser.until_shown("t20 ").await;
    let chat = stand.browser.chat().await;
    stand.browser.say("count to 3").await;
    stand.browser.say("count to 4").await;
    let change = "
        const queue = page.getByRole('list', { name: 'Queued messages' });
        await queue.getByText('count to 4').waitFor();
        await queue.getByText('count to 3').waitFor();
        await queue.getByRole('listitem').filter({ hasText: 'count to 3' }).getByRole('button', { name: 'Delete' }).click();
        await queue.getByText('count to 3').waitFor({ state: 'detached' });
        await page.getByRole('button', { name: /^Stop/ }).click();";
    stand.browser.run(change, Value::Null).await;
    stand.browser.until_shown("t4").await;
    assert_eq!(stand.stored(&chat).await, counted(4), "stop left the queue");
    stand.browser.say("count to 20000").await;
    stand.browser.until_shown("t30 ").await;
    let now = "await page.locator('#box').fill('count to 6'); await page.locator('#box').press('Alt+Enter');";
    stand.browser.run(now, Value::Null).await;
    let mut watcher = stand.daemon.watch(&chat).await;
    watcher.until(|view| view.messages.len() >= 8).await;
    assert_eq!(stand.stored(&chat).await, counted(6), "it was said at once");
    let texts: Vec<_> = said(&stand, &chat).await.into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["count to 20000", "count to 4", "count to 20000", "count to 6"]);
    stand.end().await;
}

/// PG19: an edit of an earlier message removes what follows, and both tabs agree. PG20: a fork has an address of its own,
/// the same messages up to its own, and leaves its source as it was.
#[tokio::test]
async fn a_message_is_edited_and_a_chat_is_forked() {
    let mut stand = Stand::new(MODEL).await;
    for count in [3, 4, 5] {
        stand.browser.say(&format!("count to {count}")).await;
        let code = "await helper.until(page, (count) => document.querySelectorAll('article.reply').length >= count, given.count);";
        stand.browser.run(code, json!({"count": count - 2})).await;
        stand.browser.until_shown(&format!("t{count}")).await;
    }
    let chat = stand.browser.chat().await;
    stand.stored(&chat).await;
    let before = said(&stand, &chat).await;
    let edit = "
        const tab = await helper.tab();
        await tab.goto(page.url());
        await tab.getByText('count to 5').waitFor();
        const second = page.locator('article.user').filter({ hasText: 'count to 4' });
        await second.hover();
        await second.getByRole('button', { name: 'Edit and ask again' }).click();
        await page.locator('#box').fill('count to 8');
        await page.locator('#box').press('Enter');
        for (const each of [page, tab]) {
            await helper.until(each, () => document.querySelectorAll('article.user').length === 2
                && [...document.querySelectorAll('article.reply')].at(-1)?.innerText.includes('t8'));
        }";
    stand.browser.run(edit, Value::Null).await;
    assert_eq!(stand.stored(&chat).await, counted(8));
    let after = said(&stand, &chat).await;
    assert_eq!(after.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["count to 3", "count to 8"]);
    assert!(after[1].0 > before[2].0, "numbers only grow");

    let fork = "
        const first = page.locator('article.reply').first();
        await first.hover();
        const source = page.url();
        await first.getByRole('button', { name: 'Continue from here in a new chat' }).click();
        await helper.until(page, (source) => location.href !== source && /^\\/c\\/[0-9a-z]{26}$/.test(location.pathname), source);
        await helper.until(page, () => document.querySelectorAll('article.user').length === 1);";
    stand.browser.run(fork, Value::Null).await;
    let forked = stand.browser.chat().await;
    assert_ne!(forked, chat);
    assert_eq!(said(&stand, &forked).await, said(&stand, &chat).await[..1]);
    assert_eq!(said(&stand, &chat).await, after);
    stand.end().await;
}
