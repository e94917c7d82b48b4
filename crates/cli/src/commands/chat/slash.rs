//! Commands that are typed.

/// What a line that begins with a slash means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slash {
    Help,
    Quit,
    /// List the models.
    Models,
    /// Ask this model, or the agent's.
    Model(Option<String>),
    /// Have the chat recorded, or not.
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
    /// Put the chat away, or take it out again.
    Archive(bool),
    /// Delete the chat, named by its short id; or say how.
    Delete(Option<String>),
    /// Write the message in a program of its own.
    Editor,
    /// No command; with what to do.
    Unknown(String),
}

/// What can be typed, with what it does.
pub const HELP: [(&str, &str); 21] = [
    ("Enter", "says it; while an answer arrives it is queued"),
    ("Ctrl-S, /steer TEXT", "says it at the next step of the turn under way"),
    ("/now TEXT", "stops the turn and says it"),
    ("Ctrl-C, /stop", "stops the answer and keeps what was said; what is queued comes next; twice leaves"),
    ("Alt-Enter, \\ Enter", "begins a new line"),
    ("Up, Down", "bring back what you said before"),
    ("Ctrl-R", "looks for words in what you said before; again for older"),
    ("Ctrl-G, /editor", "writes the message in $VISUAL or $EDITOR"),
    ("@FILE", "sends a file along: text, an image or a PDF; Tab completes it"),
    ("/queue", "shows what waits; /queue next N, /queue drop N"),
    ("/edit", "changes what you said last, and everything after it"),
    ("/fork", "goes on in a copy of the chat"),
    ("/new [AGENT]", "begins another chat"),
    ("/title TEXT", "names the chat"),
    ("/archive, /archive off", "puts the chat away, or takes it out again"),
    ("/delete", "deletes the chat for good; says how to confirm it"),
    ("/compact", "summarises what was said"),
    ("/cost", "tells what was used, beside the budget"),
    ("/model [NAME]", "lists the models; has the chat ask NAME from its next turn on, /model agent its agent's"),
    ("/debug, /debug off", "has what is exchanged with providers for the chat recorded, or not"),
    ("/quit, Ctrl-D", "leaves; the chat stays"),
];

/// Reads a command; `None` if the line is none.
pub fn read(line: &str) -> Option<Slash> {
    let line = line.trim();
    let command = line.strip_prefix('/')?;
    // What is not one word is a path or a comment, not a command.
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let rest = rest.trim();
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return None;
    }
    let with_text = |slash: fn(String) -> Slash| {
        if rest.is_empty() { Slash::Unknown(format!("/{name} needs some words behind it")) } else { slash(rest.into()) }
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
        name => Slash::Unknown(format!("there is no /{name}; /help lists what there is")),
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
            ("/delete", Some(Slash::Delete(None))),
            ("/delete 9n2x4c", Some(Slash::Delete(Some("9n2x4c".into())))),
        ] {
            assert_eq!(read(line), slash, "{line}");
        }
        for line in ["/steer", "/queue drop", "/debug maybe", "/nothing"] {
            assert!(matches!(read(line), Some(Slash::Unknown(_))), "{line}");
        }
    }

    #[test]
    fn help_names_every_command() {
        for name in [
            "quit", "model", "compact", "edit", "fork", "cost", "queue", "title", "steer", "now", "new", "stop",
            "debug", "archive", "delete", "editor",
        ] {
            assert!(HELP.iter().any(|(keys, _)| keys.contains(&format!("/{name}"))), "{name}");
        }
    }
}
