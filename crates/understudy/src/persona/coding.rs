//! A coding session with the tools of a workspace.
//!
//! The stand-in cannot read code, so it does what needs no understanding: it looks around, runs the tests, finds the function
//! that the failing test calls, and tries small changes of it until the tests pass. Each step follows from what the tools
//! answered: a refused command, a lost result or a file that changed meanwhile leads elsewhere.
//!
//! A request says what was answered and not what was asked. Steps are a function of the answers before them, so the session is
//! played again from its beginning for every request.

mod changes;
mod project;

use serde_json::{Value, json};

use super::Part;
use crate::heard::Heard;
use changes::{CodeChange, Listing};
use project::Project;

/// The tools that a workspace offers at least.
const NEEDED: [&str; 4] = ["read", "list", "search", "edit"];
/// All of its tools: none is tried just because it is offered.
const OF_WORKSPACE: [&str; 8] = ["read", "list", "search", "write", "edit", "shell", "job", "recall"];
/// Those among them that a person may name to have them tried.
const HARMLESS: [&str; 3] = ["read", "list", "search"];
/// Longer messages are no wishes.
const WISH_WORDS_MAX: usize = 30;
/// Changes that are tried, and commands whose result was lost.
const TRIED_MAX: usize = 12;
const LOST_MAX: usize = 8;

/// What a person wants done in the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Fix,
    Test,
    /// Run the tests as a background job.
    Background,
    Look,
}

/// The words that a wish is known by: one of each group.
const SIGNS: [(Wish, &[&[&str]]); 5] = [
    (Wish::Fix, &[&["fix", "repair", "mend", "debug"], &["test", "tests", "bug", "failing", "it", "build"]]),
    (Wish::Background, &[&["run"], &["test", "tests"], &["background"]]),
    (Wish::Test, &[&["run"], &["test", "tests"]]),
    (Wish::Look, &[&["look", "explore", "show", "what"], &["workspace", "around", "project", "repository", "files"]]),
    (Wish::Look, &[&["summarise", "summarize", "describe"], &["workspace", "project", "repository"]]),
];

impl Wish {
    fn of(said: &str) -> Option<Self> {
        let said = said.to_lowercase();
        let words: Vec<&str> = said.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let has = |group: &&[&str]| group.iter().any(|sign| words.contains(sign));
        let meant = SIGNS.iter().find(|(_, groups)| groups.iter().all(has));
        meant.filter(|_| words.len() <= WISH_WORDS_MAX).map(|(wish, _)| *wish)
    }
}

/// Whether the tools of a workspace are offered.
pub(super) fn is_offered(heard: &Heard) -> bool {
    NEEDED.iter().all(|tool| heard.offers(tool))
}

/// Whether a tool is one of a workspace that is not to be tried out.
pub(super) fn is_kept(heard: &Heard, tool: &str, is_named: bool) -> bool {
    is_offered(heard) && OF_WORKSPACE.contains(&tool) && !(is_named && HARMLESS.contains(&tool))
}

/// The next part of a coding session, if the person wants one and there is a workspace.
pub(super) fn part(heard: &Heard) -> Option<Part> {
    let wish = Wish::of(&heard.words).filter(|_| is_offered(heard))?;
    let mut past = Past { can_run: heard.offers("shell"), steps: Vec::new() };
    for answer in &heard.results {
        match past.next(wish) {
            Move::Call(call) => past.steps.push((call, answer.text.clone())),
            Move::Report(_) => break,
        }
    }
    Some(match past.next(wish) {
        Move::Call(Call { thought, say, tool, input }) => {
            Part { thought: thought.into(), text: say, call: Some((tool.into(), input)), slower: 1, ..Part::default() }
        }
        Move::Report(text) => Part::said("That is all I can do here.", text),
    })
}

/// What is done next.
enum Move {
    Call(Call),
    Report(String),
}

/// A call, and what is said before it.
#[derive(Debug, Clone)]
struct Call {
    thought: &'static str,
    say: String,
    tool: &'static str,
    input: Value,
}

impl Call {
    fn play(thought: &'static str, say: impl Into<String>, tool: &'static str, input: Value) -> Move {
        Move::Call(Self { thought, say: say.into(), tool, input })
    }
}

/// How far the changes of a function were tried.
struct Trial {
    /// The change that is tried now.
    tried: usize,
    applied: Applied,
    doubt: Doubt,
}

/// Whether the change that is tried now is in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Applied {
    No,
    Untested,
    /// It is, and the tests still fail.
    Failed,
}

/// Whether it is known what is in the file.
enum Doubt {
    No,
    /// An edit may or may not have been made.
    Lost(String),
    Refused(String),
}

impl Trial {
    /// Notes whether the change is in the file. One that failed and is gone makes room for the next.
    fn saw(&mut self, is_there: bool) {
        match (self.applied, is_there) {
            (Applied::No, true) => self.applied = Applied::Untested,
            (Applied::Untested, false) => self.applied = Applied::No,
            (Applied::Failed, false) => {
                self.tried += 1;
                self.applied = Applied::No;
            }
            (Applied::No, false) | (Applied::Untested | Applied::Failed, true) => {}
        }
    }
}

/// What was asked and answered so far.
struct Past {
    can_run: bool,
    steps: Vec<(Call, String)>,
}

impl Past {
    fn next(&self, wish: Wish) -> Move {
        let Some(listed) = self.answers("list").next() else {
            let say = match wish {
                Wish::Fix => "Let me see what there is.",
                Wish::Test | Wish::Background => "Let me see how the tests are run here.",
                Wish::Look => "Let me look around.",
            };
            return Call::play("First the files.", say, "list", json!({"path": ".", "depth": 4}));
        };
        let project = Project::of(listed);
        match wish {
            Wish::Look => self.look(&project),
            Wish::Test | Wish::Fix | Wish::Background => self.work(wish, &project),
        }
    }

    /// The answers of one tool, in order.
    fn answers<'a>(&'a self, tool: &'a str) -> impl DoubleEndedIterator<Item = &'a str> {
        self.steps.iter().filter(move |(call, _)| call.tool == tool).map(|(_, answer)| answer.as_str())
    }

    fn look(&self, project: &Project) -> Move {
        if let (Some(file), None) = (project.introduction(), self.answers("read").next()) {
            let say = format!("There are {} files. `{file}` should say what this is.", project.files.len());
            return Call::play("Then what introduces it.", say, "read", json!({"path": file, "lines": 60}));
        }
        let Some(found) = self.answers("search").next() else {
            let say = "Now for what is still to be done.";
            return Call::play("Then the loose ends.", say, "search", json!({"pattern": r"\b(TODO|FIXME|XXX)\b"}));
        };
        let title = self.answers("read").next().and_then(project::title);
        Move::Report(project.described(title.as_deref(), found))
    }

    fn work(&self, wish: Wish, project: &Project) -> Move {
        let Some(command) = project.test_command() else {
            return Move::Report(format!(
                "I know how to run the tests of a few kinds of projects ({}), and found none of them here. I am a \
                 stand-in for a model: a real one would read on and find out.",
                project::KINDS
            ));
        };
        if !self.can_run {
            return Move::Report(format!(
                "The tests would be run with `{command}`, but commands cannot be confined on this machine, so there is \
                 no `shell`. `everturn doctor` says what to install. I am a stand-in, and without tests I change nothing."
            ));
        }
        if wish == Wish::Background {
            return self.watch(&command);
        }
        let run =
            |say: String| Call::play("The tests will tell.", say, "shell", json!({"command": command, "seconds": 300}));
        let Some((at, last)) = self.last_test() else { return run(format!("I run `{command}`.")) };
        match (project::exit(last), self.lost()) {
            (Some(0), _) => Move::Report(self.passed(&command, at)),
            (Some(_), _) if wish == Wish::Test => Move::Report(format!(
                "The tests fail:\n\n```\n{}\n```\n\nSay `fix the failing test`, and I try. I am a stand-in for a model, so do \
                 not expect too much.",
                project::tail(last)
            )),
            (Some(_), _) => self.fix(project, &command),
            (None, lost) if lost <= LOST_MAX && project::is_lost(last) => {
                run(format!("The result of `{command}` was lost, so I run it again."))
            }
            (None, _) => Move::Report(format!(
                "`{command}` did not run: {}\n\nI am a stand-in, and without tests I change nothing.",
                last.lines().next().unwrap_or_default()
            )),
        }
    }

    /// Runs the tests as a background job, and waits for its end.
    fn watch(&self, command: &str) -> Move {
        let Some(started) = self.answers("shell").next() else {
            let say = format!("I start `{command}` as a background job.");
            let input = json!({"command": command, "background": true});
            return Call::play("It may take long.", say, "shell", input);
        };
        let words = started.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
        let number = words.skip_while(|word| !word.eq_ignore_ascii_case("job")).nth(1);
        let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) else {
            return Move::Report(format!(
                "`{command}` was not started: {}",
                started.lines().next().unwrap_or_default()
            ));
        };
        match self.answers("job").next() {
            None => Call::play("Now I wait.", "", "job", json!({"action": "wait", "number": number})),
            Some(ended) => Move::Report(format!("The job is over:\n\n```\n{}\n```", project::tail(ended))),
        }
    }

    /// The newest answer of the tests, and its place.
    fn last_test(&self) -> Option<(usize, &str)> {
        let last = self.steps.iter().rposition(|(call, _)| call.tool == "shell")?;
        Some((last, &self.steps[last].1))
    }

    fn lost(&self) -> usize {
        self.answers("shell").filter(|answer| project::exit(answer).is_none()).count()
    }

    /// The tests fail: find the function, change it, undo what did not help, and try the next change.
    fn fix(&self, project: &Project, command: &str) -> Move {
        let failure = self.answers("shell").find(|answer| project::exit(answer).is_some_and(|code| code != 0));
        let listing = match self.find(project, failure.unwrap_or_default()) {
            Ok(listing) => listing,
            Err(next) => return next,
        };
        let candidates = listing.candidates();
        let trial = self.trial(&listing, &candidates);
        match (trial.doubt, trial.applied, candidates.get(trial.tried)) {
            (Doubt::Refused(why), _, _) => Move::Report(format!(
                "`{}` was not changed: {why}. I am a stand-in, and without changing anything I cannot fix it.",
                listing.file
            )),
            (Doubt::Lost(why), _, _) => {
                let say = format!("I have to look again: {why}.");
                Call::play("See what is there now.", say, "read", json!({"path": listing.file}))
            }
            (Doubt::No, Applied::Untested, _) => {
                Call::play("Does it help?", "Does that help?", "shell", json!({"command": command, "seconds": 300}))
            }
            (Doubt::No, Applied::Failed, Some(change)) => {
                let say = "It does not help, so I take it back.";
                Call::play("As it was.", say, "edit", change.reversed(&listing.file))
            }
            (Doubt::No, Applied::No, Some(change)) if trial.tried < TRIED_MAX => {
                let say = format!("In `{}` I change `{}` into `{}`.", listing.file, change.from, change.to);
                Call::play("A small change, and then the tests again.", say, "edit", change.input(&listing.file))
            }
            (Doubt::No, _, _) => Move::Report(format!(
                "I tried {} small changes of `{}` in `{}`; none made the tests pass, and the file is as it was. I am a \
                 stand-in and do not understand code: this is one for a real model.",
                trial.tried, listing.function, listing.file
            )),
        }
    }

    /// How far the changes were tried, as the answers tell.
    fn trial(&self, listing: &Listing, candidates: &[CodeChange]) -> Trial {
        let mut trial = Trial { tried: 0, applied: Applied::No, doubt: Doubt::No };
        let mut failures = 0;
        for (call, answer) in &self.steps {
            let change = candidates.get(trial.tried);
            match call.tool {
                "read" if call.input["path"] == listing.file.as_str() => {
                    let Some(file) = Listing::read(answer) else { continue };
                    trial.doubt = Doubt::No;
                    let is_there = change.is_some_and(|change| file.has(&change.new) && !file.has(&change.old));
                    trial.saw(is_there);
                }
                "edit" if CodeChange::is_made(answer) => {
                    trial.saw(change.is_some_and(|change| change.is_of(&call.input)))
                }
                "edit" => {
                    failures += 1;
                    let why = project::first(answer).to_owned();
                    let is_open = project::is_lost(answer) || answer.contains("read it");
                    trial.doubt = if is_open && failures <= LOST_MAX { Doubt::Lost(why) } else { Doubt::Refused(why) };
                }
                "shell" if project::exit(answer).is_some() && trial.applied == Applied::Untested => {
                    trial.applied = Applied::Failed;
                }
                _ => {}
            }
        }
        trial
    }

    /// The function that the failing test calls, read from its file.
    fn find(&self, project: &Project, failure: &str) -> Result<Listing, Move> {
        let mention = project.mention(failure);
        let mut names = project::called(failure);
        if names.is_empty()
            && let Some((file, line)) = &mention
        {
            let Some(test) = self.answer_of("read", "path", file) else {
                let say = format!("The test that fails is in `{file}`, line {line}.");
                return Err(Call::play("Which function does it call?", say, "read", json!({"path": file})));
            };
            names = project::called(&project::around(test, *line));
        }
        if names.is_empty() {
            return Err(Move::Report(format!(
                "The tests fail, and I cannot tell which function is meant:\n\n```\n{}\n```\n\nI am a stand-in; a real model \
                 would read this.",
                project::tail(failure)
            )));
        }
        let pattern = project::definition(&names);
        let Some(found) = self.answer_of("search", "pattern", &pattern) else {
            let say = format!(
                "The tests fail. I look for {}.",
                names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            );
            return Err(Call::play("Where is it defined?", say, "search", json!({"pattern": pattern})));
        };
        let Some((file, line, function)) = project::defined(found, &names) else {
            return Err(Move::Report(format!(
                "The tests fail, and none of {} is defined in the files I can search. I am a stand-in; a real model would \
                 look further.",
                names.join(", ")
            )));
        };
        let Some(text) = self.answer_of("read", "path", &file) else {
            let say = format!("`{function}` is in `{file}`, line {line}.");
            return Err(Call::play("What does it do?", say, "read", json!({"path": file})));
        };
        let listing = Listing::read(text).map(|listing| listing.of(&file, line, &function));
        listing.ok_or_else(|| Move::Report(format!("`{file}` cannot be read: {}", project::first(text))))
    }

    /// The first answer to a call of a tool with this input.
    fn answer_of(&self, tool: &str, field: &str, value: &str) -> Option<&str> {
        let of = |call: &Call| call.tool == tool && call.input[field] == value;
        self.steps.iter().find(|(call, _)| of(call)).map(|(_, answer)| answer.as_str())
    }

    fn passed(&self, command: &str, tested: usize) -> String {
        let made =
            self.steps[..tested].iter().rev().find(|(call, answer)| call.tool == "edit" && CodeChange::is_made(answer));
        let Some((call, answer)) = made else {
            return format!("`{command}` passes: there is nothing to fix. I am a stand-in, but the tests are real.");
        };
        let runs = self.answers("shell").count();
        let diff = answer.find("@@").map_or(answer.as_str(), |at| &answer[at..]);
        format!(
            "`{command}` passes now. What changed in `{}`:\n\n```diff\n{}\n```\n\nI ran the tests {runs} times. The files, the \
             commands and this change are real; I am a stand-in for a model, and found it by trying small changes, not by \
             understanding the code.",
            call.input["path"].as_str().unwrap_or_default(),
            diff.trim_end()
        )
    }
}
