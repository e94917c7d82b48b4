//! `job`: looking at background jobs, waiting for them and stopping them.

use std::fmt::Write as _;
use std::time::Duration;

use async_trait::async_trait;
use everturn::core::chat::Effect;
use everturn::core::ids::ChatId;
use everturn::core::prompt::ToolSpec;
use everturn::{LookResult, Policy, RestingCall, Tool, ToolContext, ToolError, ToolReturn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

use super::Workspace;
use super::jobs::{BackgroundJob, ChatJobs, JobFiles, JobState};
use super::shell::size;
use crate::supervisor::job::milliseconds;
use crate::wire::{JobEndCause, JobLife, WaitHandle};

/// Seconds a call waits, unless it says otherwise.
const SECONDS: u64 = 60;
/// Seconds a call may wait.
const SECONDS_MAX: u64 = 3_600;
/// How long one look waits for the end. Shorter than the engine lets it.
const LOOK_MAX: Duration = Duration::from_secs(20);
/// How long a stopped job may take to end.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Bytes of the newest output that are shown.
const NEWEST_BYTES: u64 = 32 << 10;
/// Bytes of output that are shown from a byte on.
const SHOWN_BYTES_MAX: u64 = 40 << 10;

#[derive(Deserialize, JsonSchema)]
struct JobInput {
    /// What to do.
    action: JobAction,
    /// The job's number; not needed for `list`.
    number: Option<u32>,
    /// For `read`: show output from this byte on instead of the newest.
    from: Option<u64>,
    /// For `wait`: how long at most, up to 3600 seconds.
    #[serde(default = "seconds")]
    seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum JobAction {
    /// List all jobs of this chat.
    List,
    /// Show the state and the output of a job.
    Read,
    /// Wait until a job ends.
    Wait,
    /// End a job.
    Stop,
}

const fn seconds() -> u64 {
    SECONDS
}

/// The tool; see the module.
#[derive(Debug)]
pub struct JobTool {
    workspace: Workspace,
}

impl JobTool {
    pub const fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }

    fn find(&self, chat: ChatId, number: Option<u32>) -> Result<JobFiles, ToolError> {
        let number = number.ok_or("give the `number` of a job")?;
        let jobs = self.workspace.chat_jobs(chat)?;
        jobs.get(number).ok_or_else(|| format!("there is no job {number} in this chat: `list` shows them").into())
    }
}

#[async_trait]
impl Tool for JobTool {
    fn spec(&self) -> ToolSpec {
        let description = "Looks at background jobs of this chat, waits for them and stops them. `shell` with `background` \
                           starts one.";
        ToolSpec::new("job", description, Value::from(schemars::schema_for!(JobInput)))
    }

    fn policy(&self) -> Policy {
        Policy { effect: Effect::Read, ..Policy::default() }
    }

    fn policy_for(&self, input: &Value) -> Policy {
        let stops = input.get("action").and_then(Value::as_str) == Some("stop");
        Policy { effect: if stops { Effect::Idempotent } else { Effect::Read }, ..self.policy() }
    }

    async fn run(&self, context: ToolContext, input: Value) -> Result<ToolReturn, ToolError> {
        let input: JobInput = serde_json::from_value(input)?;
        if input.action == JobAction::List {
            return Ok(list(&self.workspace.chat_jobs(context.chat)?).into());
        }
        let files = self.find(context.chat, input.number)?;
        match (input.action, input.from) {
            (JobAction::List, _) | (JobAction::Read, None) => {}
            (JobAction::Read, Some(from)) => return Ok(output_from(&files, from)?.into()),
            (JobAction::Wait, _) if files.command.state() == JobState::Running => {
                let seconds = input.seconds.clamp(1, SECONDS_MAX);
                let handle = WaitHandle { job: files.number, until_milliseconds: milliseconds() + 1_000 * seconds };
                let handle = serde_json::to_value(handle)?;
                return Ok(ToolReturn::Rests(RestingCall { handle, look_after: Duration::ZERO }));
            }
            (JobAction::Wait, _) => {}
            (JobAction::Stop, _) => {
                files.command.stop()?;
                if timeout(STOP_MAX, files.command.over()).await.is_err() {
                    return Err(format!("job {} was told to end and still runs", files.number).into());
                }
            }
        }
        Ok(newest(&files)?.into())
    }

    async fn look(&self, context: ToolContext, handle: Value) -> Result<LookResult, ToolError> {
        let WaitHandle { job, until_milliseconds } =
            serde_json::from_value(handle).map_err(|_| ToolError::unknown("The handle of the job cannot be read."))?;
        let files = self.find(context.chat, Some(job))?;
        let left = Duration::from_millis(until_milliseconds.saturating_sub(milliseconds()));
        if files.command.state() == JobState::Running && !left.is_zero() {
            let ended = timeout(left.min(LOOK_MAX), files.command.over()).await;
            if ended.is_err() && left > LOOK_MAX {
                return Ok(LookResult::Pending(Duration::ZERO));
            }
        }
        Ok(LookResult::Done(newest(&files)?.into()))
    }
}

fn list(jobs: &ChatJobs) -> String {
    let all = jobs.all();
    let mut text = format!("{} jobs\n", all.len());
    for files in all {
        let _ = writeln!(text, "{}", told(&files.job()));
    }
    text
}

/// The state of a job and its newest output.
fn newest(files: &JobFiles) -> Result<String, ToolError> {
    let job = files.job();
    if job.state != JobState::Running {
        files.seen();
    }
    let (output, from) = files.command.newest_output(NEWEST_BYTES)?;
    let before = match from {
        0 => String::new(),
        from => format!("[{from} bytes came before: `read` with `from` shows them]\n"),
    };
    Ok(format!("{}\n{before}{}", told(&job), String::from_utf8_lossy(&output)))
}

fn output_from(files: &JobFiles, from: u64) -> Result<String, ToolError> {
    let (output, to) = files.command.output(from, SHOWN_BYTES_MAX)?;
    let job = files.job();
    let more = if to < job.output_bytes { format!("\n[go on with from {to}]") } else { String::new() };
    Ok(format!("{}\n[bytes {from}–{to}]\n{}{more}", told(&job), String::from_utf8_lossy(&output)))
}

/// A job in one line.
pub fn told(job: &BackgroundJob) -> String {
    let seconds = job.took().map_or(0.0, |took| took.as_secs_f64());
    let state = match &job.state {
        JobState::Running => format!("running for {seconds:.0} s of at most {} s", job.time_max.as_secs()),
        JobState::Lost => "outcome unknown: its supervisor was killed, or the machine restarted".into(),
        JobState::Ended(end) => {
            let how = match (end.cause, end.code, end.signal) {
                (JobEndCause::ProgramGone, _, _) => "ended with the program that started it".into(),
                (JobEndCause::Stopped, _, _) => "stopped".into(),
                (JobEndCause::TimeUp, _, _) => "ended because its time was up".into(),
                (JobEndCause::Exited, Some(code), _) => format!("exit {code}"),
                (JobEndCause::Exited, None, Some(signal)) => format!("ended by signal {signal}"),
                (JobEndCause::Exited, None, None) => "ended".into(),
            };
            format!("{how} after {seconds:.1} s")
        }
    };
    let kept = if job.life == JobLife::Kept { " · kept" } else { "" };
    let output = size(usize::try_from(job.output_bytes).unwrap_or(usize::MAX));
    format!("job {}: {state} · {output} of output{kept} · {}", job.number, first_line(&job.command))
}

fn first_line(command: &str) -> String {
    let line: String = command.lines().next().unwrap_or_default().chars().take(100).collect();
    if line.len() < command.len() { format!("{line}…") } else { line }
}
