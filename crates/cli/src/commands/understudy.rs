//! `everturn understudy`: the stand-in model as a server.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use everturn_understudy::http::{Fault, KEY, UnderstudyOptions, UnderstudyServer};
use everturn_understudy::{Manner, Understudy};

use crate::output::println;
use crate::process::parent::end_with_parent;

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn understudy --port 4141
  everturn understudy --fault 429x3 --fault slow@50
  everturn understudy --chaos 0.2 --seed 7

  curl -N localhost:4141/v1/chat/completions -H 'authorization: Bearer understudy' -H 'content-type: application/json' \\
    -d '{\"model\": \"numbered-faults:cut@9\", \"stream\": true, \"messages\": [{\"role\": \"user\", \"content\": \"count to 30\"}]}'";

/// Arguments of `everturn understudy`.
#[derive(clap::Args)]
pub struct Serve {
    /// The loopback port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 4141)]
    port: u16,
    /// Fault in every request; repeatable.
    #[arg(long, value_name = "FAULT")]
    fault: Vec<Fault>,
    /// Probability, from 0 to 1, of another fault in a request.
    #[arg(long, value_name = "PROBABILITY", default_value_t = 0.0, value_parser = probability)]
    chaos: f64,
    /// Seed of the random faults: the same number gives the same run.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Milliseconds between words.
    #[arg(long, value_name = "MS", default_value_t = 15)]
    pace: u64,
    /// Exit when standard input ends.
    #[arg(long, hide = true)]
    until_input_ends: bool,
    /// The key every request must carry.
    #[arg(long, default_value = KEY)]
    key: String,
}

fn probability(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "a probability is a number from 0 to 1".into())
}

impl Serve {
    /// Serves until Ctrl-C.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if self.until_input_ends {
            end_with_parent();
        }
        let manner = Manner { pace: Duration::from_millis(self.pace), seed: self.seed };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let options = UnderstudyOptions {
            address,
            key: self.key,
            faults: self.fault,
            chaos: self.chaos,
            seed: self.seed,
            ..UnderstudyOptions::default()
        };
        let server = UnderstudyServer::start(Understudy::company(manner), options);
        let server =
            server.await.map_err(|error| anyhow!("cannot listen on {address}: {error}; try another --port"))?;
        println!("The understudy listens on {}", server.url());
        println!("  Anthropic Messages       POST {}/v1/messages", server.url());
        println!("  OpenAI Responses         POST {}/v1/responses", server.url());
        println!("  OpenAI Chat Completions  POST {}/v1/chat/completions", server.url());
        println!(
            "  Gemini                   POST {}/v1beta/models/persona:streamGenerateContent?alt=sse",
            server.url()
        );
        println!("  Gemini Interactions      POST {}/v1beta/interactions", server.url());
        println!("Ctrl-C stops it.");
        tokio::signal::ctrl_c().await?;
        Ok(ExitCode::SUCCESS)
    }
}
