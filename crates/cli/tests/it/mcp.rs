//! MCP servers of the daemon and `everturn mcp`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::daemon::{Scratch, everturn};

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
