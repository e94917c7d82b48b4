//! Who may come in, from the command line.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::bail;
use everturn_server::wire::{NewToken, ScopeName, TokenInfo};

use crate::clock;
use crate::daemon::{Otherwise, Own, Which};
use crate::output::{self, println};
use crate::terminal::visible;

/// What a newcomer can try.
pub const EXAMPLES: &str = "Examples:
  everturn tokens
  everturn tokens make phone --scope read --scope chat --days 30
  everturn tokens revoke 5b1f";

/// How much of a name is shown, in one line.
const CHARS_MAX: usize = 100;

/// What to do with tokens.
#[derive(clap::Args)]
pub struct Tokens {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Print each token as one line of JSON, as `GET /v1/tokens` shows it.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// List all tokens, without their secrets.
    List,
    /// Make a token and print its secret, this once.
    Make {
        /// What to call it.
        name: String,
        /// What it may do; may be given several times. [default: read and chat]
        #[arg(long, value_enum)]
        scope: Vec<Scope>,
        /// In whose name it acts; yours if left out.
        #[arg(long)]
        owner: Option<String>,
        /// For how many days it is good; without end if left out.
        #[arg(long)]
        days: Option<u64>,
    },
    /// Take a token back: it opens nothing any more, and its streams end.
    Revoke {
        /// Its id, or as much of the beginning as is unique, or its name.
        token: String,
        /// Do not ask, also if it is the token that these commands use.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Scope {
    Read,
    Chat,
    Approve,
    Admin,
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
    /// Asks the daemon.
    pub async fn run(mut self) -> anyhow::Result<ExitCode> {
        // A daemon of one's own would do too; but tokens are for those who come to one that runs.
        let house = self.which.open(&Own::default(), Otherwise::Refuse).await?;
        let client = &house.client;
        match self.verb.take().unwrap_or(Verb::List) {
            Verb::List => client.tokens().await?.tokens.iter().try_for_each(|token| self.show(token))?,
            Verb::Make { name, scope, owner, days } => {
                let scopes: Vec<ScopeName> = scope.into_iter().map(Into::into).collect();
                let scopes = if scopes.is_empty() { vec![ScopeName::Read, ScopeName::Chat] } else { scopes };
                let seconds = days.map(|days| days.saturating_mul(24 * 60 * 60));
                let made = client.make_token(&NewToken { name, owner, scopes, seconds }).await?;
                // Alone on standard output, so that a script can take it.
                println!("{}", made.token);
                output::aside(format_args!("this is shown once; its id is {}", made.info.id));
            }
            Verb::Revoke { token, .. } if token.trim().is_empty() => bail!("which one? `everturn tokens` lists them"),
            Verb::Revoke { token, yes } => {
                let all = client.tokens().await?.tokens;
                let is_good = |info: &&TokenInfo| info.revoked.is_none();
                let fits = |info: &&TokenInfo| info.id.starts_with(&token) || info.name == token;
                let found: Vec<&TokenInfo> = all.iter().filter(is_good).filter(fits).collect();
                match found[..] {
                    [one] if !yes && one.id == client.token_id()? && !is_sure(&one.name)? => {
                        output::aside("nothing was revoked");
                        house.leave().await;
                        return Ok(ExitCode::from(1));
                    }
                    [one] => self.show(&client.revoke_token(&one.id).await?)?,
                    [] => bail!("there is no such token: `everturn tokens` lists them"),
                    [..] => bail!("{} tokens fit: name one by its id", found.len()),
                }
            }
        }
        house.leave().await;
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether somebody means it who takes back the token that opens the door for themselves.
fn is_sure(name: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("`{name}` is the token that this command uses, and none of your commands gets in without it: add --yes");
    }
    Ok(output::is_sure(format_args!(
        "{} is the token that this command uses, and none of your commands gets in without it. Revoke it? [y/N] ",
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
        (None, Some(_)) => "good, for a time",
        (None, None) => "good",
    };
    let (name, owner) = (visible::line(&token.name, CHARS_MAX), visible::line(&token.owner, CHARS_MAX));
    println!("{}  {name}  {owner}  {}  {state}", token.id, scopes.join(","));
}
