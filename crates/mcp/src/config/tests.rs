use serde_json::json;

use super::*;

fn variable(name: &str) -> Option<String> {
    let set = [("HOST", "example.com"), ("TOKEN", "secret"), ("EMPTY", "")];
    set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned())
}

fn checked(name: &str, entry: serde_json::Value) -> Result<ServerConfig, String> {
    let entry: ServerEntry = serde_json::from_value(entry).map_err(|error| error.to_string())?;
    entry.check(name, variable, "/etc/everturn".as_ref()).map_err(|error| error.to_string())
}

fn why(entry: serde_json::Value) -> String {
    checked("x", entry).unwrap_err()
}

#[test]
fn variables_are_filled_in() {
    let filled = |text: &str| expand::expand(text, &variable).map_err(|bad| bad.to_string());
    for (text, expected) in [
        ("https://${HOST}/${env:TOKEN}", "https://example.com/secret"),
        ("${NONE:-usual} ${EMPTY:-usual} ${EMPTY}|${TOKEN:-x}", "usual usual |secret"),
        ("$HOST $1 {HOST}", "$HOST $1 {HOST}"),
    ] {
        assert_eq!(filled(text), Ok(expected.into()));
    }
    assert_eq!(filled("${NONE}").unwrap_err(), "the variable NONE is not set: set it, or write ${NONE:-default}");
    for text in ["${input:key}", "${workspaceFolder}/${a b}", "${HOST"] {
        assert!(filled(text).is_err(), "{text}");
    }
}

#[test]
fn an_entry_is_a_command_or_an_address() {
    let command = checked("files", json!({"command": "./run", "args": ["${HOST}"], "type": "stdio"})).unwrap();
    assert_eq!(command.what(), "/etc/everturn/./run example.com");
    let http = json!({"url": "https://u:p@${HOST}/mcp?key=${TOKEN}", "headers": {"Authorization": "Bearer ${TOKEN}"}});
    let http = checked("docs", http).unwrap();
    assert_eq!(http.what(), "https://example.com/mcp");
    assert!(!format!("{http:?}").contains("secret"));
}

#[test]
fn bad_entries_say_what_to_do() {
    for (entry, told) in [
        (json!({}), "it has neither `command` (a local server) nor `url` (a remote one)"),
        (json!({"command": "a", "url": "https://b"}), "it has both `command` and `url`: keep one"),
        (json!({"command": "a", "type": "http"}), "`type` is \"http\", but a `command` is spoken to over stdio"),
        (json!({"command": "a", "headers": {"A": "b"}}), "`headers` are for servers with a `url`"),
        (json!({"url": "https://b", "type": "sse"}), "which is out of use"),
        (json!({"url": "https://b", "env": {"A": "b"}}), "are for servers with a `command`"),
        (json!({"url": "ftp://b"}), "only http: and https: can be used"),
        (json!({"url": "http://b.example", "headers": {"A": "b"}}), "would travel unencrypted"),
        (json!({"url": "https://b", "headers": {"Mcp-Session-Id": "b"}}), "is set by the protocol"),
        (json!({"command": "${NONE}"}), "`command`: the variable NONE is not set"),
        (json!({"command": "a", "cwd": "/no/such/directory"}), "which is not a directory"),
        (json!({"command": "a", "start_seconds": 0}), "`start_seconds` is 0"),
        (json!({"command": "a", "comand": "b"}), "unknown field `comand`"),
        (json!({"command": "a", "tools": {"b": {"permission": "deny"}}}), "expected `allow` or `ask`"),
    ] {
        let why = why(entry.clone());
        assert!(why.contains(told), "{entry}: {why}");
    }
    for name in ["", "Files", "my_files", "a-name-of-more-than-twenty"] {
        assert!(checked(name, json!({"command": "a"})).unwrap_err().contains("1 to 20 characters"), "{name}");
    }
}

#[test]
fn files_of_other_clients_are_read() {
    let servers = import::servers(
        &json!({"inputs": [], "servers": {
            "My Files": {"type": "stdio", "command": "npx", "args": ["-y"], "autoApprove": ["all"], "trust": true},
            "off": {"command": "a", "disabled": true},
            "gemini": {"httpUrl": "https://b", "includeTools": ["one"], "excludeTools": ["two"], "timeout": 5},
            "opencode": {"type": "local", "command": ["uvx", "x"], "environment": {"A": "b"}, "enabled": true},
        }})
        .to_string(),
    )
    .unwrap();
    assert_eq!(servers.keys().collect::<Vec<_>>(), ["gemini", "my-files", "opencode"]);
    assert!(!servers["my-files"].trust, "another client's trust is not ours");
    assert_eq!(
        (servers["opencode"].command.as_deref(), &servers["opencode"].args[..]),
        (Some("uvx"), &["x".into()][..])
    );
    let gemini = servers["gemini"].clone().check("gemini", variable, "/".as_ref()).unwrap();
    assert!(gemini.offers("one") && !gemini.offers("two"));
    for (file, told) in [
        (json!({"mcp": {}}), "no `mcpServers`"),
        (json!({"mcpServers": {"a": {"command": "b", "envFile": ".env"}}}), "`envFile` cannot be used here"),
        (json!({"mcpServers": {"a": {"command": "b", "colour": 1}}}), "unknown field `colour`"),
        (json!({"mcpServers": {"A": {"command": "b"}, "a": {"command": "b"}}}), "copy the entry"),
    ] {
        let why = import::servers(&file.to_string()).unwrap_err().to_string();
        assert!(why.contains(told), "{file}: {why}");
    }
}
