//! The way in, and out.

use serde_json::{Value, json};

use super::driver::Browser;
use super::{Stand, serve};
use crate::daemon::{Scratch, everturn};

/// PG36: the link of `everturn open` logs in once. The code is gone from the address and from the history, and is in no log.
#[tokio::test]
async fn a_link_logs_in_once() {
    let scratch = Scratch::new();
    let daemon = serve(&scratch, "understudy/persona", "127.0.0.1:0").await;
    let printed = everturn(&["open", "--print", "--data", scratch.path().to_str().unwrap()]).output().await.unwrap();
    assert!(printed.status.success(), "{printed:?}");
    let link = String::from_utf8(printed.stdout).unwrap().trim().to_owned();
    let code = link.split_once("/#code=").expect("a code in the fragment").1.to_owned();
    let mut browser = Browser::start(&daemon.base).await;
    let open = "await page.goto(given.link); await page.locator('#box').waitFor(); return [page.url(), await page.evaluate(() => history.length)];";
    let seen = browser.run(open, json!({"link": link})).await;
    assert!(!seen[0].as_str().unwrap().contains(&code), "{seen}");
    let again = "
        await context.clearCookies();
        await page.evaluate(() => localStorage.clear());
        await page.goto('about:blank');
        await page.goto(given.link);
        await page.getByRole('alert').waitFor();
        return page.locator('#box').count();";
    assert_eq!(browser.run(again, json!({"link": link})).await, 0, "used up");
    browser.end().await;
    let log = daemon.end().await;
    assert!(!log.contains(&code), "the code is in the log: {log}");
    for file in ["audit.jsonl", "address"] {
        let text = std::fs::read_to_string(scratch.path().join(file)).unwrap_or_default();
        assert!(!text.contains(&code), "the code is in {file}");
    }
}

/// PG38: a revoked token ends the page's session within seconds. What was shown stays readable and what was typed stays.
#[tokio::test]
async fn a_revoked_token_ends_the_session() {
    let mut stand = Stand::new("understudy/numbered").await;
    let made = stand.daemon.post("/v1/tokens", &json!({"name": "desk", "scopes": ["read", "chat"]})).await;
    let log_in = "
        await context.clearCookies();
        await page.evaluate(() => localStorage.clear());
        await page.goto('about:blank');
        await page.goto(given.base);
        await page.getByLabel('Or paste a token').fill(given.token);
        await page.getByRole('button', { name: 'Log in' }).click();
        await page.locator('#box').waitFor();";
    let given = json!({"base": stand.daemon.base, "token": made["token"]});
    stand.browser.run(log_in, given.clone()).await;
    stand.browser.say("count to 5").await;
    stand.browser.until_shown("t5").await;
    let kept = "return page.evaluate((token) => JSON.stringify({ ...localStorage, ...sessionStorage }).includes(token), given.token);";
    assert_eq!(stand.browser.run(kept, given).await, false, "the token is not kept");
    stand.browser.run("await page.locator('#box').fill('half a thou');", Value::Null).await;
    let path = format!("/v1/tokens/{}", made["info"]["id"].as_str().unwrap());
    stand.daemon.answer(reqwest::Method::DELETE, &path, &Value::Null).await;
    stand.browser.run("await page.getByText('Your session has ended').waitFor();", Value::Null).await;
    assert_eq!(stand.browser.shown().await.iter().filter(|word| *word == "t5").count(), 1, "still readable");
    let typed = stand.browser.run("return page.locator('#box').inputValue();", Value::Null).await;
    assert_eq!(typed, "half a thou");
    stand.end().await;
}
