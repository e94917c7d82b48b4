//! Hooks in the configuration file.

use std::path::Path;

use anyhow::bail;
use serde::Deserialize;

/// How long a hook may take, unless its entry says otherwise.
const SECONDS_MAX: u32 = 10;
/// How long an entry may let it take.
const SECONDS_LIMIT: u32 = 50;
/// Hooks that a file may have.
const HOOKS_LEN_MAX: usize = 32;

/// An entry of `[[hooks]]`.
#[derive(Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct HookEntry {
    /// When it runs.
    pub on: HookEvent,
    /// The tools it is about, with `*` for any characters; all if left out.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The command and its arguments.
    pub run: Vec<String>,
    /// How long it may take.
    #[serde(default = "seconds_max")]
    pub seconds_max: u32,
}

/// When a hook runs.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// Before a call starts. It can refuse the call.
    BeforeCall,
    /// After a call has ended. It can add to the result.
    AfterCall,
    /// After a turn has ended.
    TurnEnd,
}

const fn seconds_max() -> u32 {
    SECONDS_MAX
}

impl HookEvent {
    /// The word in the file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::BeforeCall => "before_call",
            Self::AfterCall => "after_call",
            Self::TurnEnd => "turn_end",
        }
    }
}

impl HookEntry {
    /// Its name in messages: the program without its directory.
    pub fn name(&self) -> &str {
        let program = self.run.first().map(String::as_str).unwrap_or_default();
        Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program)
    }

    /// Whether it is about calls of a tool.
    pub fn is_about(&self, tool: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|pattern| fits(pattern, tool))
    }
}

/// Refuses hooks that could never run.
pub fn check(hooks: &[HookEntry]) -> anyhow::Result<()> {
    if hooks.len() > HOOKS_LEN_MAX {
        bail!("there are {} [[hooks]]; there may be {HOOKS_LEN_MAX}", hooks.len());
    }
    for hook in hooks {
        if hook.run.first().is_none_or(String::is_empty) {
            bail!(
                "a [[hooks]] entry has no command: `run` is the program and its arguments, such as [\"/usr/local/bin/check\"]"
            );
        }
        if !(1..=SECONDS_LIMIT).contains(&hook.seconds_max) {
            bail!(
                "`seconds_max` of the hook `{}` is {}; it must be 1 to {SECONDS_LIMIT}",
                hook.name(),
                hook.seconds_max
            );
        }
        if hook.on == HookEvent::TurnEnd && !hook.tools.is_empty() {
            bail!("the hook `{}` runs at the end of turns, which have no tool: leave out `tools`", hook.name());
        }
    }
    Ok(())
}

/// Whether a name fits a pattern in which `*` is any characters.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| fits(after, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Flags;
    use super::super::tests::read;
    use super::*;

    #[test]
    fn a_hook_names_its_tools() {
        let text = "[[hooks]]\non = \"before_call\"\ntools = [\"shell\", \"mcp__*__delete_*\"]\nrun = [\"/bin/check\", \"-q\"]\n";
        let config = read(Flags::default(), &[], text).unwrap();
        let [hook] = &*config.hooks else { panic!("{:?}", config.hooks) };
        assert_eq!((hook.on, hook.name(), hook.seconds_max), (HookEvent::BeforeCall, "check", 10));
        let about: Vec<&str> = ["shell", "shell2", "mcp__a__delete_b", "mcp__a__get", "read"]
            .into_iter()
            .filter(|tool| hook.is_about(tool))
            .collect();
        assert_eq!(about, ["shell", "mcp__a__delete_b"]);
    }

    #[test]
    fn a_hook_that_could_never_run_is_refused() {
        for (text, why) in [
            ("on = \"before_call\"\nrun = []", "no command"),
            ("on = \"before_call\"\nrun = [\"x\"]\nseconds_max = 0", "1 to 50"),
            ("on = \"turn_end\"\nrun = [\"x\"]\ntools = [\"shell\"]", "leave out `tools`"),
            ("on = \"sometimes\"\nrun = [\"x\"]", "before_call"),
        ] {
            let error = format!("{:#}", read(Flags::default(), &[], &format!("[[hooks]]\n{text}")).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
