//! A server's tool, as an agent calls it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everturn::core::chat::Effect;
use everturn::core::prompt::ToolSpec;
use everturn::{
    LookResult, Policy, QuestionAnswer, RestingCall, Tool, ToolContext, ToolError, ToolOutput, ToolQuestion, ToolReturn,
};
use rmcp::model::{CallToolResult, InputRequiredResult, Task};
use serde_json::{Value, json};

use crate::connection::{CallAnswers, CallFailure, CallReply, StartFailure, TaskState, ToolCall, pause};
use crate::definition::ToolDefinition;
use crate::question::Questions;
use crate::result;
use crate::server::{Caller, Server};

/// How often a call is tried again that was provably not run.
const RETRIES_MAX: u32 = 2;

/// Version of the stored handles.
pub(crate) const HANDLE_VERSION: u32 = 1;

/// A tool of a server.
pub(crate) struct McpTool {
    server: Arc<Server>,
    definition: ToolDefinition,
}

impl McpTool {
    pub(crate) const fn new(server: Arc<Server>, definition: ToolDefinition) -> Self {
        Self { server, definition }
    }

    /// Calls the tool. A call that was provably not run is tried again; one that may have run only if that does no harm.
    async fn call(
        &self,
        context: &ToolContext,
        input: &Value,
        answers: Option<CallAnswers>,
    ) -> Result<ToolReturn, ToolError> {
        let effect = self.policy().effect;
        let mut repetitions = 0;
        loop {
            let lent = tokio::select! {
                biased;
                () = context.cancel.cancelled() => return Err(ToolError::new("The call was not run: the turn was interrupted.")),
                lent = self.server.lend(Caller::of(context)) => lent.map_err(|failure| self.not_started(&failure))?,
            };
            let call = ToolCall {
                tool: &self.definition.name,
                input: input.as_object().cloned().unwrap_or_default(),
                key: format!("{}:{}", context.chat, context.call),
                silence_max: self.server.config.silence_max,
                answers: answers.clone(),
            };
            let failure = match lent.connection.call(call, &context.cancel, |text| context.show(text)).await {
                Ok(CallReply::Result(result)) => return self.output(result).map(ToolReturn::Done),
                Ok(CallReply::Task(task)) => return Ok(ToolReturn::Rests(resting(&task))),
                Ok(CallReply::Asks(InputRequiredResult { input_requests, request_state, .. })) => {
                    let questions = Questions::of(input_requests.unwrap_or_default(), request_state, None);
                    return self.ask(questions).map(ToolReturn::Asks);
                }
                Err(failure) => failure,
            };
            repetitions += 1;
            match failure {
                CallFailure::NotRun(_) if repetitions <= RETRIES_MAX => {}
                CallFailure::Lost(_) if effect != Effect::Once && repetitions == 1 => {}
                failure => return Err(self.error(failure)),
            }
        }
    }

    /// Goes on with a call whose questions were answered.
    async fn go_on(
        &self,
        context: &ToolContext,
        input: &Value,
        handle: &Value,
        answer: &QuestionAnswer,
    ) -> Result<ToolReturn, ToolError> {
        let unreadable = || self.unknown("The question of the server cannot be read any more.".into());
        let questions = Questions::of_handle(handle).ok_or_else(unreadable)?;
        let responses = match questions.responses(answer) {
            Ok(responses) => responses,
            Err(problem) => return Ok(ToolReturn::Asks(questions.ask(&self.server.config.name, Some(problem)))),
        };
        let Some(task) = &questions.task else {
            let answers = CallAnswers { responses, state: questions.state.clone() };
            return self.call(context, input, Some(answers)).await;
        };
        let lent =
            self.server.lend(Caller::of(context)).await.map_err(|failure| self.not_answered(task, &failure.reason))?;
        lent.connection.answer_task(task, responses).await.map_err(|why| self.not_answered(task, &why))?;
        Ok(ToolReturn::Rests(RestingCall { handle: task_handle(task), look_after: Duration::ZERO }))
    }

    fn not_answered(&self, task: &str, why: &str) -> ToolError {
        let server = &self.server.config.name;
        self.unknown(format!("The MCP server `{server}` could not be given the answers for the task {task}: {why}."))
    }

    /// Puts questions to a person, or says why that is not possible.
    fn ask(&self, questions: Result<Questions, &str>) -> Result<ToolQuestion, ToolError> {
        let server = &self.server.config.name;
        match questions {
            Ok(questions) => Ok(questions.ask(server, None)),
            Err(why) => Err(ToolError::new(format!("The MCP server `{server}` {why}. The call had no result."))),
        }
    }

    fn output(&self, result: CallToolResult) -> Result<ToolOutput, ToolError> {
        result::output(result, self.definition.output.as_ref())
    }

    /// What became of a task, as the engine and the model are told.
    fn looked(&self, id: &str, state: TaskState) -> Result<LookResult, ToolError> {
        let server = &self.server.config.name;
        match state {
            TaskState::Working(pause) => Ok(LookResult::Pending(pause)),
            TaskState::Done(result) => self.output(result).map(LookResult::Done),
            TaskState::Failed(why) => Err(ToolError::new(format!("The MCP server `{server}` failed: {why}"))),
            TaskState::Cancelled => {
                Err(self.unknown(format!("The MCP server `{server}` stopped the task {id} before its end.")))
            }
            TaskState::Asks(requests) => self.ask(Questions::of(requests, None, Some(id.into()))).map(LookResult::Asks),
            TaskState::Forgotten(why) => {
                Err(self.unknown(format!("The MCP server `{server}` does not know the task {id} any more: {why}.")))
            }
        }
    }

    fn not_started(&self, failure: &StartFailure) -> ToolError {
        let server = &self.server.config.name;
        ToolError::new(format!("The call was not run: the MCP server `{server}` is not available: {failure}."))
    }

    /// The error of a call that may have happened.
    fn unknown(&self, what: String) -> ToolError {
        match self.policy().effect {
            Effect::Once => {
                ToolError::unknown(format!("{what} The call may have happened. Look before you repeat it."))
            }
            Effect::Read | Effect::Idempotent => ToolError::new(format!("{what} The call may be repeated.")),
        }
    }

    fn error(&self, failure: CallFailure) -> ToolError {
        let server = &self.server.config.name;
        match failure {
            CallFailure::NotRun(why) => {
                ToolError::new(format!("The call was not run: the MCP server `{server}` is not available: {why}."))
            }
            CallFailure::NeedsLogin(why) => {
                self.server.refused(why.clone());
                ToolError::new(format!("The call was not run: the MCP server `{server}`: {why}."))
            }
            CallFailure::Lost(why) => {
                self.unknown(format!("The MCP server `{server}` was lost during the call: {why}."))
            }
            CallFailure::Silent(time) => self.unknown(format!(
                "The MCP server `{server}` gave no result and no sign of progress for {} s, and was told to stop.",
                time.as_secs()
            )),
            CallFailure::Cancelled => {
                self.unknown(format!("The call was interrupted, and the MCP server `{server}` was told to stop."))
            }
            CallFailure::Answered(error) => ToolError::new(format!(
                "The MCP server `{server}` answered with error {}: {}",
                error.code.0, error.message
            )),
        }
    }
}

/// A call whose outcome is a task of the server.
fn resting(task: &Task) -> RestingCall {
    RestingCall { handle: task_handle(&task.task_id), look_after: pause(task) }
}

fn task_handle(task: &str) -> Value {
    json!({"mcp": HANDLE_VERSION, "task": task})
}

/// The task of a handle.
fn task_of(handle: &Value) -> Option<&str> {
    handle["task"].as_str().filter(|_| handle["mcp"] == HANDLE_VERSION)
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> ToolSpec {
        self.definition.spec(&self.server.config.name)
    }

    fn policy(&self) -> Policy {
        self.definition.policy(&self.server.config)
    }

    fn grant_terms(&self) -> String {
        self.definition.hash()
    }

    async fn run(&self, context: ToolContext, input: Value) -> Result<ToolReturn, ToolError> {
        match &context.answered {
            Some((handle, answer)) => self.go_on(&context, &input, handle, answer).await,
            None => self.call(&context, &input, None).await,
        }
    }

    async fn look(&self, context: ToolContext, handle: Value) -> Result<LookResult, ToolError> {
        let id = task_of(&handle).ok_or_else(|| self.unknown("The handle of the task cannot be read.".into()))?;
        let lent = match self.server.lend(Caller::of(&context)).await {
            Ok(lent) => lent,
            Err(failure) => return Ok(LookResult::Unreachable(failure.to_string())),
        };
        match lent.connection.task(id).await {
            Ok(state) => self.looked(id, state),
            Err(why) => Ok(LookResult::Unreachable(why)),
        }
    }

    async fn let_go(&self, context: ToolContext, handle: Value) {
        let Some(id) = task_of(&handle) else { return };
        if let Ok(lent) = self.server.lend(Caller::of(&context)).await {
            lent.connection.cancel_task(id).await;
        }
    }
}
