//! `everturn tokens`: list, create and revoke access tokens.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::bail;
use everturn_server::wire::{NewToken, ScopeName, TokenInfo};

use crate::clock;
use crate::daemon::{ChatArgs, DaemonArgs, IfNoDaemon};
use crate::output::{self, println};
use crate::terminal::visible;

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn tokens
  everturn tokens make phone --scope read --scope chat --days 30
  everturn tokens revoke 5b1f";

/// Characters of a name that are shown.
const CHARS_MAX: usize = 100;

/// Arguments of `everturn tokens`.
#[derive(clap::Args)]
pub struct Tokens {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Print each token as one line of JSON, as `GET /v1/tokens` shows it.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// List all tokens, without their secrets.
    List,
    /// Create a token and print its secret; it is not shown again.
    Make {
        /// Name of the token.
        name: String,
        /// Permission of the token; repeatable. [default: read and chat]
        #[arg(long, value_enum)]
        scope: Vec<Scope>,
        /// Owner of the token; yours if left out.
        #[arg(long)]
        owner: Option<String>,
        /// Days until it expires; never if left out.
        #[arg(long)]
        days: Option<u64>,
    },
    /// Revoke a token: requests with it are refused, and its streams end.
    Revoke {
        /// Its id, a unique beginning of it, or its name.
        token: String,
        /// Do not ask for confirmation, even for the token that this command uses.
        #[arg(long)]
        yes: bool,
    },
}

/// A scope, as it is given on the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Scope {
    /// Read chats.
    Read,
    /// Create chats and send.
    Chat,
    /// Approve and deny calls.
    Approve,
    /// Manage tokens, read the metrics.
    Admin,
    /// Read the metrics.
    Metrics,
}

impl From<Scope> for ScopeName {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Read => Self::Read,
            Scope::Chat => Self::Chat,
            Scope::Approve => Self::Approve,
            Scope::Admin => Self::Admin,
            Scope::Metrics => Self::Metrics,
        }
    }
}

impl Tokens {
    /// Carries out the request at the running daemon.
    pub async fn run(mut self) -> anyhow::Result<ExitCode> {
        // A daemon in this process would do too, but tokens are only of use with one that keeps running.
        let connection = self.daemon.open(&ChatArgs::default(), IfNoDaemon::Refuse).await?;
        let client = &connection.client;
        match self.verb.take().unwrap_or(Verb::List) {
            Verb::List => client.tokens().await?.tokens.iter().try_for_each(|token| self.show(token))?,
            Verb::Make { name, scope, owner, days } => {
                let scopes: Vec<ScopeName> = scope.into_iter().map(Into::into).collect();
                let scopes = if scopes.is_empty() { vec![ScopeName::Read, ScopeName::Chat] } else { scopes };
                let seconds = days.map(|days| days.saturating_mul(24 * 60 * 60));
                let made = client.make_token(&NewToken { name, owner, scopes, seconds }).await?;
                // Alone on standard output, so that a script can take it.
                println!("{}", made.token);
                output::aside(format_args!("the secret is shown only once; the token's id is {}", made.info.id));
            }
            Verb::Revoke { token, .. } if token.trim().is_empty() => {
                bail!("the token is missing: `everturn tokens` lists them")
            }
            Verb::Revoke { token, yes } => {
                let all = client.tokens().await?.tokens;
                let is_good = |info: &&TokenInfo| info.revoked.is_none();
                let fits = |info: &&TokenInfo| info.id.starts_with(&token) || info.name == token;
                let found: Vec<&TokenInfo> = all.iter().filter(is_good).filter(fits).collect();
                match found[..] {
                    [one] if !yes && one.id == client.token_id()? && !is_sure(&one.name)? => {
                        output::aside("nothing was revoked");
                        connection.leave().await;
                        return Ok(ExitCode::from(1));
                    }
                    [one] => self.show(&client.revoke_token(&one.id).await?)?,
                    [] => bail!("there is no such token: `everturn tokens` lists them"),
                    [..] => bail!("{} tokens match: name one by its id", found.len()),
                }
            }
        }
        connection.leave().await;
        Ok(ExitCode::SUCCESS)
    }
}

/// Confirmation for revoking the token that this command itself uses.
fn is_sure(name: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("`{name}` is the token that this command uses; your commands are refused without it: add --yes");
    }
    Ok(output::is_sure(format_args!(
        "{} is the token that this command uses; your commands are refused without it. Revoke it? [y/N] ",
        visible::line(name, CHARS_MAX)
    ))?)
}

impl Tokens {
    fn show(&self, token: &TokenInfo) -> anyhow::Result<()> {
        match self.json {
            true => output::json(token)?,
            false => show(token),
        }
        Ok(())
    }
}

fn show(token: &TokenInfo) {
    let scopes: Vec<String> = token.scopes.iter().map(|scope| format!("{scope:?}").to_lowercase()).collect();
    let now = clock::now();
    let state = match (token.revoked, token.expires) {
        (Some(_), _) => "revoked",
        (None, Some(at)) if at <= now => "expired",
        (None, Some(_)) => "valid, expires",
        (None, None) => "valid",
    };
    let (name, owner) = (visible::line(&token.name, CHARS_MAX), visible::line(&token.owner, CHARS_MAX));
    println!("{}  {name}  {owner}  {}  {state}", token.id, scopes.join(","));
}
