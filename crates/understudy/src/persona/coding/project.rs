//! What the answers of the tools say about a project.

use std::collections::BTreeMap;

/// The kinds of projects whose tests can be run.
pub const KINDS: &str = "a Makefile with `test`, Cargo, Go, npm, Python, `test.sh`";
/// Lines of an output that are quoted.
const TAIL_LINES: usize = 12;
/// Functions that are looked for at once.
const NAMES_MAX: usize = 6;
/// Words that look like calls and are none, or say nothing about what is tested.
const NOT_TESTED: [&str; 20] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "assertEqual",
    "assertTrue",
    "assertFalse",
    "expect",
    "print",
    "println",
    "echo",
    "exit",
    "main",
    "test",
    "tests",
    "run",
    "describe",
    "it",
    "toBe",
    "toEqual",
    "failed",
];
/// Names of files that introduce a project, best first.
const INTRODUCTIONS: [&str; 6] = ["README.md", "README", "README.txt", "Cargo.toml", "package.json", "pyproject.toml"];

/// The files of a workspace.
#[derive(Debug)]
pub struct Project {
    pub files: Vec<String>,
}

impl Project {
    /// Reads the answer of `list`: a heading, then one path per line.
    pub fn of(listed: &str) -> Self {
        let lines =
            listed.lines().skip(1).filter(|line| !line.is_empty() && !line.ends_with('/') && !line.starts_with('['));
        Self { files: lines.map(str::to_owned).collect() }
    }

    fn has(&self, name: &str) -> bool {
        self.files.iter().any(|file| file == name)
    }

    /// The command that runs the tests. A script beats what guesses from the language.
    pub fn test_command(&self) -> Option<String> {
        let script = ["test.sh", "tests/run.sh", "run-tests.sh"].into_iter().find(|script| self.has(script));
        let is_python = |file: &&String| file.ends_with(".py") && name(file).starts_with("test");
        let python = self.files.iter().find(is_python);
        match script {
            Some(script) => Some(format!("sh {script}")),
            None if self.has("Makefile") => Some("make test".into()),
            None if self.has("Cargo.toml") => Some("cargo test --offline".into()),
            None if self.has("go.mod") => Some("go test ./...".into()),
            None if self.has("package.json") => Some("npm test".into()),
            None => python.map(|file| match file.rsplit_once('/') {
                Some((directory, _)) => format!("python3 -m unittest discover -s {directory} -t ."),
                None => "python3 -m unittest".into(),
            }),
        }
    }

    /// The file that says what this is.
    pub fn introduction(&self) -> Option<&'static str> {
        INTRODUCTIONS.into_iter().find(|name| self.has(name))
    }

    /// The first file and line that an output names.
    pub fn mention(&self, output: &str) -> Option<(String, usize)> {
        let number = |text: &str| {
            let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<usize>().ok()
        };
        self.files.iter().find_map(|file| {
            let (_, after) = output.split_once(file.as_str())?;
            let line = after.strip_prefix(':').and_then(number);
            let line = line.or_else(|| after.strip_prefix("\", line ").and_then(number))?;
            Some((file.clone(), line))
        })
    }

    /// A description of what is there.
    pub fn described(&self, title: Option<&str>, found: &str) -> String {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for file in &self.files {
            let kind = name(file).rsplit_once('.').map_or("without an ending", |(_, ending)| ending);
            *kinds.entry(kind).or_default() += 1;
        }
        let mut kinds: Vec<(&str, usize)> = kinds.into_iter().collect();
        kinds.sort_by_key(|(kind, count)| (std::cmp::Reverse(*count), *kind));
        let rows: String = kinds.iter().take(8).map(|(kind, count)| format!("| {kind} | {count} |\n")).collect();
        let title = title.map(|title| format!("It calls itself **{title}**. ")).unwrap_or_default();
        let todo = found.lines().next().unwrap_or("no matches").replace("matches", "marked places");
        let tests = self.test_command();
        let tests = tests.map_or("I found no tests that I know how to run.".into(), |command| {
            format!("Its tests are run with `{command}`: say `fix the failing test` if one fails.")
        });
        format!(
            "# Your workspace\n\n{title}There are {} files within four levels:\n\n| kind | files |\n|---|---|\n{rows}\nStill \
             to be done (TODO, FIXME): {todo}. {tests}\n\nAll of this was read just now, by tools that see nothing but this \
             directory. I am a stand-in for a model, so I can count files and not understand them.",
            self.files.len()
        )
    }
}

fn name(file: &str) -> &str {
    file.rsplit_once('/').map_or(file, |(_, name)| name)
}

/// The first heading or name in a file that `read` has shown.
pub fn title(read: &str) -> Option<String> {
    let lines = read.lines().skip(1).map(text_of);
    let named = |line: &str| line.strip_prefix("name = ").map(|name| name.trim_matches('"').to_owned());
    lines.filter_map(|line| line.strip_prefix("# ").map(str::to_owned).or_else(|| named(line))).next()
}

/// A line without the number that `read` puts before it.
pub fn text_of(line: &str) -> &str {
    line.split_once('\t').map_or(line, |(_, text)| text)
}

/// The lines around one of a file that `read` has shown.
pub fn around(read: &str, line: usize) -> String {
    let lines = read.lines().skip(1).map(text_of);
    lines.skip(line.saturating_sub(4)).take(4).collect::<Vec<_>>().join("\n")
}

/// The exit code in the last line of a command's output.
pub fn exit(output: &str) -> Option<i32> {
    let last = output.lines().rev().find_map(|line| line.strip_prefix("[exit "))?;
    last.split([' ', ']']).next()?.parse().ok()
}

/// Whether the result of a call was lost, as after a crash, so that it may be called again.
pub fn is_lost(answer: &str) -> bool {
    ["not known", "unknown", "lost", "interrupted"].iter().any(|word| answer.contains(word))
}

/// The last lines of an output.
pub fn tail(output: &str) -> String {
    let lines: Vec<&str> =
        output.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("[exit ")).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// The first line of an answer, without a full stop.
pub fn first(answer: &str) -> &str {
    answer.lines().next().unwrap_or_default().trim_end_matches('.')
}

/// The functions that the lines about a failure call: names before a parenthesis, and the first word of `name 2 3: expected`.
pub fn called(failure: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        let is_name = name.len() > 1 && name.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let is_test = name.starts_with("test") || name.starts_with("Test") || NOT_TESTED.contains(&name);
        if is_name && !is_test && !names.iter().any(|known| known == name) && names.len() < NAMES_MAX {
            names.push(name.into());
        }
    };
    for line in failure.lines() {
        for (at, _) in line.match_indices('(') {
            let before = &line[..at];
            let begin = before
                .rfind(|c: char| !is_word(c))
                .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
            add(&before[begin..]);
        }
        if let Some((said, _)) = line.split_once(": expected") {
            add(said.split(|c: char| !is_word(c)).find(|word| !word.is_empty()).unwrap_or_default());
        }
    }
    names
}

/// The pattern that finds where functions are defined, in the usual languages.
pub fn definition(names: &[String]) -> String {
    let names = names.join("|");
    format!(r"^\s*((pub(\(\w+\))?|export|async|static)\s+)*((def|fn|func|function)\s+({names})\b|({names})\s*\(\))")
}

/// The first definition in the answer of `search` that is not in a test: its file, line and name.
pub fn defined(found: &str, names: &[String]) -> Option<(String, usize, String)> {
    let mut file = "";
    for line in found.lines().skip(1) {
        let Some((number, text)) = line.split_once(": ").filter(|(number, _)| number.trim().parse::<usize>().is_ok())
        else {
            file = line;
            continue;
        };
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let name = text.split(|c: char| !is_word(c)).find(|word| names.iter().any(|name| name == word));
        if let Some(name) = name.filter(|_| !file.to_lowercase().contains("test")) {
            return Some((file.to_owned(), number.trim().parse().ok()?, name.to_owned()));
        }
    }
    None
}
