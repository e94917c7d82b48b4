//! The page for people who cannot see it well, or at all.

use serde_json::{Value, json};

use super::Stand;

/// PG41: axe-core finds nothing: logging in, an empty chat, an answer, an approval; light and dark; narrow and wide.
#[tokio::test]
async fn axe_finds_nothing() {
    let mut stand = Stand::new("understudy/persona").await;
    let look = "
        const found = [];
        for (const colorScheme of ['light', 'dark']) {
            await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
            for (const width of [360, 768, 1280]) {
                await page.setViewportSize({ width, height: 800 });
                found.push(...(await helper.axe(page)).map((each) => `${given.state}, ${colorScheme}, ${width}: ${each}`));
            }
        }
        await page.setViewportSize({ width: 1280, height: 800 });
        return found;";
    let mut found = Vec::new();
    let mut seen = async |stand: &mut Stand, state: &str| {
        let violations = stand.browser.run(look, json!({"state": state})).await;
        found.extend(violations.as_array().unwrap().iter().map(|each| each.as_str().unwrap().to_owned()));
    };
    seen(&mut stand, "empty").await;
    stand.browser.say("note: buy kelp").await;
    stand.browser.run("await page.locator('section.ask').waitFor();", Value::Null).await;
    seen(&mut stand, "approval").await;
    let allow = "await page.waitForTimeout(1000); await page.getByRole('button', { name: 'Allow once' }).click();";
    stand.browser.run(allow, Value::Null).await;
    let chat = stand.browser.chat().await;
    let stored = stand.stored(&chat).await;
    stand.browser.until_shown(stored.last().unwrap()).await;
    seen(&mut stand, "answer").await;
    let out =
        "await context.clearCookies(); await page.evaluate(() => localStorage.clear()); await page.goto(given.base);
        await page.getByLabel('Or paste a token').waitFor();";
    stand.browser.run(out, json!({"base": stand.daemon.base})).await;
    seen(&mut stand, "login").await;
    assert!(found.is_empty(), "{found:#?}");
    stand.end().await;
}
