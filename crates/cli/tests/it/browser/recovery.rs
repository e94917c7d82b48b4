//! What is shown goes on, whatever breaks.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use super::{Stand, TURN_MAX, counted, counts};

const MODEL: &str = "understudy/numbered";

/// Waits until what is on screen contains exactly the words that are stored.
async fn shows(stand: &mut Stand, stored: &[String]) {
    stand.browser.until_shown(stored.last().unwrap()).await;
    let agrees = async {
        loop {
            let shown = stand.browser.shown().await;
            let counted: Vec<_> = shown.iter().filter(|word| stored.contains(word)).cloned().collect();
            if counted == stored {
                return;
            }
            stand.browser.run("await page.waitForTimeout(200);", Value::Null).await;
        }
    };
    timeout(TURN_MAX / 4, agrees).await.expect("the screen shows what is stored, each word once");
}

/// PG01: the server is killed in the middle of an answer and started again. The page goes on by itself, and shows what is
/// stored, each word once. The message of the person and the blocks before the open one keep their nodes.
#[tokio::test]
async fn a_killed_server_costs_no_word() {
    let mut stand = Stand::new(MODEL).await;
    stand.browser.say("count to 500").await;
    stand.browser.until_shown("t40 ").await;
    let chat = stand.browser.chat().await;
    stand
        .browser
        .run("await page.evaluate(() => (document.querySelector('article.user').marked = true));", Value::Null)
        .await;
    stand.kill_and_restart(MODEL).await;
    stand.browser.until_shown("t300 ").await;
    counts(&stand.browser.shown().await);
    let stored = stand.stored(&chat).await;
    assert_eq!(stored, counted(500));
    shows(&mut stand, &stored).await;
    let kept = "return page.evaluate(() => document.querySelectorAll('article.user').length === 1 && document.querySelector('article.user').marked === true);";
    assert_eq!(stand.browser.run(kept, Value::Null).await, true, "the message was not drawn anew");
    stand.end().await;
}

/// PG04: the page is loaded again in the middle of an answer, again and again. What was shown before is there each time.
#[tokio::test]
async fn a_reload_loses_nothing_that_was_shown() {
    let mut stand = Stand::new(MODEL).await;
    stand.browser.say("count to 900").await;
    let chat = stand.browser.chat().await;
    for seen in [7, 61, 130, 200, 333] {
        stand.browser.until_shown(&format!("t{seen} ")).await;
        let before: Vec<_> = stand.browser.shown().await.into_iter().filter(|word| word.starts_with('t')).collect();
        let before: Vec<_> = before.into_iter().filter(|word| word[1..].parse::<u32>().is_ok()).collect();
        stand.browser.run("await page.reload();", Value::Null).await;
        let last = before[before.len() - 2].clone(); // The last one may have been cut in the middle.
        stand.browser.until_shown(&format!("{last} ")).await;
        let after = stand.browser.shown().await;
        let at = after.iter().position(|word| *word == "t1").expect("the beginning");
        assert_eq!(after[at..][..before.len() - 1], before[..before.len() - 1]);
    }
    let stored = stand.stored(&chat).await;
    assert_eq!(stored, counted(900));
    shows(&mut stand, &stored).await;
    stand.end().await;
}

/// PG05: the network is away for some seconds and comes back. The page goes on by itself, each word once.
#[tokio::test]
async fn a_lost_network_costs_no_word() {
    let mut stand = Stand::new(MODEL).await;
    stand.browser.say("count to 600").await;
    stand.browser.until_shown("t30 ").await;
    let chat = stand.browser.chat().await;
    stand.browser.run("await context.setOffline(true);", Value::Null).await;
    let mut watcher = stand.daemon.watch(&chat).await;
    let goes_on = watcher.until(|view| {
        let mut parts = view.draft.iter().flat_map(|draft| &draft.parts);
        parts.any(|part| part.text().is_some_and(|text| text.contains("t200 ")))
    });
    timeout(TURN_MAX, goes_on).await.expect("the answer goes on meanwhile");
    stand.browser.run("await context.setOffline(false);", Value::Null).await;
    stand.browser.until_shown("t300 ").await;
    counts(&stand.browser.shown().await);
    let stored = stand.stored(&chat).await;
    assert_eq!(stored, counted(600));
    shows(&mut stand, &stored).await;
    stand.end().await;
}

/// PG17: stop works in another tab and after a reload; what was shown is kept, and it is what is stored.
#[tokio::test]
async fn stop_keeps_what_was_shown() {
    let mut stand = Stand::new(MODEL).await;
    stand.browser.say("count to 20000").await;
    stand.browser.until_shown("t50 ").await;
    let chat = stand.browser.chat().await;
    let code = "const tab = await helper.tab(); await tab.goto(page.url());
        await helper.until(tab, () => document.querySelector('article.reply')?.innerText.includes('t60 '));
        await tab.getByRole('button', { name: /stop/i }).first().click();";
    stand.browser.run(code, Value::Null).await;
    let stored = stand.stored(&chat).await;
    assert!(stored.len() > 50 && stored.len() < 20_000, "{}", stored.len());
    assert!(stored.iter().zip(counted(20_000)).all(|(stored, counted)| counted.starts_with(stored.as_str())));
    shows(&mut stand, &stored).await;

    stand.browser.say("count to 20000").await;
    let begun = Duration::from_secs(60);
    let mut watcher = stand.daemon.watch(&chat).await;
    let again = watcher.until(|view| view.messages.len() > 2 && view.draft.is_some());
    timeout(begun, again).await.expect("the second turn begins");
    stand.browser.until_shown("t20 ").await;
    stand.browser.run("await page.reload();", Value::Null).await;
    stand.browser.until_shown("t30 ").await;
    stand.browser.run("await page.getByRole('button', { name: /stop/i }).first().click();", Value::Null).await;
    let stored = stand.stored(&chat).await;
    assert!(stored.len() >= 30 && stored.len() < 20_000, "{}", stored.len());
    shows(&mut stand, &stored).await;
    stand.end().await;
}
