//! Colours code line by line.
//!
//! Not a parser of any language: comments, strings, numbers and the keywords that many languages share. The
//! only state between lines is an open comment or string, so the cost of a line does not depend on its
//! position.

use super::super::style::{Ink, Line, Look, Span};
use super::super::wrap::{At, wrap};

/// Indentation of code.
const MARGIN: &str = "  ";

const WORDS: &str = " abstract and as assert async await begin bool boolean break case catch char class const \
    continue crate def default defer del delete do done double elif else elsif end enum esac except export extends \
    extern false fi final finally float fn for foreach from func function global go if impl implements import in \
    include instanceof int interface is lambda let local long loop match mod module move mut namespace new nil none \
    None not null nullptr or package pass private protected pub public raise ref require return select self Self \
    short signed sizeof static string struct super switch template then this throw throws trait true True False try \
    type typedef typeof union unless unsafe unsigned until use using val var virtual void volatile when where while \
    with yield SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE JOIN LEFT ON GROUP BY ORDER AND OR \
    NOT NULL AS LIMIT PRIMARY KEY INDEX ";

/// The opening fence of a code block.
#[derive(Debug, Clone)]
pub struct Fence {
    sign: char,
    len: usize,
    pub language: String,
}

impl Fence {
    /// The fence that a line opens.
    pub fn opened_by(line: &str) -> Option<Self> {
        let line = line.trim_start();
        let sign = line.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
        let len = line.chars().take_while(|c| *c == sign).count();
        let told = line[len..].trim();
        if len < 3 || told.contains('`') {
            return None;
        }
        Some(Self { sign, len, language: told.split_whitespace().next().unwrap_or_default().to_owned() })
    }

    pub fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        line.chars().count() >= self.len && line.chars().all(|c| c == self.sign)
    }
}

/// Comment and string syntax of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// `//` and `/* */`.
    Slashes,
    /// `#`.
    Hashes,
    /// `--`.
    Dashes,
    /// Added and removed lines.
    Diff,
    /// Data: strings and numbers.
    Data,
    /// No known language.
    Unknown,
}

/// The state of the colouring.
#[derive(Debug, Clone)]
pub struct Code {
    family: Family,
    /// The end mark of the open comment or string.
    open: Option<(&'static str, Ink)>,
}

impl Code {
    pub fn new(language: &str) -> Self {
        let family = match language.to_ascii_lowercase().as_str() {
            "rust" | "rs" | "c" | "h" | "cpp" | "c++" | "cc" | "java" | "js" | "javascript" | "jsx" | "ts" | "tsx"
            | "typescript" | "go" | "kotlin" | "swift" | "scala" | "php" | "cs" | "csharp" | "dart" | "zig" | "css"
            | "scss" | "proto" | "groovy" => Family::Slashes,
            "python" | "py" | "ruby" | "rb" | "sh" | "bash" | "zsh" | "shell" | "fish" | "console" | "perl" | "r"
            | "yaml" | "yml" | "toml" | "dockerfile" | "make" | "makefile" | "elixir" | "nix" | "ini" | "conf"
            | "julia" => Family::Hashes,
            "sql" | "lua" | "haskell" | "hs" | "ada" | "elm" => Family::Dashes,
            "diff" | "patch" => Family::Diff,
            "json" | "jsonc" | "json5" | "jsonl" => Family::Data,
            _ => Family::Unknown,
        };
        Self { family, open: None }
    }

    /// Colours the next line.
    pub fn line(&mut self, text: &str, width: usize) -> Vec<Line> {
        let mut line = Line::plain(MARGIN);
        match self.family {
            Family::Unknown => line.0.push(Span::new(text, Look::ink(Ink::Cyan))),
            Family::Diff => line.0.push(Span::new(text, Look::ink(diff(text)))),
            _ => self.scan(text, &mut line.0),
        }
        wrap(&line, width, &Line::plain(MARGIN), At::Letters)
    }

    fn scan(&mut self, text: &str, out: &mut Vec<Span>) {
        let mut rest = text;
        let mut plain = String::new();
        while !rest.is_empty() {
            let (len, ink) = self.token(rest, plain.chars().next_back());
            let (token, behind) = rest.split_at(len);
            if ink == Ink::Plain {
                plain.push_str(token);
            } else {
                if !plain.is_empty() {
                    out.push(Span::new(&std::mem::take(&mut plain), Look::PLAIN));
                }
                out.push(Span::new(token, Look::ink(ink)));
            }
            rest = behind;
        }
        if !plain.is_empty() {
            out.push(Span::new(&plain, Look::PLAIN));
        }
    }

    /// Length and colour of the next token. `before` is the letter before it.
    fn token(&mut self, rest: &str, before: Option<char>) -> (usize, Ink) {
        if let Some((end, ink)) = self.open {
            return match rest.find(end) {
                Some(at) => {
                    self.open = None;
                    (at + end.len(), ink)
                }
                None => (rest.len(), ink),
            };
        }
        let is_apart = before.is_none_or(|c| c.is_whitespace() || !c.is_alphanumeric());
        match self.family {
            Family::Slashes if rest.starts_with("//") => return (rest.len(), Ink::Grey),
            Family::Slashes if rest.starts_with("/*") => return self.long(rest, 2, "*/", Ink::Grey),
            Family::Hashes if rest.starts_with('#') && before.is_none_or(char::is_whitespace) => {
                return (rest.len(), Ink::Grey);
            }
            Family::Hashes if rest.starts_with("\"\"\"") => return self.long(rest, 3, "\"\"\"", Ink::Green),
            Family::Hashes if rest.starts_with("'''") => return self.long(rest, 3, "'''", Ink::Green),
            Family::Dashes if rest.starts_with("--") => return (rest.len(), Ink::Grey),
            _ => {}
        }
        let first = rest.chars().next().expect("it is not empty");
        match first {
            '"' | '\'' | '`' => string(rest, first).map_or((1, Ink::Plain), |len| (len, Ink::Green)),
            '0'..='9' if is_apart => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
                (rest.find(|c| !is_part(c)).unwrap_or(rest.len()), Ink::Yellow)
            }
            c if c.is_alphabetic() || c == '_' => self.word(rest),
            c => (c.len_utf8(), Ink::Plain),
        }
    }

    fn word(&self, rest: &str) -> (usize, Ink) {
        let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let is_known = WORDS.contains(&format!(" {} ", &rest[..len]));
        let ink = match rest[len..].chars().next() {
            _ if is_known && self.family != Family::Data => Ink::Magenta,
            Some('(') => Ink::Blue,
            _ => Ink::Plain,
        };
        (len, ink)
    }

    /// A comment or string that may continue on the next line.
    fn long(&mut self, rest: &str, begin: usize, end: &'static str, ink: Ink) -> (usize, Ink) {
        match rest[begin..].find(end) {
            Some(at) => (begin + at + end.len(), ink),
            None => {
                self.open = Some((end, ink));
                (rest.len(), ink)
            }
        }
    }
}

/// The length of a string that ends in this line. A lone quotation mark, such as that of a lifetime, is none.
fn string(rest: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    let body = rest.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == quote && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        ends
    });
    body.map(|(at, _)| at + 1)
}

fn diff(line: &str) -> Ink {
    match line.chars().next() {
        Some('+') => Ink::Green,
        Some('-') => Ink::Red,
        Some('@') => Ink::Cyan,
        _ => Ink::Plain,
    }
}
