//! Things that break in front of a person.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::driver::Browser;
use super::{Stand, counted, counts, words};
use crate::daemon::everturn;

/// Presses a button below the answer.
const PRESS: &str = "await page.getByRole('button', { name: given.name }).click();";

/// PG08: the stream of the model is cut in the middle of an answer. It is one text on screen and in the store, each word
/// once, made of two attempts that are both counted, and the reply says where they were joined.
#[tokio::test]
async fn a_cut_stream_is_one_answer() {
    let mut stand = Stand::new("understudy/numbered").await;
    stand.browser.say("count to 300").await;
    stand.browser.until_shown("t50 ").await;
    let chat = stand.browser.chat().await;
    stand.browser.run(PRESS, json!({"name": "cut the model’s stream"})).await;
    stand.browser.until_shown("t200 ").await;
    counts(&stand.browser.shown().await);
    let stored = stand.stored(&chat).await;
    assert_eq!(stored, counted(300));
    stand.browser.until_shown("t300").await;
    let shown: Vec<_> = stand.browser.shown().await.into_iter().filter(|word| stored.contains(word)).collect();
    assert_eq!(shown, stored);
    let usage = stand.daemon.get(&format!("{chat}/usage?each=true")).await;
    assert_eq!(usage["each"].as_array().unwrap().len(), 2, "{usage}");
    let page = stand.daemon.get(&format!("{chat}/messages")).await;
    let reply = page["messages"].as_array().unwrap().iter().find(|message| message["kind"] == "reply").unwrap();
    assert_eq!((&reply["seams"], reply["joined"].as_array().map(Vec::len)), (&json!(1), Some(1)));
    let (text, at) = (reply["parts"][0]["text"].as_str().unwrap(), reply["joined"][0].as_u64().unwrap() as usize);
    assert!(text[..at].ends_with(|c: char| c.is_ascii_digit() || c == ' ') && at > 100, "{at}");
    stand.end().await;
}

/// PG01 under `everturn demo --page`: the page's session kills the server, its parent starts another, and the page goes on.
#[tokio::test]
async fn the_demo_of_the_page_comes_back() {
    let mut command = everturn(&["demo", "--page"]);
    let mut demo = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let link = loop {
        let line = lines.next_line().await.unwrap().expect("a link");
        if let Some(link) = line.strip_prefix("Open ") {
            break link.to_owned();
        }
    };
    let mut browser = Browser::start(link.split_once("/#").unwrap().0).await;
    browser.run("await page.goto(given.link); await page.locator('#box').waitFor();", json!({"link": link})).await;
    browser.say("slow").await;
    let grown =
        "await helper.until(page, () => (document.querySelector('article.reply')?.innerText.length ?? 0) > 60);";
    browser.run(grown, Value::Null).await;
    let chat = browser.chat().await;
    browser.run(PRESS, json!({"name": "kill the server"})).await;
    let reply = "
        for (;;) {
            const got = await page.evaluate(async (chat) => {
                const headers = { 'x-everturn-key': localStorage.getItem('everturn:key') };
                const get = async (path) => (await fetch(path, { headers })).json();
                const { status } = await get(chat);
                return status === 'idle' ? (await get(`${chat}/messages`)).messages.findLast((each) => each.kind === 'reply') : undefined;
            }, given.chat).catch(() => undefined);
            if (got) return got;
            await page.waitForTimeout(200);
        }";
    let stored = words(&browser.run(reply, json!({"chat": chat})).await);
    let last = stored.last().unwrap().clone();
    browser.until_shown(&last).await;
    let id = demo.id().unwrap().to_string();
    browser.end().await;
    assert!(tokio::process::Command::new("kill").args(["-s", "TERM", &id]).status().await.unwrap().success());
    assert!(demo.wait().await.unwrap().success());
}
