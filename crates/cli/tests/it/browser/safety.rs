//! Foreign text stays text, and the page asks no other host.

use serde_json::{Value, json};

use super::Stand;

/// Markdown, HTML and CSS that would make a browser ask another host or run a script, if it were drawn.
const VECTORS: &[&str] = &[
    "![tracked](https://evil.example/a.png)",
    "[![nested](https://evil.example/b.png)](https://evil.example/)",
    "<img src=https://evil.example/c.png onerror=alert(1)>",
    "<script src=\"https://evil.example/d.js\"></script><script>window.hacked = 1</script>",
    "<style>@import url(https://evil.example/e.css); body { background: url(https://evil.example/f.png) }</style>",
    "<link rel=prefetch href=https://evil.example/g><iframe srcdoc=\"<script>parent.hacked = 1</script>\"></iframe>",
    "<svg onload=\"window.hacked = 1\"><use href=\"https://evil.example/h.svg#x\"/></svg>",
    "[click](javascript:window.hacked=1) [data](data:text/html,<script>window.hacked=1</script>)",
    "<a href=\"java&#10;script:window.hacked=1\">x</a> <https://evil.example/auto> [ref][1]\n\n[1]: vbscript:x",
    "![ref image][2]\n\n[2]: https://evil.example/i.png",
    "| a | b |\n|---|---|\n| ![cell](https://evil.example/j.png) | <img src=x onerror=window.hacked=1> |",
    "```html\n<img src=https://evil.example/k.png>\n```\n\n~~~js\"onload=window.hacked=1\nx\n~~~",
    "<base href=https://evil.example/> <meta http-equiv=refresh content=\"0;url=https://evil.example/\">",
    "<form action=https://evil.example/><button>send</button></form> <object data=https://evil.example/l></object>",
];

/// PG33, PG34: text of the model, of the person and of titles makes no request, no script and no element but those of
/// Markdown.
#[tokio::test]
async fn foreign_text_makes_no_request_and_no_script() {
    let mut stand = Stand::new("understudy/persona").await;
    let all = VECTORS.join("\n\n");
    let transcript =
        json!([{"role": "user", "content": all}, {"role": "assistant", "content": format!("{all}\n\nthe end")}]);
    let chat = stand.daemon.post("/v1/chats", &json!({"title": VECTORS[2], "transcript": transcript})).await;
    stand.browser.go(&stand.daemon, &format!("/c/{}", chat["id"].as_str().unwrap())).await;
    stand.browser.until_shown("the end").await;
    let look = "return page.evaluate(() => ({
        hacked: window.hacked ?? null,
        images: document.querySelectorAll('[role=log] img, [role=log] video, [role=log] iframe, [role=log] object').length,
        scripts: document.querySelectorAll('[role=log] script, [role=log] style, [role=log] link, [role=log] base, [role=log] form').length,
        handlers: [...document.querySelectorAll('[role=log] *')].flatMap((node) => node.getAttributeNames()).filter((name) => name.startsWith('on') || name === 'style' || name === 'srcdoc'),
        links: [...document.querySelectorAll('[role=log] a')].map((link) => link.getAttribute('href')).filter((href) => !/^(https?:|mailto:|blob:|#|\\/)/.test(href ?? '')),
    }));";
    let found = stand.browser.run(look, Value::Null).await;
    assert_eq!(found, json!({"hacked": null, "images": 0, "scripts": 0, "handlers": [], "links": []}));
    stand.end().await; // No request to another host, and no report of the policy.
}

/// PG35: the page works under its headers, and breaks no rule of its policy in a whole turn. PG39: in a frame of another
/// page nothing is shown.
#[tokio::test]
async fn the_page_works_under_its_policy_and_in_no_frame() {
    let mut stand = Stand::new("understudy/persona").await;
    stand.browser.say("What are you?").await;
    stand.browser.until_shown("understudy").await;
    let framed = "
        const { createServer } = await import('node:http');
        const server = createServer((_, response) => response.setHeader('content-type', 'text/html').end(`<iframe id=\"f\" src=\"${given.base}/\"></iframe>`));
        await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
        const address = `http://127.0.0.1:${server.address().port}`;
        helper.allowed.push(address);
        const tab = await context.newPage();
        await tab.goto(address);
        await tab.waitForTimeout(500);
        const frame = tab.frames().find((frame) => frame !== tab.mainFrame());
        const text = await frame.evaluate(() => document.body.innerText).catch(() => '');
        await tab.close();
        server.close();
        return [text.includes('Everturn'), helper.complaints().splice(0).filter((each) => !/frame/i.test(each))];";
    let seen = stand.browser.run(framed, json!({"base": stand.daemon.base})).await;
    assert_eq!(seen, json!([false, []]));
    stand.end().await;
}
