//! Commands of a shell, as far as rules understand them.
//!
//! A rule may match a command only if it is certain what the shell will run. So this is no grammar of a shell but a list of
//! what is accepted: words, quotes, and `&&`, `||`, `;`, `|` between commands. Variables, substitutions, redirections,
//! wildcards, escapes, assignments, reserved words, `&`, line breaks and everything else make a command that no pattern
//! matches. Decision 25 in `docs/adr/` has the reasons.

use super::glob::{self, GlobPiece, TextGlob, wildcard};

/// A program and its arguments.
pub(super) type SimpleCommand = Vec<String>;

/// Words that a shell treats as its own where a command begins.
const RESERVED: [&str; 19] = [
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then",
    "time", "until", "while", "alias", "eval",
];

/// Programs that run what their arguments say. A rule that names another program cannot tell whether it matches.
const RUNNERS: [&str; 50] = [
    ".", "ash", "awk", "bash", "builtin", "bun", "busybox", "chroot", "chrt", "command", "dash", "deno", "doas", "env",
    "exec", "find", "flock", "gawk", "ionice", "ksh", "lua", "mawk", "nice", "node", "nohup", "npx", "nsenter",
    "parallel", "perl", "php", "python", "python3", "ruby", "runuser", "script", "setsid", "sh", "source", "ssh",
    "stdbuf", "strace", "su", "sudo", "timeout", "trap", "unshare", "uvx", "watch", "xargs", "zsh",
];

/// Whether a program runs what its arguments say.
pub(super) fn is_runner(command: &SimpleCommand) -> bool {
    RUNNERS.contains(&program(command))
}

/// The name of a command's program, without its directory.
fn program(command: &SimpleCommand) -> &str {
    let word = command.first().map_or("", String::as_str);
    word.rsplit('/').next().unwrap_or(word)
}

/// The commands of a text; `None` if it has anything that rules do not understand.
pub(super) fn split(text: &str) -> Option<Vec<SimpleCommand>> {
    let tokens = tokens(text, Wildcards::Refused).ok()?;
    let mut commands = Vec::new();
    for words in tokens.split(|token| matches!(token, Token::Then)) {
        let words: Vec<&Word> = words.iter().filter_map(Token::word).collect();
        let first = words.first()?;
        if first.is_bare && RESERVED.contains(&first.text().as_str()) || first.assigns || first.pieces.is_empty() {
            return None;
        }
        commands.push(words.into_iter().map(Word::text).collect());
    }
    Some(commands)
}

/// A pattern for one command: a program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandPattern(Vec<WordPiece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum WordPiece {
    /// One word.
    Word(TextGlob),
    /// Any number of words, also none: a `*` that stands alone, or at the end.
    AnyWords,
}

impl CommandPattern {
    /// Reads a pattern, or says what is wrong with it.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        for token in tokens(text, Wildcards::Understood)? {
            let Token::Word(word) = token else {
                return Err("a pattern is for one command; each command of a line is compared with it".into());
            };
            if pieces.is_empty() && word.assigns {
                return Err("a command that begins with an assignment is never matched".into());
            }
            if pieces.is_empty() && word.is_bare && RESERVED.contains(&word.text().as_str()) {
                return Err(format!("`{}` is a word of the shell and never matched", word.text()));
            }
            let glob = TextGlob::of(word.pieces);
            if pieces.is_empty() && glob.is_empty() {
                return Err("a command does not begin with an empty word".into());
            }
            pieces.push(if glob.is_any_text() { WordPiece::AnyWords } else { WordPiece::Word(glob) });
        }
        match pieces.last() {
            None => return Err("the pattern is empty".into()),
            Some(WordPiece::Word(last)) if last.ends_open() => pieces.push(WordPiece::AnyWords),
            Some(_) => {}
        }
        Ok(Self(pieces))
    }

    pub(super) fn matches(&self, command: &SimpleCommand) -> bool {
        let fits = |piece: &WordPiece, word: &String| match piece {
            WordPiece::Word(glob) => glob.matches(word),
            WordPiece::AnyWords => true,
        };
        glob::matches(&self.0, command, |piece| *piece == WordPiece::AnyWords, fits)
    }

    /// Whether it matches the command, also if that names its program by a path.
    pub(super) fn matches_program(&self, command: &SimpleCommand) -> bool {
        let mut named = command.clone();
        if let Some(first) = named.first_mut() {
            *first = program(command).to_owned();
        }
        self.matches(command) || self.matches(&named)
    }
}

/// A word for a shell or a pattern, in single quotes if it needs them; `None` if that is not possible.
pub(super) fn quoted(word: &str) -> Option<String> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-./:,+@%^=".contains(char);
    match word {
        word if word.contains('\'') || word.contains(char::is_control) => None,
        word if !word.is_empty() && word.chars().all(is_plain) => Some(word.to_owned()),
        word => Some(format!("'{word}'")),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wildcards {
    /// `*` and `?` outside of quotes are an error: a shell would replace the word by names of files.
    Refused,
    /// They are wildcards of a pattern.
    Understood,
}

enum Token {
    Word(Word),
    /// The end of a command, with another behind it.
    Then,
}

impl Token {
    const fn word(&self) -> Option<&Word> {
        match self {
            Self::Word(word) => Some(word),
            Self::Then => None,
        }
    }
}

#[derive(Default)]
struct Word {
    pieces: Vec<GlobPiece>,
    /// Whether no part of it is quoted.
    is_bare: bool,
    /// Whether a shell would take it for an assignment where a command begins.
    assigns: bool,
}

impl Word {
    fn text(&self) -> String {
        let char = |piece: &GlobPiece| match piece {
            GlobPiece::Char(char) => *char,
            GlobPiece::AnyChar => '?',
            GlobPiece::AnyText => '*',
        };
        self.pieces.iter().map(char).collect()
    }

    fn push(&mut self, char: char) {
        self.pieces.push(GlobPiece::Char(char));
    }
}

/// The words of a text, or what in it is not understood.
fn tokens(text: &str, wildcards: Wildcards) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    let mut word: Option<Word> = None;
    while let Some(char) = chars.next() {
        if matches!(char, ' ' | '\t' | '&' | '|' | ';') {
            tokens.extend(word.take().map(Token::Word));
        }
        let begun = || Word { is_bare: true, ..Word::default() };
        match char {
            ' ' | '\t' => {}
            '&' if chars.next_if_eq(&'&').is_some() => tokens.push(Token::Then),
            '|' if chars.next_if_eq(&'|').is_some() => tokens.push(Token::Then),
            '|' | ';' => tokens.push(Token::Then),
            '\'' | '"' => quote(char, &mut chars, word.get_or_insert_with(begun))?,
            '=' => {
                let word = word.get_or_insert_with(begun);
                word.assigns = true;
                word.push('=');
            }
            '~' if word.as_ref().is_some_and(|word| !word.assigns && word.text().ends_with(is_name)) => {
                word.get_or_insert_with(begun).push('~');
            }
            char if is_name(char) || "_-./:,+@%^".contains(char) => word.get_or_insert_with(begun).push(char),
            char => match wildcard(char).filter(|_| wildcards == Wildcards::Understood) {
                Some(piece) => word.get_or_insert_with(begun).pieces.push(piece),
                None => return Err(format!("{char:?} is not understood in a command, unless in single quotes")),
            },
        }
    }
    tokens.extend(word.map(Token::Word));
    Ok(tokens)
}

const fn is_name(char: char) -> bool {
    char.is_ascii_alphanumeric()
}

/// Reads up to the closing quote.
fn quote(mark: char, chars: &mut impl Iterator<Item = char>, word: &mut Word) -> Result<(), String> {
    word.is_bare = false;
    for char in chars {
        match char {
            char if char == mark => return Ok(()),
            '$' | '`' | '\\' | '!' if mark == '"' => {
                return Err(format!("{char:?} is not understood in double quotes; use single quotes"));
            }
            char if char.is_control() => return Err("a line break or control character is not understood".into()),
            char => word.push(char),
        }
    }
    Err("a quote is not closed".into())
}
