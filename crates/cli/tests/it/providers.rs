//! Providers, agents' habits and stores, as the configuration says them.

use std::time::Duration;

use everturn_server::wire::Ended;
use everturn_understudy::http::{KEY, UnderstudyOptions, UnderstudyServer};
use everturn_understudy::{Manner, Understudy};
use serde_json::json;

use crate::daemon::{Daemon, Scratch, everturn};

pub async fn understudy() -> UnderstudyServer {
    let manner = Manner { pace: Duration::ZERO, seed: 7 };
    UnderstudyServer::start(Understudy::company(manner), UnderstudyOptions::default()).await.unwrap()
}

/// The configuration file with this text in it.
fn file(scratch: &Scratch, text: &str) -> String {
    std::fs::create_dir_all(scratch.path()).unwrap();
    let file = scratch.path().join("config.toml");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// What `run` comes to with this file, these variables and this model.
async fn ran(file: &str, variables: &[(&str, &str)], model: &str) -> (Option<i32>, String) {
    let mut command = everturn(&["run", "--ephemeral", "--config", file, "--model", model, "count to 3"]);
    let output = command.envs(variables.iter().copied()).output().await.unwrap();
    let told = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), told)
}

/// A configured provider is used under its own name, with the key in the named variable.
#[tokio::test]
async fn a_provider_of_the_file_is_asked() {
    let understudy = understudy().await;
    let (scratch, url) = (Scratch::new(), understudy.url());
    for (wire, base) in [("chat", "/v1"), ("responses", "/v1"), ("anthropic", ""), ("gemini", "/v1beta")] {
        let text = format!("[providers.lab]\nwire = \"{wire}\"\nurl = \"{url}{base}\"\nkey_env = \"LAB_KEY\"");
        let file = file(&scratch, &text);
        let (code, told) = ran(&file, &[("LAB_KEY", KEY)], "lab/numbered").await;
        assert_eq!((code, told.as_str()), (Some(0), "t1 t2 t3\n"), "{wire}");
        let (code, told) = ran(&file, &[], "lab/numbered").await;
        assert_eq!(code, Some(1), "{wire}: {told}");
        assert!(told.contains("LAB_KEY"), "{wire}: {told}");
    }
}

/// OpenRouter and Ollama are found by the variables that everybody sets.
#[tokio::test]
async fn well_known_providers_are_found_by_their_variables() {
    let understudy = understudy().await;
    let (scratch, url) = (Scratch::new(), understudy.url());
    let (base, host) = (format!("{url}/v1"), url.strip_prefix("http://").unwrap().to_owned());
    let file = file(&scratch, "");
    let openrouter = [("OPENROUTER_API_KEY", KEY), ("OPENROUTER_BASE_URL", base.as_str())];
    let ollama = [("OLLAMA_HOST", host.as_str()), ("OLLAMA_API_KEY", KEY)];
    for (variables, model) in [(openrouter, "openrouter/numbered"), (ollama, "ollama/numbered")] {
        assert_eq!(ran(&file, &variables, model).await, (Some(0), "t1 t2 t3\n".to_owned()), "{model}");
    }
    let asked: Vec<String> = understudy.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(asked, ["/v1/chat/completions", "/v1/chat/completions"]);
}

/// The file sets the price of a model that the catalogue does not know, so that budgets hold for it. Without a
/// price, a line at the start says that they do not.
#[tokio::test]
async fn a_price_makes_a_bound_on_money_hold() {
    let understudy = understudy().await;
    let lab = format!("[providers.lab]\nwire = \"chat\"\nurl = \"{}/v1\"\nkey_env = \"LAB_KEY\"\n", understudy.url());
    for price in ["", "[prices.\"lab/num\"]\ninput = 1e6\noutput = 1e6\n"] {
        let (scratch, data) = (Scratch::new(), Scratch::new());
        let text = format!("model = \"lab/numbered\"\n[budget]\nday_cost_max = 0.5\n{lab}{price}");
        let mut command = everturn(&["serve", "--listen", "127.0.0.1:0", "--config", &file(&scratch, &text), "--data"]);
        command.arg(data.path()).env("LAB_KEY", KEY);
        let daemon = Daemon::spawn(data.path(), command).await;
        let mut ends = Vec::new();
        for _ in 0..2 {
            let chat = daemon.chat().await;
            let mut reader = daemon.watch(&chat).await;
            daemon.post(&format!("{chat}/messages"), &json!({"text": "count to 3"})).await;
            ends.push(reader.until_rest().await.status.unwrap().ended.unwrap());
        }
        assert_eq!(ends[0], Ended::Done, "it is asked before each call");
        let is_broke = matches!(&ends[1], Ended::Failed(failure) if failure.kind == "budget");
        assert_eq!(is_broke, !price.is_empty(), "{price}: {ends:?}");
        let logged = daemon.end().await;
        assert_eq!(logged.contains("the price of lab/numbered is unknown"), price.is_empty(), "{logged}");
    }
}

/// S16: a key does not travel where everybody can read it, and what is no provider is refused at the start.
#[tokio::test]
async fn a_provider_that_cannot_be_had_is_refused() {
    let scratch = Scratch::new();
    let lab = |rest: &str| format!("[providers.lab]\nwire = \"chat\"\n{rest}");
    for (text, said) in [
        (lab("url = \"http://lab.example/v1\"\nkey_env = \"LAB_KEY\""), "the key of lab would travel unencrypted"),
        (lab("url = \"ftp://lab.example\""), "the base URL of lab is not an http or https address"),
        (lab("url = \"https://a:b@lab.example\""), "has a name or a password in it"),
        (lab("url = \"https://lab.example\"\nkey-env = \"LAB_KEY\""), "did you mean `key_env`?"),
        (lab("url = \"https://lab.example\"").replace("lab]", "openai]"), "the provider `openai` is built in"),
    ] {
        let (code, told) = ran(&file(&scratch, &text), &[("LAB_KEY", "sk-of-the-lab")], "understudy/numbered").await;
        assert_eq!(code, Some(1), "{text}: {told}");
        assert!(told.contains(said) && !told.contains("sk-of"), "{text}: {told}");
    }
    let (code, told) = ran(&file(&scratch, "models = [\"nobody/any\"]"), &[], "understudy/numbered").await;
    assert!(
        code == Some(1) && told.contains("no provider is configured for nobody/any, which `models` lists"),
        "{told}"
    );
    let (code, told) = ran(&file(&scratch, ""), &[], "nobody/any").await;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("anthropic, google, ollama, openai, openrouter, understudy"), "{told}");
}

/// How hard an agent thinks, whether its answers outlive their stream, and when it summarises, is the file's
/// to say.
#[tokio::test]
async fn an_agent_has_the_habits_of_the_file() {
    let understudy = understudy().await;
    let (scratch, data) = (Scratch::new(), Scratch::new());
    let habits = "model = \"openai/gpt-5-mini\"\nbackground = true\neffort = \"high\"";
    let text = format!("{habits}\n[agents.hard]\n{habits}");
    let mut command = everturn(&["serve", "--listen", "127.0.0.1:0", "--config", &file(&scratch, &text), "--data"]);
    command.arg(data.path()).env("OPENAI_API_KEY", KEY).env("OPENAI_BASE_URL", format!("{}/v1", understudy.url()));
    let daemon = Daemon::spawn(data.path(), command).await;
    for agent in ["default", "hard"] {
        let chat = daemon.chat_with(agent).await;
        let mut reader = daemon.watch(&chat).await;
        daemon.post(&format!("{chat}/messages"), &json!({"text": "Hello."})).await;
        reader.until_rest().await;
        let body = understudy.requests().pop().unwrap().body;
        let habits = (&body["background"], &body["reasoning"]["effort"]);
        assert_eq!(habits, (&json!(true), &json!("high")), "{agent}");
    }
    daemon.end().await;
}

/// Behind a pooler the hints of others are heard elsewhere.
#[tokio::test]
async fn hints_are_heard_where_the_environment_says() {
    let data = Scratch::new();
    let url = everturn_props::database().unwrap();
    let aside = format!("{url}{}application_name=aside", if url.contains('?') { '&' } else { '?' });
    let variables = [("DATABASE_URL", url.as_str()), ("DATABASE_LISTEN_URL", &aside), ("EVERTURN_DURABILITY", "full")];
    let daemon = Daemon::start_with(data.path(), "understudy/numbered", &variables).await;
    let chat = daemon.chat().await;
    let mut reader = daemon.watch(&chat).await;
    daemon.post(&format!("{chat}/messages"), &json!({"text": "count to 3"})).await;
    assert_eq!(crate::reader::reply(&reader.until_rest().await), "t1 t2 t3");
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'aside' AND query LIKE 'LISTEN%'";
    assert_eq!(everturn_props::shared::psql(&url, listening).unwrap().trim(), "1");
    daemon.end().await;
    let mut command = everturn(&["run", "--data", data.path().to_str().unwrap(), "count to 3"]);
    let output = command.env("DATABASE_LISTEN_URL", &aside).output().await.unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && error.contains("DATABASE_URL"), "{error}");
}
