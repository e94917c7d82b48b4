//! `everturn serve`: serve chats over HTTP until Ctrl-C or SIGTERM.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use everturn::core::ids::Timestamp;
use everturn_server::{DataDir, FirstToken, ListenAddress, ServerLifetime, Tls};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::Level;

use crate::clock;
use crate::config::{Config, Flags, variables_set};
use crate::output::{self, println};
use crate::process::logs::{self, Form, Logs};
use crate::process::signals::Ends;
use crate::process::stall_monitor::StallMonitor;
use crate::server::{ChatStorage, Extension, Running, no_token, prepare};

/// How long the link to the web page works that is printed at the start.
const LINK_TIME: Duration = Duration::from_secs(600);

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn serve
  everturn serve --model anthropic/claude-sonnet-4-5
  everturn serve --listen 127.0.0.1:8080 --data ./data
  everturn serve --workspace /srv/site
  everturn serve --listen unix:/run/everturn/socket
  everturn serve --listen 0.0.0.0:443 --expose --tls-cert chain.pem --tls-key key.pem --host chat.example.com";

/// Serves until Ctrl-C or SIGTERM. A failure is printed in the format of the log.
pub async fn run(flags: &Flags, extension: Option<&dyn Extension>) -> anyhow::Result<ExitCode> {
    match (serve(flags, extension).await, Form::told(|name| std::env::var(name).ok())) {
        (Err(error), Form::Json) if !output::is_broken_pipe(&error) => {
            logs::line(Level::ERROR, &format!("{error:#}"));
            Ok(ExitCode::from(1))
        }
        (served, _) => served,
    }
}

/// Prints a line beside the banner, in the format of the log.
fn aside(words: &str) {
    match Form::told(|name| std::env::var(name).ok()) {
        Form::Text => output::aside(words),
        Form::Json => logs::line(Level::INFO, words),
    }
}

async fn serve(flags: &Flags, extension: Option<&dyn Extension>) -> anyhow::Result<ExitCode> {
    let config = Config::read(flags, |name| std::env::var(name).ok())?;
    config.refuse_unknown(variables_set())?;
    let entrances = config.entrances()?;
    let logs = Logs::start(DataDir::open(&config.data.value)?.path(), |name| std::env::var(name).ok())?;
    config.exposure.warnings(&entrances).iter().for_each(|warning| tracing::warn!("{warning}"));
    let _lookout = StallMonitor::of_this_runtime();
    let mut ends = Ends::listen()?;
    if let Some(tls) = entrances.iter().find_map(|entrance| entrance.tls.clone()) {
        tokio::spawn(reread(tls, signal(SignalKind::hangup())?));
    }
    let (data, kept) = tokio::select! {
        opened = prepare(&config, ChatStorage::Configured) => opened?,
        () = ends.next() => {
            aside("stopping: the store was not open yet, so no chat was started");
            logs.end().await;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let mut is_told = false;
    let running = tokio::select! {
        biased;
        started = Running::start_on(data, kept, &config, &entrances, ServerLifetime::Daemon, extension) => started?,
        () = given_up(&mut ends, &mut is_told, config.drain()) => {
            aside("stopping: the start did not finish in time and was abandoned");
            logs.end().await;
            return Ok(ExitCode::SUCCESS);
        }
    };
    if !is_told {
        banner(&running);
        page_link(&running).await;
        println!("Ctrl-C stops it.");
        ends.next().await;
    }
    aside(
        "stopping: steps that are nearly done may finish, running turns are handed over; signal again to hand over now",
    );
    running.stop_within(config.drain(), ends.next()).await;
    logs.end().await;
    Ok(ExitCode::SUCCESS)
}

/// Waits for a signal, then gives the start `grace` to finish, or until a second signal: a store that does
/// not answer would block it for longer.
async fn given_up(ends: &mut Ends, is_told: &mut bool, grace: Duration) {
    ends.next().await;
    *is_told = true;
    tokio::select! {
        () = tokio::time::sleep(grace) => {}
        () = ends.next() => {}
    }
}

/// Reloads the certificate at every SIGHUP.
async fn reread(tls: Arc<Tls>, mut told: Signal) {
    while told.recv().await.is_some() {
        match tls.reread() {
            Ok(()) => {
                tracing::info!("TLS certificate reloaded");
                tls.warnings(Timestamp(clock::now())).iter().for_each(|warning| tracing::warn!("{warning}"));
            }
            Err(error) => {
                tracing::error!(%error, "TLS certificate could not be reloaded: the previous one stays in use")
            }
        }
    }
}

/// Prints a link to the web page that logs in, on a terminal only: a log must not contain it.
async fn page_link(Running { server, data, .. }: &Running) {
    let is_text = matches!(Form::told(|name| std::env::var(name).ok()), Form::Text);
    let entrance = server.entrances().iter().find(|entrance| matches!(entrance.at, ListenAddress::Tcp(_)));
    let Some(entrance) = entrance.filter(|_| is_text && std::io::stdout().is_terminal()) else { return };
    if !server.has_page() {
        println!("  page   not in this program: it was built without npm");
        return;
    }
    let Ok(Some(secret)) = data.read_token() else { return };
    if let Ok(path) = server.login_path(&secret, LINK_TIME).await {
        println!("  page   {}{path}", entrance.url());
        println!("         (works once, for ten minutes; `everturn open` makes another link)");
    } // Else the token is not valid any more, which the line above has said.
}

fn banner(Running { server, data, model, without_key, is_keyless, first_token, what, .. }: &Running) {
    for (entrance, word) in server.entrances().iter().zip(["Everturn listens on", "  and for commands here on"]) {
        let url = match (&entrance.at, &entrance.tls) {
            (ListenAddress::Unix(_), _) => entrance.at.to_string(),
            (ListenAddress::Tcp(address), None) => format!("http://{address}"),
            (ListenAddress::Tcp(address), Some(_)) => format!("https://{address}"),
        };
        println!("{word} {url}");
    }
    println!("  data   {}", data.path().display());
    println!("  store  {what}");
    match first_token {
        FirstToken::Good => println!("  token  in {}", data.token_file().display()),
        FirstToken::Old => println!("  token  none: {}", no_token(data)),
    }
    match model.provider() {
        "understudy" if *is_keyless => {
            println!("  model  {model}: no key is set, so the understudy stands in for a model");
        }
        "understudy" => println!("  model  {model}: the understudy stands in for a model"),
        provider if without_key.iter().any(|name| name == provider) => {
            println!("  model  {model}: but no key for {provider} is set");
        }
        _ => println!("  model  {model}"),
    }
    if server.resumed() > 0 {
        println!("  chats  {} taken up where they were", server.resumed());
    }
}
