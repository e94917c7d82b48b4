//! Hooks: commands of the operator that run before and after calls, and at the end of turns.
//!
//! They are configured in the operator's file alone: a file in a workspace would run with the rights of the server. A hook
//! that decides and fails, hangs or prints something else has refused the call.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everturn::core::chat::{Chat, TurnEnd};
use everturn::{Agent, Hook, HookedCall};
use everturn_server::wire::Ended;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use crate::config::{HookEntry, HookEvent};

/// Bytes that a hook may print.
const PRINTED_BYTES_MAX: u64 = 64 * 1024;
/// Bytes of a result that a hook is given, and of what it says to the model.
const TOLD_BYTES_MAX: usize = 16 * 1024;
/// Variables of the server's environment that hooks have. The others may be keys.
const VARIABLES: [&str; 8] = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"];
/// The exit code that refuses a call.
const REFUSED: i32 = 2;

/// The hooks of a server.
struct CommandHooks {
    agent: String,
    entries: Arc<[HookEntry]>,
}

/// What a hook prints, if it prints anything.
#[derive(Deserialize, Default)]
struct Printed {
    decision: Option<PrintedDecision>,
    #[serde(default)]
    reason: String,
    /// Added to the result of a call that has ended.
    context: Option<String>,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum PrintedDecision {
    Allow,
    Deny,
}

/// The agent with the hooks of the configuration.
pub fn equip(name: &str, mut agent: Agent, entries: &Arc<[HookEntry]>) -> Agent {
    if entries.is_empty() {
        return agent;
    }
    let own: Arc<dyn Hook> = Arc::new(CommandHooks { agent: name.into(), entries: entries.clone() });
    let hooks: Vec<Arc<dyn Hook>> = agent.hook.take().into_iter().chain([own]).collect();
    agent.hook = Some(Arc::new(hooks));
    agent
}

impl CommandHooks {
    fn of(&self, event: HookEvent) -> impl Iterator<Item = &HookEntry> {
        self.entries.iter().filter(move |entry| entry.on == event)
    }

    fn told(&self, event: HookEvent, chat: &Chat) -> Value {
        json!({"event": event.word(), "chat": chat.id.to_string(), "owner": chat.owner, "agent": self.agent})
    }

    fn told_call(&self, event: HookEvent, call: HookedCall<'_>) -> Value {
        let mut told = self.told(event, call.chat);
        told["call"] = call.call.to_string().into();
        told["tool"] = call.tool.into();
        told["input"] = call.input.clone();
        told
    }
}

#[async_trait]
impl Hook for CommandHooks {
    async fn before_step(&self, _: &Chat) -> Option<String> {
        None
    }

    fn hears_of_calls(&self) -> bool {
        self.of(HookEvent::BeforeCall).chain(self.of(HookEvent::AfterCall)).next().is_some()
    }

    async fn before_call(&self, call: HookedCall<'_>) -> Result<(), String> {
        for entry in self.of(HookEvent::BeforeCall).filter(|entry| entry.is_about(call.tool)) {
            let decided = match ask(entry, &self.told_call(HookEvent::BeforeCall, call)).await {
                Ok(printed) if printed.decision == Some(PrintedDecision::Deny) => Err(printed.reason),
                Ok(_) => Ok(()),
                Err(Trouble::Refused(reason)) => Err(reason),
                Err(Trouble::Failed(cause)) => {
                    tracing::error!(hook = entry.name(), "hook failed, so its call was refused: {cause}");
                    Err(format!("the hook `{}` could not decide", entry.name()))
                }
            };
            decided.map_err(|reason| match reason.trim() {
                "" => format!("the hook `{}` does not allow it", entry.name()),
                reason => cut(reason),
            })?;
        }
        Ok(())
    }

    async fn after_call(&self, call: HookedCall<'_>, returned: Result<&[u8], &str>) -> Option<String> {
        let mut notes = Vec::new();
        for entry in self.of(HookEvent::AfterCall).filter(|entry| entry.is_about(call.tool)) {
            let mut told = self.told_call(HookEvent::AfterCall, call);
            told["failed"] = returned.is_err().into();
            let output = returned.map_or_else(Into::into, String::from_utf8_lossy);
            told["output"] = cut(&output).into();
            match ask(entry, &told).await {
                Ok(printed) => notes.extend(printed.context.map(|context| cut(&context))),
                Err(Trouble::Refused(reason)) => notes.push(cut(&reason)), // It has run: this is what is wrong with it.
                Err(Trouble::Failed(cause)) => tracing::error!(hook = entry.name(), "hook failed: {cause}"),
            }
        }
        (!notes.is_empty()).then(|| notes.join("\n"))
    }

    async fn turn_ended(&self, chat: &Chat, end: &TurnEnd) {
        for entry in self.of(HookEvent::TurnEnd) {
            let mut told = self.told(HookEvent::TurnEnd, chat);
            told["ended"] = serde_json::to_value(Ended::from(end)).unwrap_or_default();
            if let Err(Trouble::Refused(cause) | Trouble::Failed(cause)) = ask(entry, &told).await {
                tracing::error!(hook = entry.name(), "hook failed: {cause}");
            }
        }
    }
}

/// Why a hook has no answer.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    /// It says no, for this reason.
    Refused(String),
    /// It did not work.
    Failed(String),
}

/// Runs the command with this on its standard input.
async fn ask(entry: &HookEntry, told: &Value) -> Result<Printed, Trouble> {
    let failed = |cause: String| Trouble::Failed(cause);
    let (program, args) = entry.run.split_first().ok_or_else(|| failed("it has no command".into()))?;
    let mut command = Command::new(program);
    let kept = VARIABLES.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.args(args).env_clear().envs(kept).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let group = Group(child.id());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let exchange = async {
        let write = async {
            if let Some(mut stdin) = stdin {
                let _ = stdin.write_all(told.to_string().as_bytes()).await; // A hook need not read it.
            }
        };
        let ((), printed, said) = tokio::join!(write, bounded(stdout), bounded(stderr));
        (child.wait().await, printed, said)
    };
    let time_max = Duration::from_secs(entry.seconds_max.into());
    let Ok((status, printed, said)) = timeout(time_max, exchange).await else {
        return Err(failed(format!("it did not end within {} s", time_max.as_secs())));
    };
    drop(group);
    let (printed, said) = (printed.map_err(failed)?, said.map_err(failed)?);
    let status = status.map_err(|error| failed(error.to_string()))?;
    match status.code() {
        Some(0) if printed.trim().is_empty() => Ok(Printed::default()),
        Some(0) => {
            serde_json::from_str(&printed).map_err(|error| failed(format!("it printed no JSON object: {error}")))
        }
        Some(REFUSED) => Err(Trouble::Refused(said)),
        _ => Err(failed(format!("{status}: {}", cut(&said)))),
    }
}

/// The processes of a hook. They end with it, also those that it left behind.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let group = self.0.and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        if let Some(group) = group {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL); // None may be left.
        }
    }
}

/// Everything that a hook prints, as text.
async fn bounded(from: Option<impl AsyncRead + Unpin>) -> Result<String, String> {
    let mut bytes = Vec::new();
    let Some(from) = from else { return Ok(String::new()) };
    from.take(PRINTED_BYTES_MAX + 1).read_to_end(&mut bytes).await.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > PRINTED_BYTES_MAX {
        return Err(format!("it printed more than {PRINTED_BYTES_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "it printed something that is not UTF-8".into())
}

/// The beginning of a text.
fn cut(text: &str) -> String {
    text.trim()[..text.trim().floor_char_boundary(TOLD_BYTES_MAX)].to_owned()
}

#[cfg(test)]
mod tests {
    use everturn::core::ids::{CallUid, ChatId, StepId};

    use super::*;

    fn entry(on: HookEvent, script: &str) -> HookEntry {
        let run = ["sh", "-c", script].map(Into::into).to_vec();
        HookEntry { on, tools: vec!["shell".into(), "mcp__*".into()], run, seconds_max: 5 }
    }

    fn hooks(entries: impl IntoIterator<Item = HookEntry>) -> CommandHooks {
        CommandHooks { agent: "coder".into(), entries: entries.into_iter().collect() }
    }

    async fn before(script: &str, tool: &str, seconds_max: u32) -> Result<(), String> {
        let entry = HookEntry { seconds_max, ..entry(HookEvent::BeforeCall, script) };
        let (chat, input) = (Chat::new(ChatId::from_u128(7), "coder", "me"), json!({"command": "ls"}));
        let call = CallUid { step: StepId(3), ordinal: 0 };
        hooks([entry]).before_call(HookedCall { chat: &chat, call, tool, input: &input }).await
    }

    /// A hook is given the call as JSON, sees no key of the server, and decides by its exit code or by what it prints.
    #[tokio::test]
    async fn a_hook_decides() {
        let reads = r#"read -r told; case $told in *'"call":"3.0"'*'"input":{"command":"ls"}'*) exit 0;; esac; exit 1"#;
        assert_eq!(before(reads, "shell", 5).await, Ok(()));
        assert_eq!(before("echo '{\"decision\": \"allow\"}'", "mcp__a__b", 5).await, Ok(()));
        assert_eq!(before("exit 2", "read", 5).await, Ok(()), "it is about other tools");
        assert_eq!(before("echo no pushes >&2; exit 2", "shell", 5).await, Err("no pushes".into()));
        let deny = "echo '{\"decision\": \"deny\", \"reason\": \"not now\"}'";
        assert_eq!(before(deny, "shell", 5).await, Err("not now".into()));
        assert_eq!(before("exit 2", "shell", 5).await, Err("the hook `sh` does not allow it".into()));
        assert_eq!(before(r#"test -z "$CARGO_MANIFEST_DIR""#, "shell", 5).await, Ok(()), "no other variables");
    }

    /// TA09: a hook that hangs, crashes, floods or prints garbage, or that is not there, has refused the call.
    #[tokio::test]
    async fn a_hook_that_fails_refuses() {
        let refused = Err("the hook `sh` could not decide".to_owned());
        let scripts = [
            "sleep 60",
            "exit 1",
            "kill -9 $$",
            "echo garbage",
            "echo '[1]'",
            "echo '{\"decision\": \"perhaps\"}'",
            "printf '\\377'",
            "yes",
            "sleep 60 & exit 0", // What it leaves behind holds its output open.
        ];
        for script in scripts {
            assert_eq!(before(script, "shell", 1).await, refused, "{script}");
        }
        let absent = HookEntry { run: vec!["/nowhere/at-all".into()], ..entry(HookEvent::BeforeCall, "") };
        let (chat, input) = (Chat::new(ChatId::from_u128(7), "coder", "me"), json!({}));
        let call =
            HookedCall { chat: &chat, call: CallUid { step: StepId(1), ordinal: 0 }, tool: "shell", input: &input };
        assert_eq!(hooks([absent]).before_call(call).await, Err("the hook `at-all` could not decide".into()));
    }

    /// What a hook prints of a call that has ended is added to its result; one that fails adds nothing.
    #[tokio::test]
    async fn a_hook_adds_to_results() {
        let (chat, input) = (Chat::new(ChatId::from_u128(7), "coder", "me"), json!({}));
        let call =
            HookedCall { chat: &chat, call: CallUid { step: StepId(1), ordinal: 0 }, tool: "shell", input: &input };
        let say = r#"read -r told; case $told in *'"failed":false'*'"output":"done"'*) echo '{"context": "formatted"}';; esac"#;
        let after = |script: &str| hooks([entry(HookEvent::AfterCall, script), entry(HookEvent::TurnEnd, "exit 1")]);
        assert_eq!(after(say).after_call(call, Ok(b"done")).await.as_deref(), Some("formatted"));
        assert_eq!(after("echo lint >&2; exit 2").after_call(call, Err("x")).await.as_deref(), Some("lint"));
        assert_eq!(after("exit 1").after_call(call, Ok(b"done")).await, None);
        assert!(after("").hears_of_calls() && !hooks([entry(HookEvent::TurnEnd, "")]).hears_of_calls());
    }
}
