//! The table of `docs/configuration.md`, compared with the command: keys, variables, flags and defaults, both ways.

use std::collections::{BTreeMap, BTreeSet};

use crate::daemon::{Scratch, everturn};

const PAGE: &str = include_str!("../../../../docs/configuration.md");

/// The first line of the table.
const HEAD: &str = "| key | variable | flag | default | meaning | at the limit |";

/// A row of the table. "–" is `None`.
#[derive(Debug)]
struct Row {
    key: String,
    is_of_agents: bool,
    variable: Option<String>,
    flag: Option<String>,
    default: String,
}

/// What stands in backticks.
fn code(cell: &str) -> Option<String> {
    Some(cell.split('`').nth(1)?.to_owned())
}

fn rows() -> Vec<Row> {
    let (_, table) = PAGE.split_once(HEAD).expect("the table of all keys");
    let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 6, "{line}");
        Row {
            key: code(cells[0]).expect("a key"),
            is_of_agents: cells[0].ends_with("**A**"),
            variable: code(cells[1]),
            flag: code(cells[2]),
            default: cells[3].to_owned(),
        }
    };
    lines.map(row).collect()
}

/// A value that the key takes and that is not its default.
fn sample(key: &str) -> &'static str {
    match key {
        "listen" => "127.0.0.1:4141",
        "expose" => "true",
        "proxies" => "10.0.0.0/8",
        "hosts" => "chat.example.com",
        "origins" => "https://app.example.com",
        "data" | "tls_cert" | "tls_key" => "/nowhere/else",
        "model" | "models" => "understudy/drill",
        "record" => "errors",
        "durability" => "full",
        "workspace" => "/tmp",
        "sandbox" => "off",
        _ => "7",
    }
}

/// What `config show` prints with these flags and this file, and whether that went well.
async fn shown(flags: &[&str], file: &str, variable: Option<(&str, &str)>) -> Result<String, String> {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path()).unwrap();
    let path = scratch.path().join("config.toml");
    std::fs::write(&path, file).unwrap();
    let mut command = everturn(&[&["config", "show"], flags].concat());
    command.arg("--config").arg(path).envs(variable);
    let output = command.output().await.unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

/// The keys that may stand in a table of the file, as the refusal of an unknown one lists them.
async fn keys_beside(others: &str) -> BTreeSet<String> {
    let refusal = shown(&[], &format!("{others}\nunheard_of = 1\n"), None).await.unwrap_err();
    let line = refusal.lines().find(|line| line.contains("unheard_of`")).expect("a refusal");
    line.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

/// The keys of the page below one, such as `budget.`.
fn keys_of_page(rows: &[Row], below: &str) -> BTreeSet<String> {
    let keys = rows.iter().filter_map(|row| row.key.strip_prefix(below));
    keys.filter(|key| !key.is_empty() && !key.contains('.')).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_page_has_every_key_and_no_other() {
    let rows = rows();
    let first = |row: &Row| row.key.split('.').next().unwrap().to_owned();
    let top: BTreeSet<String> = rows.iter().map(first).collect();
    assert_eq!(top, keys_beside("").await);
    let of_agents: BTreeSet<String> = rows.iter().filter(|row| row.is_of_agents).map(first).collect();
    assert_eq!(of_agents, keys_beside("[agents.a]\nmodel = 'a/b'").await);
    for (below, table) in [
        ("tools.NAME.", "[tools.a]\ndescription = 'A.'"),
        ("mcpServers.NAME.tools.NAME.", "[mcpServers.a.tools.b]"),
        ("mcpServers.NAME.oauth.", "[mcpServers.a.oauth]"),
        ("mcpServers.NAME.", "[mcpServers.a]\ncommand = 'a'"),
        ("providers.NAME.", "[providers.a]\nwire = 'chat'\nurl = 'https://a.example'"),
        ("prices.\"MODEL\".", "[prices.'a/b']\ninput = 1\noutput = 1"),
        ("workspaces.NAME.", "[workspaces.a]\npath = '/a'"),
        ("hooks.", "[[hooks]]\non = 'turn_end'\nrun = ['a']"),
        ("permissions.", "[permissions]"),
        ("budget.", "[budget]"),
        ("budget.", "[owners.a]"),
    ] {
        assert_eq!(keys_of_page(&rows, below), keys_beside(table).await, "{table}");
    }
}

#[tokio::test]
async fn the_page_has_the_defaults() {
    let shown = shown(&[], "", None).await.unwrap();
    let lines = shown.lines().filter_map(|line| line.split_once("  # default")?.0.split_once(" = "));
    let defaults: BTreeMap<&str, &str> = lines.collect();
    assert!(defaults.len() > 25, "{shown}");
    let rows = rows();
    for (key, value) in defaults.iter().filter(|(key, _)| !["data", "model"].contains(key)) {
        let row = rows.iter().find(|row| row.key == **key).unwrap();
        assert_eq!(code(&row.default).as_deref(), Some(*value), "{key}");
    }
    let others = rows.iter().filter(|row| !row.key.contains('.') && !defaults.contains_key(row.key.as_str()));
    for row in others.filter(|row| row.default.starts_with('`')) {
        assert_eq!(row.default, "`[]`", "{}", row.key);
    }
}

#[tokio::test]
async fn the_page_has_every_flag_and_they_set_their_keys() {
    let rows = rows();
    let help = everturn(&["serve", "--help"]).output().await.unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let options = help.lines().map(str::trim_start).filter(|line| line.starts_with("--"));
    let flags: BTreeSet<&str> = options.filter_map(|line| line.split(' ').next()).collect();
    let told: BTreeSet<&str> = rows.iter().filter_map(|row| row.flag.as_deref()).chain(["--config"]).collect();
    assert_eq!(told, flags);
    for row in rows.iter().filter(|row| row.flag.is_some()) {
        let flag = row.flag.as_deref().unwrap();
        let given: &[&str] = if row.key == "expose" { &[flag] } else { &[flag, sample(&row.key)] };
        let shown = shown(given, "", None).await.unwrap();
        let set = |line: &str| line.starts_with(&format!("{} = ", row.key)) && line.ends_with(&format!("# {flag}"));
        assert!(shown.lines().any(set), "{flag}: {shown}");
    }
}

/// A key that the page gives no variable has none: the name it would have is refused.
#[tokio::test]
async fn the_page_has_every_variable_of_a_key_and_they_set_it() {
    for row in rows().iter().filter(|row| !row.key.contains('.')) {
        let name = format!("EVERTURN_{}", row.key.to_uppercase());
        let shown = shown(&[], "", Some((&name, sample(&row.key)))).await;
        let set = |line: &str| line.starts_with(&format!("{} = ", row.key)) && line.ends_with(&format!("# {name}"));
        match &row.variable {
            Some(variable) => {
                assert_eq!(*variable, name);
                assert!(shown.as_ref().is_ok_and(|shown| shown.lines().any(set)), "{name}: {shown:?}");
            }
            None => assert!(shown.is_err_and(|error| error.contains(&name)), "{name} is read"),
        }
    }
}
