//! MCP servers of the daemon and `everturn mcp`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::daemon::{Scratch, everturn};
use crate::oauth_site::OauthSite;

/// A server as a shell script: it answers `initialize` and `tools/list`, and echoes.
const SERVER: &str = r#"
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
        *'"server/discover"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no"}}' ;;
        *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"1"}}}' ;;
        *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"look","description":"Looks.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}}' ;;
        *'"tools/call"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"seen"}]}}' ;;
    esac
done
"#;

fn written(scratch: &Scratch, more: &str) -> PathBuf {
    std::fs::create_dir_all(scratch.path()).unwrap();
    std::fs::write(scratch.path().join("server.sh"), SERVER).unwrap();
    let file = format!(
        "[mcpServers.shell]\ncommand = 'sh'\nargs = ['{}']\ntrust = true\n[mcpServers.broken]\ncommand = 'sh'\nargs = ['-c', 'echo no key >&2; exit 7']\n{more}",
        scratch.path().join("server.sh").display()
    );
    let path = scratch.path().join("config.toml");
    std::fs::write(&path, file).unwrap();
    path
}

async fn mcp(scratch: &Scratch, config: &Path, args: &[&str]) -> (bool, String) {
    let mut command = everturn(&[&["mcp"], args].concat());
    command.arg("--config").arg(config).arg("--data").arg(scratch.path().join("data"));
    let output = command.output().await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// What works and what does not is said, with the reason and the exit code.
#[tokio::test]
async fn servers_are_listed_and_tried() {
    let scratch = Scratch::new();
    let config = written(&scratch, "");
    let (is_good, told) = mcp(&scratch, &config, &["test", "shell"]).await;
    assert!(is_good && told.starts_with("shell works: shell 1, protocol 2025-11-25, 1 tools, "), "{told}");
    let (is_good, told) = mcp(&scratch, &config, &["test", "broken"]).await;
    assert_eq!(
        (is_good, told.as_str()),
        (false, "everturn: broken does not work: it exited with code 7. It said: no key\n")
    );
    let (_, told) = mcp(&scratch, &config, &["tools", "shell"]).await;
    assert_eq!(told, "mcp__shell__look  read  runs  Looks.\n");
    let (_, told) = mcp(&scratch, &config, &["--json"]).await;
    let states: Vec<_> =
        told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["state"].clone()).collect();
    assert_eq!(states, ["configured", "known"]);
    let (is_good, told) = mcp(&scratch, &config, &["test", "other"]).await;
    assert!(
        !is_good && told.contains("there is no MCP server `other`: the configured ones are broken, shell"),
        "{told}"
    );
}

/// An agent that names a server which is not there, and a variable that is not set, are errors that name them.
#[tokio::test]
async fn mistakes_are_named() {
    let scratch = Scratch::new();
    for (more, why) in [
        (
            "[agents.a]\nmodel = 'a/b'\nmcp = ['none']",
            "the agent `a` uses the MCP server `none`, which is not in [mcpServers]",
        ),
        (
            "[mcpServers.web]\nurl = 'https://${NOT_SET_HERE}'",
            "the MCP server `web`: `url`: the variable NOT_SET_HERE is not set",
        ),
        ("[mcpServers.web]\nadress = 'https://a'", "unknown field `adress`"),
    ] {
        let config = written(&scratch, more);
        let (is_good, told) = mcp(&scratch, &config, &[]).await;
        assert!(!is_good && told.contains(why), "{told}");
    }
}

/// A login that has begun, at the address that a person opens.
struct Login {
    child: tokio::process::Child,
    address: String,
    rest: BufReader<tokio::process::ChildStdout>,
}

async fn login(scratch: &Scratch, config: &Path) -> Login {
    let mut command = everturn(&["mcp", "login", "locked", "--no-browser"]);
    command.arg("--config").arg(config).arg("--data").arg(scratch.path().join("data"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut rest = BufReader::new(child.stdout.take().unwrap());
    let mut address = String::new();
    rest.read_line(&mut address).await.unwrap();
    Login { child, address: address.trim().to_owned(), rest }
}

impl Login {
    /// What a browser finds there: where it is sent to.
    async fn browse(&self) -> String {
        let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let answer = browser.get(&self.address).send().await.unwrap();
        answer.headers()["location"].to_str().unwrap().to_owned()
    }

    async fn told(mut self) -> (bool, String) {
        let mut told = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut self.rest, &mut told).await.unwrap();
        let output = self.child.wait_with_output().await.unwrap();
        (output.status.success(), told + &String::from_utf8_lossy(&output.stderr))
    }
}

/// TM15: a person logs in with a browser on this machine, or pastes where a browser on another one ended.
#[tokio::test]
async fn a_person_logs_in() {
    let _ = rustls::crypto::ring::default_provider().install_default(); // Another test may have been first.
    let scratch = Scratch::new();
    let site = OauthSite::start().await;
    let config = written(&scratch, &format!("[mcpServers.locked]\nurl = '{}'", site.url()));
    let (_, told) = mcp(&scratch, &config, &["test", "locked"]).await;
    let why = "the server refused the credentials (HTTP 401): log in with `everturn mcp login locked`";
    assert!(told.contains(why), "{told}");

    let begun = login(&scratch, &config).await;
    let page = reqwest::get(begun.browse().await).await.unwrap().text().await.unwrap();
    assert_eq!(page, "You are logged in. Close this page.");
    let (is_good, told) = begun.told().await;
    assert!(is_good && told.contains("logged in at locked: 1 tools\n") && !told.contains("secret-"), "{told}");
    let (is_good, told) = mcp(&scratch, &config, &["test", "locked"]).await;
    assert!(is_good && told.starts_with("locked works: locked 1"), "{told}");
    let (_, told) = mcp(&scratch, &config, &["logout", "locked"]).await;
    assert_eq!(told, "logged out of locked\n");
    let (_, told) = mcp(&scratch, &config, &["logout", "locked"]).await;
    assert_eq!(told, "there was no login at locked\n");
    let (_, told) = mcp(&scratch, &config, &["test", "locked"]).await;
    assert!(told.contains(why), "{told}");

    let mut begun = login(&scratch, &config).await;
    let ended_at = begun.browse().await;
    let mut input = begun.child.stdin.take().unwrap();
    input.write_all(format!("{ended_at}\n").as_bytes()).await.unwrap();
    let (is_good, told) = begun.told().await;
    assert!(is_good && told.contains("logged in at locked: 1 tools\n"), "{told}");
    let mut begun = login(&scratch, &config).await;
    let mut input = begun.child.stdin.take().unwrap();
    input.write_all(b"http://127.0.0.1/callback?code=x&state=y\n").await.unwrap();
    let (is_good, told) = begun.told().await;
    assert!(!is_good && told.contains("belongs to another login"), "{told}");

    let (is_good, told) = mcp(&scratch, &config, &["login", "shell"]).await;
    assert!(!is_good && told.contains("a server with a `command` needs no login"), "{told}");
}
