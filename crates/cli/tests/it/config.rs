//! The configuration file, on the command itself.

use everturn_server::wire::Status;
use expect_test::expect;
use reqwest::Method;
use serde_json::json;

use crate::daemon::{Daemon, Scratch, everturn};
use crate::reader::{Reader, reply};

const FILE: &str = r#"
listen = "127.0.0.1:4141"
hosts = ["chat.example.com"]
model = "understudy/numbered"
system = "Be brief."
running_max = 7
record = "errors"
models = ["understudy/drill"]
effort = "low"
temperature = 0.2
stop = ["END"]
fallbacks = ["understudy/persona"]
turn_tokens_max = 9000

[providers.lab]
wire = "chat"
url = "https://llm.example.com/v1"
key_env = "LAB_KEY"

[prices."lab/qwen"]
input = 0.5
output = 2
cache_read = 0.05

[tools.clock]
description = "Tells the time."

[agents.careful]
background = true
compaction_percent = 100
silence_seconds_max = 300
output_tokens_max = 4000
model = "understudy/persona"
fallbacks = ["understudy/numbered"]
system = "Think \"twice\"."
steps_max = 50

[agents.careful.tools.map]
description = "Shows a map."
[agents.careful.tools.map.input]
type = "object"
properties = { of = { type = "string" } }
required = ["of"]

[agents.careful.tools.buy]
description = "Buys something."
input_file = "buy.json"

[budget]
day_tokens_max = 5000000
day_cost_max = 2.5

[owners."alice smith"]
month_cost_max = 200
"#;

fn write(scratch: &Scratch, text: &str) -> String {
    std::fs::create_dir_all(scratch.path()).unwrap();
    std::fs::write(scratch.path().join("buy.json"), r#"{"type": "object"}"#).unwrap();
    let file = scratch.path().join("config.toml");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// What is shown of a file, with flags and variables over it. No secret is.
async fn shown(file: &str) -> String {
    let mut command =
        everturn(&["config", "show", "--config", file, "--data", "/d", "--expose", "--proxy", "10.0.0.0/8"]);
    command
        .env("LAB_KEY", "sk-not-even-this")
        .env("OPENAI_API_KEY", "sk-not-to-be-shown")
        .env("EVERTURN_DATABASE_CONNECTIONS", "20")
        .env("EVERTURN_ORIGINS", "https://app.example.com")
        .env("EVERTURN_STREAMS_MAX", "9");
    command.env("DATABASE_URL", "postgres://me:secret@db.example/chats?sslmode=require");
    let output = command.output().await.unwrap();
    let shown = String::from_utf8(output.stdout).unwrap().replace(file, "FILE");
    for secret in ["sk-not", "secret", "me:"] {
        assert!(!shown.contains(secret), "{secret}");
    }
    shown
}

/// All that counts is shown, with where it came from, and no secret.
#[tokio::test]
async fn what_counts_is_shown_with_its_origin() {
    let scratch = Scratch::new();
    let file = write(&scratch, FILE);
    expect![[r#"
        listen = "127.0.0.1:4141"  # FILE
        expose = true  # --expose
        proxies = ["10.0.0.0/8"]  # --proxy
        hosts = ["chat.example.com"]  # FILE
        origins = ["https://app.example.com"]  # EVERTURN_ORIGINS
        data = "/d"  # --data
        model = "understudy/numbered"  # FILE
        fallbacks = ["understudy/persona"]  # FILE
        models = ["understudy/drill"]  # FILE
        system = "Be brief."  # FILE
        chats_max = 1000  # default
        running_max = 7  # FILE
        streams_max = 9  # EVERTURN_STREAMS_MAX
        stream_seconds_max = 3600  # default
        requests_max = 1000  # default
        connect_seconds_max = 10  # default
        drain_seconds = 5  # default
        record = "errors"  # FILE
        durability = "process"  # default
        database_connections = 20  # EVERTURN_DATABASE_CONNECTIONS
        sandbox = "best"  # default
        steps_max = 200  # default
        turn_minutes_max = 240  # default
        turn_tokens_max = 9000  # FILE
        turn_cost_max = 50  # default
        same_call_max = 5  # default
        open_seconds_max = 60  # default
        silence_seconds_max = 120  # default
        tool_seconds_max = 600  # default
        awaiting_minutes_max = 1440  # default
        attempts_max = 24  # default
        tools_at_once_max = 8  # default
        sub_agents_max = 8  # default
        sub_agents_at_once_max = 4  # default
        sub_agents_depth_max = 2  # default
        queue_len_max = 20  # default
        background = false  # default
        effort = "low"  # FILE
        compaction_percent = 70  # default
        instructions = ["AGENTS.md"]  # default
        temperature = 0.2  # FILE
        stop = ["END"]  # FILE
    "#]]
    .assert_eq(shown(&file).await.split("\n[").next().unwrap());
}

/// Scripts read the same as JSON.
#[tokio::test]
async fn what_counts_is_there_for_scripts() {
    let scratch = Scratch::new();
    let file = write(&scratch, FILE);
    let mut command = everturn(&["config", "show", "--json", "--config", &file, "--data", "/d"]);
    command.env("LAB_KEY", "sk-not-even-this").env("EVERTURN_STREAMS_MAX", "9");
    let output = command.output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("sk-not") && text.lines().count() == 1, "{text}");
    let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (path, value, origin) in [
        ("/data", json!("/d"), "--data"),
        ("/streams_max", json!(9), "EVERTURN_STREAMS_MAX"),
        ("/stop", json!(["END"]), &*file),
        ("/drain_seconds", json!(5), "default"),
        ("/agents/careful/steps_max", json!(50), &*file),
        ("/agents/careful/system", json!("Think \"twice\"."), &*file),
        ("/agents/careful/tools/buy/input", json!({"type": "object"}), &*file),
        ("/prices/lab~1qwen/input", json!(0.5), &*file),
        ("/owners/alice smith/month_cost_max", json!(200), &*file),
    ] {
        assert_eq!(shown.pointer(path), Some(&json!({"value": value, "origin": origin})), "{path}: {text}");
    }
    assert_eq!(shown["environment"]["LAB_KEY"], "set");
    assert_eq!(shown["warnings"], json!([]));
}

/// Tables, and values that only the environment can set, are shown too.
#[tokio::test]
async fn what_counts_of_tables_and_variables_is_shown() {
    let scratch = Scratch::new();
    let file = write(&scratch, FILE);
    let shown = shown(&file).await;
    let tables = shown.find("\n[").unwrap() + 1;
    expect![[r#"
        [providers.lab]  # FILE
        wire = "chat"
        url = "https://llm.example.com/v1"
        key_env = "LAB_KEY"

        [prices."lab/qwen"]  # FILE
        input = 0.5
        output = 2
        cache_read = 0.05

        [tools.clock]  # FILE
        description = "Tells the time."

        [agents.careful]  # FILE
        model = "understudy/persona"
        fallbacks = ["understudy/numbered"]
        system = "Think \"twice\"."
        steps_max = 50  # FILE
        turn_minutes_max = 240  # default
        turn_tokens_max = 50000000  # default
        turn_cost_max = 50  # default
        same_call_max = 5  # default
        open_seconds_max = 60  # default
        silence_seconds_max = 300  # FILE
        tool_seconds_max = 600  # default
        awaiting_minutes_max = 1440  # default
        attempts_max = 24  # default
        tools_at_once_max = 8  # default
        sub_agents_max = 8  # default
        sub_agents_at_once_max = 4  # default
        sub_agents_depth_max = 2  # default
        queue_len_max = 20  # default
        background = true  # FILE
        compaction_percent = 100  # FILE
        instructions = ["AGENTS.md"]  # default
        output_tokens_max = 4000  # FILE

        [agents.careful.tools.buy]  # FILE
        description = "Buys something."
        input_file = "buy.json"
        # input: {"type":"object"}

        [agents.careful.tools.map]  # FILE
        description = "Shows a map."
        # input: {"properties":{"of":{"type":"string"}},"required":["of"],"type":"object"}

        [budget]  # FILE
        day_tokens_max = 5000000
        day_cost_max = 2.5

        [owners."alice smith"]  # FILE
        month_cost_max = 200
        # DATABASE_URL: postgres://***@db.example/chats
        # DATABASE_LISTEN_URL: not set
        # ANTHROPIC_API_KEY: not set
        # ANTHROPIC_AUTH_TOKEN: not set
        # OPENAI_API_KEY: set
        # GEMINI_API_KEY: not set
        # GOOGLE_API_KEY: not set
        # OPENROUTER_API_KEY: not set
        # OLLAMA_API_KEY: not set
        # LAB_KEY: set
    "#]]
    .assert_eq(&shown[tables..]);
}

/// Without a configured model, the chosen one is shown with the key that chose it; addresses of providers are
/// shown without secrets.
#[tokio::test]
async fn what_follows_from_keys_is_shown_with_the_key() {
    let shown = async |variables: &[(&str, &str)]| {
        let output =
            everturn(&["config", "show", "--data", "/d"]).envs(variables.iter().copied()).output().await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (google, openrouter) = (("GOOGLE_API_KEY", "sk-not-1"), ("OPENROUTER_API_KEY", "sk-not-2"));
    for (variables, line) in [
        (vec![], r#"model = "understudy/persona"  # default: no key is set, so the understudy stands in"#),
        (
            vec![openrouter, ("OPENAI_API_KEY", " ")],
            r#"model = "openrouter/openrouter/auto"  # default: OPENROUTER_API_KEY is set"#,
        ),
        (vec![openrouter, google], r#"model = "google/gemini-2.5-flash"  # default: GOOGLE_API_KEY is set"#),
        (vec![google, ("EVERTURN_MODEL", "openai/gpt-5-mini")], r#"model = "openai/gpt-5-mini"  # EVERTURN_MODEL"#),
    ] {
        let shown = shown(&variables).await;
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
        assert!(!shown.contains("sk-not") && !shown.contains("_BASE_URL:"), "{shown}");
    }
    let places = [
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9"),
        ("OPENAI_BASE_URL", "https://me:sk-not-3@proxy.example/v1?key=sk-not-4"),
        ("OLLAMA_HOST", "0.0.0.0:11434"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://me:sk-not-5@collector.example:4318"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=sk-not-6"),
        ("EVERTURN_PLAIN_HOSTS", "proxy.corp,10.1.2.3:8080"),
        ("EVERTURN_LOG", "info"),
        ("EVERTURN_LOG_FORMAT", "json"),
        ("OPENAI_ORG_ID", "org-1"),
        ("OPENAI_PROJECT_ID", "proj-1"),
    ];
    let shown = shown(&places).await;
    for line in [
        "# ANTHROPIC_BASE_URL: http://127.0.0.1:9",
        "# OPENAI_BASE_URL: https://***@proxy.example/v1",
        "# OLLAMA_HOST: 0.0.0.0:11434",
        "# OTEL_EXPORTER_OTLP_ENDPOINT: https://***@collector.example:4318/",
        "# OTEL_EXPORTER_OTLP_HEADERS: set",
        "# EVERTURN_PLAIN_HOSTS: proxy.corp,10.1.2.3:8080",
        "# EVERTURN_LOG: info",
        "# EVERTURN_LOG_FORMAT: json",
        "# OPENAI_ORG_ID: org-1",
        "# OPENAI_PROJECT_ID: proj-1",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    assert!(!shown.contains("sk-not") && !shown.contains("me:"), "{shown}");
}

/// A cost limit without effect is shown as a warning.
#[tokio::test]
async fn a_bound_on_money_that_nobody_can_hold_is_shown() {
    let scratch = Scratch::new();
    let file = write(&scratch, "model = \"ollama/qwen3\"\n[budget]\nday_cost_max = 2.5");
    let output = everturn(&["config", "show", "--data", "/d", "--config", &file]).output().await.unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let line = "# warning: the price of ollama/qwen3 is unknown, so day_cost_max in [budget] does not stop";
    assert!(shown.lines().any(|shown| shown.starts_with(line)), "{shown}");
}

/// A parameter that the model does not take is shown as a warning.
#[tokio::test]
async fn a_parameter_that_is_not_sent_is_shown() {
    let scratch = Scratch::new();
    let file = write(&scratch, "model = \"openai/gpt-5-mini\"\ntemperature = 0.5");
    let output = everturn(&["config", "show", "--data", "/d", "--config", &file]).output().await.unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let line = "# warning: openai/gpt-5-mini does not take `temperature` as the agent `default` has it";
    assert!(shown.lines().any(|shown| shown.starts_with(line)), "{shown}");
}

/// A tool that no model could be offered is refused at the start, with the names of its agents.
#[tokio::test]
async fn a_tool_that_cannot_be_had_is_refused() {
    let scratch = Scratch::new();
    let tool = |name: &str, rest: &str| format!("[agents.a]\nmodel = \"a/b\"\n[agents.a.tools.{name}]\n{rest}");
    for (text, said) in [
        (tool("\"a b\"", "description = \"x\""), "`a b`"),
        (tool("x", "description = \"x\"\ninput = { type = \"objekt\" }"), "not a JSON schema"),
        (tool("x", "description = \"x\"\ninput = 7"), "not a JSON schema"),
        (tool("x", "description = \"x\"\ninput_file = \"nowhere.json\""), "nowhere.json"),
        (tool("x", "description = \"x\"\ninput = {}\ninput_file = \"buy.json\""), "has both `input` and `input_file`"),
        (tool("x", "describtion = \"x\""), "did you mean `description`?"),
        ("[tools.x]\ninput = {}".to_owned(), "missing field `description`"),
    ] {
        let file = write(&scratch, &text);
        let output = everturn(&["config", "show", "--config", &file]).output().await.unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}: {error}");
        assert!(error.contains(said) && error.contains(&file), "{text}: {error}");
    }
}

/// An agent of the file has a tool that its clients run: the turn rests until one brings the result, and goes
/// on with it.
#[tokio::test]
async fn a_configured_tool_waits_for_its_client() {
    let (scratch, data) = (Scratch::new(), Scratch::new());
    let text = FILE.replace("listen =", "#").split("[agents.careful.tools.buy]").next().unwrap().to_owned();
    let mut command = everturn(&["serve", "--listen", "127.0.0.1:0", "--config", &write(&scratch, &text), "--data"]);
    command.arg(data.path());
    let daemon = Daemon::spawn(data.path(), command).await;
    let made = daemon.post("/v1/chats", &json!({"agent": "careful"})).await;
    let chat = format!("/v1/chats/{}", made["id"].as_str().unwrap());
    let mut reader = Reader::open(daemon.ask(Method::GET, &format!("{chat}/stream"))).await;
    daemon.post(&format!("{chat}/messages"), &json!({"text": "Show me Oslo"})).await;
    let is_awaiting = |view: &everturn_server::wire::View| {
        view.status.as_ref().is_some_and(|standing| standing.status == Status::Awaiting)
    };
    let view = reader.until(is_awaiting).await;
    let ask = view.status.unwrap().asks[0].clone();
    assert_eq!((ask.tool.as_str(), serde_json::to_value(ask.wants).unwrap()), ("map", json!("result")));
    let answers = json!({"answers": [{"kind": "result", "call": ask.call, "output": "a map of Oslo"}]});
    daemon.post(&format!("{chat}/answers"), &answers).await;
    assert!(reply(&reader.until_rest().await).contains("a map of Oslo"));
    daemon.end().await;
}
