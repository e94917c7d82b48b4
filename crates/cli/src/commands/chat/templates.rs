//! Slash commands of the user: messages in files, sent with the words that follow the command.
//!
//! `review.md` in the directory `commands` beside the configuration file makes `/review`. They are the user's own: nothing in
//! a workspace adds to them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::slash;

/// The directory beside the configuration file.
const DIRECTORY: &str = "commands";
/// Commands that are read.
const COMMANDS_LEN_MAX: usize = 100;
/// Bytes of a file.
const BYTES_MAX: u64 = 64 * 1024;
/// Characters of a description that are shown.
const SHOWN_CHARS_MAX: usize = 100;
/// Stands for all words behind a command.
const ALL: &str = "$ARGUMENTS";

/// The user's commands.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Templates {
    commands: BTreeMap<String, Template>,
    /// Files that make no command, with the reason.
    left_out: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Template {
    /// What the command does.
    what: String,
    /// The message.
    text: String,
}

impl Templates {
    /// The commands beside a configuration file.
    pub fn beside(config: Option<&Path>) -> Self {
        let mut templates = Self::default();
        let Some(directory) = config.and_then(Path::parent).map(|parent| parent.join(DIRECTORY)) else {
            return templates;
        };
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.sort_unstable();
        let is_template = |file: &&PathBuf| file.extension().is_some_and(|extension| extension == "md");
        for file in files.iter().filter(is_template) {
            if let Err(cause) = templates.add(file) {
                templates.left_out.push(format!("{} is not used: {cause}", file.display()));
            }
        }
        templates
    }

    fn add(&mut self, file: &Path) -> Result<(), String> {
        let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if name.is_empty()
            || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        {
            return Err("a command is called by the letters a to z, digits and `-`".into());
        }
        if slash::is_known(name) {
            return Err(format!("/{name} is a command of everturn"));
        }
        if self.commands.len() >= COMMANDS_LEN_MAX {
            return Err(format!("there are {COMMANDS_LEN_MAX} commands already"));
        }
        let mut text = String::new();
        let opened = fs::File::open(file).map_err(|error| error.to_string())?;
        let len = opened.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
        if len as u64 > BYTES_MAX {
            return Err(format!("it has more than {BYTES_MAX} bytes"));
        }
        let (described, text) = parts(&text);
        let text = text.trim().to_owned();
        let first = text.lines().next().unwrap_or_default().trim_start_matches('#').trim();
        let what = described.unwrap_or(first).chars().take(SHOWN_CHARS_MAX).collect();
        if text.is_empty() {
            return Err("it is empty".into());
        }
        self.commands.insert(name.to_owned(), Template { what, text });
        Ok(())
    }

    /// The message of a typed command; `None` if there is no such command.
    pub fn message(&self, line: &str) -> Option<String> {
        let command = line.trim().strip_prefix('/')?;
        let (name, words) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        Some(self.commands.get(name)?.filled(words.trim()))
    }

    /// Each command with what it does, then files that make none.
    pub fn help(&self) -> impl Iterator<Item = (String, &str)> {
        let commands = self.commands.iter().map(|(name, template)| (format!("/{name}"), template.what.as_str()));
        commands.chain(self.left_out.iter().map(|line| (String::new(), line.as_str())))
    }

    /// The commands, as they are typed.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.commands.keys().map(|name| format!("/{name}"))
    }
}

impl Template {
    /// The message with these words: all of them for `$ARGUMENTS`, one for each of `$1` to `$9`. A text without a place for
    /// them has them at its end.
    fn filled(&self, words: &str) -> String {
        let each: Vec<&str> = words.split_whitespace().collect();
        let mut filled = String::new();
        let mut has_place = false;
        let mut rest = self.text.as_str();
        while let Some(at) = rest.find('$') {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            let digit = rest[1..].chars().next().and_then(|next| next.to_digit(10)).filter(|digit| *digit > 0);
            let (placed, len) = match (rest.starts_with(ALL), digit) {
                (true, _) => (words, ALL.len()),
                (false, Some(digit)) => (each.get(digit as usize - 1).copied().unwrap_or_default(), 2),
                (false, None) => ("$", 1),
            };
            has_place |= len > 1;
            filled.push_str(placed);
            rest = &rest[len..];
        }
        filled.push_str(rest);
        if !has_place && !words.is_empty() {
            filled = format!("{filled}\n\n{words}");
        }
        filled
    }
}

/// The `description` between two lines `---` at the beginning, and the text behind them.
fn parts(text: &str) -> (Option<&str>, &str) {
    let Some((front, rest)) = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")) else {
        return (None, text);
    };
    let described = front.lines().find_map(|line| line.strip_prefix("description:"));
    (described.map(|described| described.trim().trim_matches('"')), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(files: &[(&str, &str)]) -> Templates {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join(DIRECTORY)).unwrap();
        for (name, text) in files {
            fs::write(scratch.path().join(DIRECTORY).join(name), text).unwrap();
        }
        Templates::beside(Some(&scratch.path().join("config.toml")))
    }

    /// A file makes a command; the words behind it go where the text has a place for them, or to its end.
    #[test]
    fn a_file_makes_a_command_with_its_words() {
        let templates = beside(&[
            (
                "review.md",
                "---\ndescription: \"Reviews a change.\"\nmodel: any\n---\nReview $1 against $2. All: $ARGUMENTS; $$5 $0.",
            ),
            ("fix-it.md", "# Fix the build\n\nRun the tests."),
        ]);
        let message = |line: &str| templates.message(line);
        assert_eq!(message("/review  a b c ").as_deref(), Some("Review a against b. All: a b c; $ $0."));
        assert_eq!(message("/review").as_deref(), Some("Review  against . All: ; $ $0."));
        assert_eq!(message("/fix-it").as_deref(), Some("# Fix the build\n\nRun the tests."));
        assert_eq!(message("/fix-it only these").as_deref(), Some("# Fix the build\n\nRun the tests.\n\nonly these"));
        for line in ["review a", "/other", "/", "/Review"] {
            assert_eq!(message(line), None, "{line}");
        }
        let help: Vec<_> = templates.help().collect();
        assert_eq!(help, [("/fix-it".to_owned(), "Fix the build"), ("/review".to_owned(), "Reviews a change.")]);
    }

    /// What would hide a command of ours, has no usable name or is too long makes none, and the help says so.
    #[test]
    fn a_file_that_makes_no_command_is_told_of() {
        let long = "x".repeat(BYTES_MAX as usize + 1);
        let templates =
            beside(&[("undo.md", "x"), ("Big.md", "x"), ("long.md", &long), ("empty.md", " \n"), ("note.txt", "x")]);
        assert_eq!(templates.names().count(), 0);
        let told = templates.help().map(|(_, line)| line).collect::<Vec<_>>().join("\n");
        for (file, why) in [
            ("undo.md", "is a command of everturn"),
            ("Big.md", "letters a to z"),
            ("long.md", "more than"),
            ("empty.md", "empty"),
        ] {
            assert!(told.lines().any(|line| line.contains(file) && line.contains(why)), "{file}: {told}");
        }
        assert!(!told.contains("note.txt"), "{told}");
        assert_eq!(Templates::beside(None), Templates::default());
        assert_eq!(Templates::beside(Some(Path::new("/nowhere/config.toml"))), Templates::default());
    }
}
