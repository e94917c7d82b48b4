//! A real browser, driven by `tests/browser/bridge.mjs`.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::daemon::Daemon;

const BRIDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser");
/// Where Chromium is on the systems that we know.
const CHROMIUM: [&str; 4] =
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/snap/bin/chromium"];
/// No step of a test takes longer, whatever else the machine does.
const STEP_MAX: Duration = Duration::from_secs(110);

/// A browser with one tab, and what the page did in it that it must not do.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Browser {
    /// Starts one for the page of this server.
    pub async fn start(base: &str) -> Self {
        let chromium = CHROMIUM.iter().find(|path| Path::new(path).exists());
        let chromium = chromium.expect("there is no Chromium: `cargo xtask test --only nextest` installs it with apt");
        let modules = Path::new(BRIDGE).join("node_modules/playwright-core");
        assert!(modules.exists(), "run `npm ci` in {BRIDGE}, or `cargo xtask test --only nextest`");
        let mut command = Command::new("node");
        command.arg("bridge.mjs").arg(chromium).arg(base).current_dir(BRIDGE).kill_on_drop(true);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut browser = Self { child, input, answers };
        assert_eq!(browser.answer().await, json!({"ready": true}));
        browser
    }

    /// Runs the body of an async function with `page`, `pages`, `context`, `given` and `helper`.
    pub async fn run(&mut self, code: &str, given: Value) -> Value {
        let line = json!({"code": code, "given": given}).to_string();
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        let mut answer = self.answer().await;
        if let Some(error) = answer["error"].as_str() {
            panic!("{error}\nin {code}");
        }
        answer["value"].take()
    }

    async fn answer(&mut self) -> Value {
        let line = timeout(STEP_MAX, self.answers.next_line()).await.expect("the browser answers in time").unwrap();
        serde_json::from_str(&line.expect("the browser is there")).unwrap()
    }

    /// Opens the page with a fresh code, as `everturn open` does, and waits for the message box.
    pub async fn log_in(&mut self, daemon: &Daemon) {
        let code = daemon.post("/v1/codes", &json!({})).await;
        let url = format!("{}{}", daemon.base, code["path"].as_str().unwrap());
        self.run("await page.goto(given.url); await page.locator('#box').waitFor();", json!({"url": url})).await;
    }

    /// Opens an address of the page.
    pub async fn go(&mut self, daemon: &Daemon, path: &str) {
        let url = format!("{}{path}", daemon.base);
        self.run("await page.goto(given.url); await page.locator('#box').waitFor();", json!({"url": url})).await;
    }

    /// Types a message and presses Enter.
    pub async fn say(&mut self, text: &str) {
        let code = "await page.locator('#box').fill(given.text); await page.locator('#box').press('Enter');";
        self.run(code, json!({"text": text})).await;
    }

    /// Waits until the newest answer shows a text.
    pub async fn until_shown(&mut self, text: &str) {
        let code = "await helper.until(page, (text) => [...document.querySelectorAll('article.reply')].at(-1)?.innerText.includes(text), given.text);";
        self.run(code, json!({"text": text})).await;
    }

    /// The words of the newest answer, as they are on screen.
    pub async fn shown(&mut self) -> Vec<String> {
        let code =
            "return page.evaluate(() => [...document.querySelectorAll('article.reply')].at(-1)?.innerText ?? '');";
        let text = self.run(code, Value::Null).await;
        text.as_str().unwrap().split_whitespace().map(String::from).collect()
    }

    /// The id of the chat in the address.
    pub async fn chat(&mut self) -> String {
        let code = "await helper.until(page, () => /^\\/c\\/[0-9a-z]{26}$/.test(location.pathname)); return page.evaluate(() => location.pathname);";
        let path = self.run(code, Value::Null).await;
        format!("/v1/chats/{}", path.as_str().unwrap().strip_prefix("/c/").unwrap())
    }

    /// Ends the browser. The page made no request to another host, broke no rule of its policy and had no error.
    pub async fn end(mut self) {
        let complaints = self.run("return helper.complaints();", Value::Null).await;
        assert_eq!(complaints, json!([]));
        drop(self.input);
        let _ = timeout(STEP_MAX, self.child.wait()).await;
    }
}
