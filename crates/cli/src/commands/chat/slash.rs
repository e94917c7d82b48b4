//! Slash commands.

/// A typed line that begins with a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slash {
    Help,
    Quit,
    /// List the models.
    Models,
    /// Use this model, or the agent's.
    Model(Option<String>),
    /// Record the chat's provider traffic, or stop that.
    Debug(bool),
    Compact,
    Edit,
    Fork,
    Cost,
    Queue,
    Promote(u64),
    Unqueue(u64),
    Title(String),
    Steer(String),
    Now(String),
    New(Option<String>),
    Stop,
    /// Archive the chat, or take it out of the archive.
    Archive(bool),
    /// Delete the chat, if its short id was typed; otherwise say how.
    Delete(Option<String>),
    /// List the tools of the chat's agent.
    Tools,
    /// Show what one call, or the newest turn, changed in files.
    Diff(Option<String>),
    /// Undo that.
    Undo(Option<String>),
    /// List the background jobs of the chat.
    Jobs,
    /// End one of them.
    StopJob(u32),
    /// List the grants of the chat.
    Permissions,
    /// Revoke the grant that was given with this call.
    Revoke(String),
    /// List the agents, or the MCP servers.
    Agents,
    Mcp,
    /// Write the message in an external editor.
    Editor,
    /// Not a command; with a hint.
    Unknown(String),
}

/// Keys and commands, with what they do.
pub const HELP: [(&str, &str); 28] = [
    ("Enter", "sends the message; while a turn runs it is queued"),
    ("Ctrl-S, /steer TEXT", "sends the message to the running turn, at its next step"),
    ("/now TEXT", "interrupts the turn and sends the message"),
    ("Ctrl-C, /stop", "interrupts the turn and keeps the text so far; the queue comes next; twice leaves"),
    ("Alt-Enter, \\ Enter", "begins a new line"),
    ("Up, Down", "bring back earlier messages of yours"),
    ("Ctrl-R", "searches your earlier messages; again for older ones"),
    ("Ctrl-G, /editor", "writes the message in $VISUAL or $EDITOR"),
    ("@FILE", "attaches a file: text, an image or a PDF; Tab completes it"),
    ("/queue", "shows queued messages; /queue next N, /queue drop N"),
    ("/edit", "edits your newest message; replaces everything after it"),
    ("/fork", "continues in a copy of the chat"),
    ("/new [AGENT]", "starts another chat"),
    ("/title TEXT", "sets the chat's title"),
    ("/archive, /archive off", "archives the chat, or takes it out of the archive"),
    ("/delete", "deletes the chat for good; says how to confirm it"),
    ("/compact", "summarises the chat so far"),
    ("/cost", "shows tokens and cost, and the budget"),
    ("/model [NAME]", "lists the models; uses NAME from the next turn on, /model agent its agent's"),
    ("/tools", "lists the tools of the agent, and where they work"),
    ("/diff [CALL]", "shows what the newest turn, or one call, changed in files"),
    ("/undo [CALL]", "undoes that; again for the turn before"),
    ("/jobs", "lists commands in the background; /jobs stop N ends one"),
    ("/permissions", "lists what you allowed in advance; /permissions revoke CALL ends one"),
    ("/agents", "lists the agents"),
    ("/mcp", "lists the MCP servers and how they are"),
    ("/debug, /debug off", "records the chat's requests to providers, or stops that"),
    ("/quit, Ctrl-D", "leaves; the chat stays"),
];

/// Whether there is a command of this name.
pub fn is_known(name: &str) -> bool {
    let is_command = |line: &str| !matches!(read(line), None | Some(Slash::Unknown(_)));
    is_command(&format!("/{name}")) || is_command(&format!("/{name} x"))
}

/// Parses a command; `None` if the line is a message.
pub fn read(line: &str) -> Option<Slash> {
    let line = line.trim();
    let command = line.strip_prefix('/')?;
    // A name with other characters is a path or a comment, not a command.
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let rest = rest.trim();
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return None;
    }
    let with_text = |slash: fn(String) -> Slash| {
        if rest.is_empty() { Slash::Unknown(format!("/{name} needs a text after it")) } else { slash(rest.into()) }
    };
    Some(match name {
        "help" => Slash::Help,
        "quit" | "exit" => Slash::Quit,
        "model" | "models" if rest.is_empty() => Slash::Models,
        "model" if rest == "agent" => Slash::Model(None),
        "model" => Slash::Model(Some(rest.into())),
        "debug" if rest.is_empty() || rest == "on" => Slash::Debug(true),
        "debug" if rest == "off" => Slash::Debug(false),
        "debug" => Slash::Unknown("/debug or /debug off".into()),
        "compact" => Slash::Compact,
        "edit" => Slash::Edit,
        "fork" => Slash::Fork,
        "cost" => Slash::Cost,
        "stop" => Slash::Stop,
        "editor" => Slash::Editor,
        "tools" => Slash::Tools,
        "diff" => Slash::Diff((!rest.is_empty()).then(|| rest.into())),
        "undo" => Slash::Undo((!rest.is_empty()).then(|| rest.into())),
        "jobs" if rest.is_empty() => Slash::Jobs,
        "jobs" => match rest.strip_prefix("stop ").and_then(|number| number.trim().parse().ok()) {
            Some(number) => Slash::StopJob(number),
            None => Slash::Unknown("/jobs or /jobs stop N".into()),
        },
        "permissions" if rest.is_empty() => Slash::Permissions,
        "permissions" => match rest.strip_prefix("revoke ") {
            Some(call) => Slash::Revoke(call.trim().into()),
            None => Slash::Unknown("/permissions or /permissions revoke CALL".into()),
        },
        "agents" => Slash::Agents,
        "mcp" => Slash::Mcp,
        "archive" if rest.is_empty() || rest == "on" => Slash::Archive(true),
        "archive" if rest == "off" => Slash::Archive(false),
        "archive" => Slash::Unknown("/archive or /archive off".into()),
        "delete" => Slash::Delete((!rest.is_empty()).then(|| rest.into())),
        "title" => with_text(Slash::Title),
        "steer" => with_text(Slash::Steer),
        "now" => with_text(Slash::Now),
        "new" => Slash::New((!rest.is_empty()).then(|| rest.into())),
        "queue" if rest.is_empty() => Slash::Queue,
        "queue" => queue(rest),
        name => Slash::Unknown(format!("there is no /{name}; /help lists all commands")),
    })
}

fn queue(rest: &str) -> Slash {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let slash = match rest.split_once(' ') {
        Some(("drop", text)) => number(text).map(Slash::Unqueue),
        Some(("next", text)) => number(text).map(Slash::Promote),
        _ => None,
    };
    slash.unwrap_or_else(|| Slash::Unknown("/queue, /queue next N or /queue drop N".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_words() {
        for (line, slash) in [
            ("hello", None),
            ("/usr/bin is a path", None),
            ("// a comment", None),
            (" /help ", Some(Slash::Help)),
            ("/title A  name", Some(Slash::Title("A  name".into()))),
            ("/new", Some(Slash::New(None))),
            ("/new careful", Some(Slash::New(Some("careful".into())))),
            ("/model", Some(Slash::Models)),
            ("/model understudy/numbered", Some(Slash::Model(Some("understudy/numbered".into())))),
            ("/model agent", Some(Slash::Model(None))),
            ("/debug", Some(Slash::Debug(true))),
            ("/debug off", Some(Slash::Debug(false))),
            ("/queue drop 3", Some(Slash::Unqueue(3))),
            ("/queue next 4", Some(Slash::Promote(4))),
            ("/archive", Some(Slash::Archive(true))),
            ("/archive off", Some(Slash::Archive(false))),
            ("/undo", Some(Slash::Undo(None))),
            ("/diff 3.0", Some(Slash::Diff(Some("3.0".into())))),
            ("/jobs stop 2", Some(Slash::StopJob(2))),
            ("/permissions revoke 3.0", Some(Slash::Revoke("3.0".into()))),
            ("/delete", Some(Slash::Delete(None))),
            ("/delete 9n2x4c", Some(Slash::Delete(Some("9n2x4c".into())))),
        ] {
            assert_eq!(read(line), slash, "{line}");
        }
        for line in ["/steer", "/queue drop", "/debug maybe", "/permissions end", "/jobs stop", "/nothing"] {
            assert!(matches!(read(line), Some(Slash::Unknown(_))), "{line}");
        }
    }

    #[test]
    fn help_names_every_command() {
        for name in [
            "quit",
            "model",
            "compact",
            "edit",
            "fork",
            "cost",
            "queue",
            "title",
            "steer",
            "now",
            "new",
            "stop",
            "debug",
            "archive",
            "delete",
            "editor",
            "tools",
            "diff",
            "jobs",
            "undo",
            "permissions",
            "agents",
            "mcp",
        ] {
            assert!(HELP.iter().any(|(keys, _)| keys.contains(&format!("/{name}"))), "{name}");
        }
    }
}
