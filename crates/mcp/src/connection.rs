//! A connection to a server, and calls over it.

mod changes;
mod listener;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelTaskParams, ClientRequest, ErrorCode, ErrorData,
    GetTaskParams, InputRequests, InputRequiredResult, InputResponses, JsonObject, ListToolsRequest,
    PaginatedRequestParams, ProtocolVersion, RequestMetaObject, ServerPeerInfo, ServerResult, Task, TaskPayload,
    UpdateTaskParams,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, PeerRequestOptions, RunningService, ServiceError,
    serve_client_with_lifecycle, serve_directly,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::{Peer, RoleClient};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::config::{Place, Protocol, ServerConfig};
use crate::definition::{ToolDefinition, cut};
use crate::handshake::{HandshakeError, begin};
use crate::oauth::Logins;
use crate::oauth::bearer::{Bearer, Whose};
use crate::tool_cache::KnownTools;
use crate::transport::http::{HttpClient, HttpFailure, transport_config};
use crate::transport::lines::{LineState, LineTransport};
use crate::transport::process::ServerProcess;
pub(crate) use changes::ToolChanges;
use listener::Listener;

/// Tools of one server that are taken.
const TOOLS_MAX: usize = 256;
/// Pages of its list that are read.
const PAGES_MAX: usize = 64;
const INSTRUCTIONS_BYTES_MAX: usize = 8 * 1024;
/// How long to wait for the end of a process whose output has ended, to say why.
const REASON_MAX: Duration = Duration::from_secs(1);
/// How long telling a server that a call is not wanted any more may take.
const CANCEL_MAX: Duration = Duration::from_secs(1);
/// How long a server has to say what became of a task.
const LOOK_MAX: Duration = Duration::from_secs(15);
/// The pause between two questions about a task of a server that names none.
const TASK_PAUSE: Duration = Duration::from_secs(2);
/// Lines of a server's errors that are told.
const ERROR_LINES: usize = 5;
const ERROR_LINE_CHARS: usize = 300;
/// The name of a call that servers can recognise a repetition by.
const CALL_KEY: &str = "dev.everturn/call";

/// A connection to a server.
pub(crate) struct Connection {
    service: RunningService<RoleClient, Listener>,
    wire: Wire,
    /// Changes when the server says that its tools have changed.
    changed: watch::Receiver<()>,
    /// Whether something happened after which it must not be used again.
    spoilt: AtomicBool,
}

enum Wire {
    Lines { process: ServerProcess, state: Arc<LineState> },
    Http,
}

/// What a server said when a connection began.
pub(crate) struct Greeting {
    pub(crate) known: KnownTools,
    /// Tools that cannot be offered, with the reason.
    pub(crate) refused: Vec<(String, String)>,
}

/// Why a server could not be started or connected to. No call was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct StartFailure {
    /// The reason, for people and models.
    pub reason: String,
    /// What has to be done about it.
    pub kind: StartFailureKind,
}

/// What has to be done about a failed start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFailureKind {
    /// It may work later.
    Failed,
    /// The server wants other credentials.
    NeedsLogin,
}

impl StartFailure {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), kind: StartFailureKind::Failed }
    }
}

/// A call to a tool.
pub(crate) struct ToolCall<'a> {
    pub(crate) tool: &'a str,
    pub(crate) input: JsonObject,
    /// The chat and the call, the same for each repetition.
    pub(crate) key: String,
    /// How long the server may show no sign of life.
    pub(crate) silence_max: Duration,
    /// Answers to what the server asked when it was called before.
    pub(crate) answers: Option<CallAnswers>,
}

/// Answers to what a server asked.
#[derive(Clone)]
pub(crate) struct CallAnswers {
    pub(crate) responses: InputResponses,
    /// What the server wants to be told again.
    pub(crate) state: Option<String>,
}

/// What a server answers to a call.
pub(crate) enum CallReply {
    /// Its result.
    Result(CallToolResult),
    /// A task that goes on at the server.
    Task(Task),
    /// The server wants to know something first. The call has had no effect.
    Asks(InputRequiredResult),
}

/// What became of a task.
pub(crate) enum TaskState {
    /// It goes on. Ask again after this long.
    Working(Duration),
    /// It is done, with this result.
    Done(CallToolResult),
    /// It failed, for the reason given.
    Failed(String),
    /// It was stopped.
    Cancelled,
    /// The server wants to know something before it goes on.
    Asks(InputRequests),
    /// The server does not know it, for the reason given.
    Forgotten(String),
}

/// Why a call has no result.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// It was provably not run.
    NotRun(String),
    /// The credentials were refused, so it was not run.
    NeedsLogin(String),
    /// It was sent, and its outcome is unknown.
    Lost(String),
    /// No result and no progress came for this long.
    Silent(Duration),
    /// It was cancelled from here.
    Cancelled,
    /// The server answered with an error of the protocol.
    Answered(ErrorData),
}

/// How a server is started.
pub(crate) struct Start<'a> {
    pub(crate) config: &'a ServerConfig,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) directory: &'a Path,
    pub(crate) helper: Option<&'a PathBuf>,
    pub(crate) logins: &'a Logins,
    /// Whose login is used.
    pub(crate) whose: Whose,
}

impl Connection {
    /// Starts or connects to a server, and reads its list of tools.
    pub(crate) async fn open(start: &Start<'_>) -> Result<(Self, Greeting), StartFailure> {
        let connection = match &start.config.place {
            Place::Command { .. } => Self::open_lines(start).await?,
            Place::Http { .. } => Self::open_http(start).await?,
        };
        let greeting = connection.tools(start.config.start_max).await?;
        Ok((connection, greeting))
    }

    async fn open_lines(start: &Start<'_>) -> Result<Self, StartFailure> {
        let told = start.config.protocol.or(start.protocol);
        let first = Self::try_lines(start, told).await;
        let again = match &first {
            // It may have been replaced by one that speaks another protocol.
            Err((_, Some(HandshakeError::Refused(_) | HandshakeError::Strange | HandshakeError::Versions(_))))
                if told.is_some() =>
            {
                None
            }
            // Some end when they are asked anything before `initialize`.
            Err((_, Some(HandshakeError::Closed))) if told != Some(Protocol::Initialize) => Some(Protocol::Initialize),
            Ok(_) | Err(_) => return first.map_err(|(failure, _)| failure),
        };
        if start.config.protocol.is_some() {
            return first.map_err(|(failure, _)| failure);
        }
        Self::try_lines(start, again).await.map_err(|(failure, _)| failure)
    }

    async fn try_lines(
        start: &Start<'_>,
        protocol: Option<Protocol>,
    ) -> Result<Self, (StartFailure, Option<HandshakeError>)> {
        let Place::Command { argv, environment, directory } = &start.config.place else {
            return Err((StartFailure::new("it has no command"), None));
        };
        let directory = directory.as_deref().unwrap_or(start.directory);
        let started = ServerProcess::start(argv, environment, directory, start.helper).await;
        let (process, pipes) = started.map_err(|error| (StartFailure::new(error.to_string()), None))?;
        let mut transport = LineTransport::new(pipes.output, pipes.input);
        let state = transport.state();
        let wire = Wire::Lines { process, state };
        match timeout(start.config.start_max, begin(&mut transport, protocol)).await {
            Ok(Ok(info)) => {
                let (listener, changed) = Listener::new();
                let service = serve_directly(listener, transport, Some(info));
                Ok(Self { service, wire, changed, spoilt: AtomicBool::new(false) })
            }
            Ok(Err(error)) => {
                let why = match &error {
                    HandshakeError::Closed => wire.end_reason().await.unwrap_or_else(|| error.to_string()),
                    _ => error.to_string(),
                };
                Err((StartFailure::new(wire.with_errors(why)), Some(error)))
            }
            Err(_) => {
                let seconds = start.config.start_max.as_secs();
                let why = wire.with_errors(format!("it did not answer within {seconds} s (`start_seconds`)"));
                Err((StartFailure::new(why), None))
            }
        }
    }

    async fn open_http(start: &Start<'_>) -> Result<Self, StartFailure> {
        let told = start.config.protocol.or(start.protocol);
        match Self::try_http(start, told).await {
            Err(failure)
                if start.protocol.is_some()
                    && start.config.protocol.is_none()
                    && failure.kind == StartFailureKind::Failed =>
            {
                Self::try_http(start, None).await
            }
            tried => tried,
        }
    }

    async fn try_http(start: &Start<'_>, protocol: Option<Protocol>) -> Result<Self, StartFailure> {
        let Place::Http { url, headers } = &start.config.place else {
            return Err(StartFailure::new("it has no address"));
        };
        let transport = StreamableHttpClientTransport::with_client(
            HttpClient::new(
                headers.clone(),
                Bearer::new(start.logins.clone(), start.config.name(), url, start.whose.clone()),
            ),
            transport_config(url.as_str()),
        );
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        let lifecycle = match protocol {
            Some(Protocol::Initialize) => ClientLifecycleMode::Initialize,
            Some(Protocol::Discover) => ClientLifecycleMode::Discover { preferred_versions },
            None => {
                let legacy_version = Some(ProtocolVersion::V_2025_11_25);
                ClientLifecycleMode::Auto { preferred_versions, legacy_version }
            }
        };
        let (listener, changed) = Listener::new();
        let begun = serve_client_with_lifecycle(listener, transport, lifecycle);
        let service = match timeout(start.config.start_max, begun).await {
            Ok(Ok(service)) => service,
            Ok(Err(error)) => return Err(http_start_failure(&error)),
            Err(_) => {
                let seconds = start.config.start_max.as_secs();
                return Err(StartFailure::new(format!("it did not answer within {seconds} s (`start_seconds`)")));
            }
        };
        Ok(Self { service, wire: Wire::Http, changed, spoilt: AtomicBool::new(false) })
    }

    /// Whether calls can be sent.
    pub(crate) fn is_usable(&self) -> bool {
        !self.spoilt.load(Ordering::Relaxed) && !self.service.is_transport_closed()
    }

    /// The changes of the server's tools.
    pub(crate) fn changes(&self) -> Option<ToolChanges> {
        let info = self.service.peer_info()?;
        Some(ToolChanges::new(self.service.peer().clone(), &info, self.changed.clone()))
    }

    /// Reads the server's list of tools.
    pub(crate) async fn tools(&self, time_max: Duration) -> Result<Greeting, StartFailure> {
        let info = self.service.peer_info().ok_or_else(|| StartFailure::new("it said nothing about itself"))?;
        match timeout(time_max, self.list(&info)).await {
            Ok(Ok(greeting)) => Ok(greeting),
            Ok(Err(error)) => {
                // Some servers answer the first requests of a client without a login.
                if let Some(refused @ HttpFailure::Refused(..)) = http_failure(&error) {
                    return Err(StartFailure { reason: refused.to_string(), kind: StartFailureKind::NeedsLogin });
                }
                let why = self.why(&error).await;
                Err(StartFailure::new(format!("its tools cannot be listed: {why}")))
            }
            Err(_) => Err(StartFailure::new(self.wire.with_errors("it does not list its tools".into()))),
        }
    }

    async fn list(&self, info: &ServerPeerInfo) -> Result<Greeting, ServiceError> {
        let (mut tools, mut refused) = (Vec::<ToolDefinition>::new(), Vec::new());
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let page = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(page));
            let list = match self.service.send_request(request).await {
                Ok(ServerResult::ListToolsResult(list)) => list,
                Ok(_) => return Err(ServiceError::UnexpectedResponse),
                // A server without tools may not know the question.
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => break,
                Err(error) => return Err(error),
            };
            for tool in list.tools {
                let name = tool.name.to_string();
                match ToolDefinition::of(tool) {
                    Ok(_) if tools.len() >= TOOLS_MAX => {
                        refused.push((name, format!("only {TOOLS_MAX} tools are taken")))
                    }
                    Ok(_) if tools.iter().any(|known| known.name == name) => {
                        refused.push((name, "it is listed twice".into()))
                    }
                    Ok(tool) => tools.push(tool),
                    Err(why) => refused.push((name, why)),
                }
            }
            cursor = list.next_cursor.filter(|cursor| !cursor.is_empty());
            if cursor.is_none() {
                break;
            }
        }
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        let is_old = info.protocol_version.as_str() < ProtocolVersion::V_2026_07_28.as_str();
        let protocol = if is_old { Protocol::Initialize } else { Protocol::Discover };
        let server = info.server_info.as_ref().map(|server| format!("{} {}", server.name, server.version));
        let instructions = info.instructions.as_deref().map(|text| cut(text, INSTRUCTIONS_BYTES_MAX));
        Ok(Greeting { known: KnownTools { protocol, server, instructions, tools }, refused })
    }

    /// Sends a call and waits for its result. `show` is given what the server says about its progress.
    pub(crate) async fn call(
        &self,
        call: ToolCall<'_>,
        cancel: &CancellationToken,
        show: impl Fn(String),
    ) -> Result<CallReply, CallFailure> {
        let mut meta = RequestMetaObject::new();
        meta.insert(CALL_KEY.into(), Value::String(call.key));
        let mut params = CallToolRequestParams::new(call.tool.to_owned()).with_arguments(call.input);
        if let Some(CallAnswers { responses, state }) = call.answers {
            params.input_responses = Some(responses);
            params.request_state = state;
        }
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let peer: &Peer<RoleClient> = self.service.peer();
        let Ok(mut handle) = peer.send_cancellable_request(request, options).await else {
            return Err(CallFailure::NotRun("the connection was closed".into()));
        };
        let id = handle.id.clone();
        let mut progress = self.service.service().watch(handle.progress_token.clone());
        let answer = loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    let _ = timeout(CANCEL_MAX, handle.cancel(Some("the turn was interrupted".into()))).await;
                    self.forget(&id);
                    return Err(CallFailure::Cancelled);
                }
                answer = &mut handle.rx => break answer.unwrap_or(Err(ServiceError::TransportClosed)),
                Some(text) = progress.next() => show(text),
                () = sleep(call.silence_max) => {
                    let _ = timeout(CANCEL_MAX, handle.cancel(Some("no sign of progress".into()))).await;
                    self.forget(&id);
                    self.spoilt.store(true, Ordering::Relaxed); // It may hang for good: the next call gets a new one.
                    return Err(CallFailure::Silent(call.silence_max));
                }
            }
        };
        let may_have_run = self.forget(&id);
        match answer {
            Ok(ServerResult::CallToolResult(result)) => Ok(CallReply::Result(result)),
            Ok(ServerResult::CreateTaskResult(created)) => Ok(CallReply::Task(created.task)),
            Ok(ServerResult::InputRequiredResult(asks)) => Ok(CallReply::Asks(asks)),
            Ok(_) => Err(CallFailure::Lost("the server answered with something that is not a tool's result".into())),
            Err(ServiceError::McpError(error)) => Err(CallFailure::Answered(error)),
            Err(error) => Err(self.failure(error, may_have_run).await),
        }
    }

    /// Asks what became of a task. An error says why the server cannot be asked now.
    pub(crate) async fn task(&self, id: &str) -> Result<TaskState, String> {
        let asked = timeout(LOOK_MAX, self.service.peer().get_task(GetTaskParams::new(id))).await;
        let found = match asked {
            Ok(Ok(found)) => found.task,
            Ok(Err(ServiceError::McpError(error))) => {
                let message = error.message.into_owned();
                let gone = [ErrorCode::INVALID_PARAMS, ErrorCode::RESOURCE_NOT_FOUND, ErrorCode::METHOD_NOT_FOUND];
                // Other errors pass: the server is overloaded, or has one of its own.
                return if gone.contains(&error.code) { Ok(TaskState::Forgotten(message)) } else { Err(message) };
            }
            Ok(Err(error)) => {
                self.spoilt.store(true, Ordering::Relaxed);
                return Err(self.why(&error).await);
            }
            Err(_) => return Err(format!("it did not answer within {} s", LOOK_MAX.as_secs())),
        };
        Ok(match found.payload {
            TaskPayload::Working => TaskState::Working(pause(&found.task)),
            TaskPayload::Completed { result } => match serde_json::from_value(Value::Object(result)) {
                Ok(result) => TaskState::Done(result),
                Err(error) => TaskState::Failed(format!("its result cannot be read: {error}")),
            },
            TaskPayload::Failed { error } => {
                let message = error.get("message").and_then(Value::as_str).unwrap_or("it did not say why");
                TaskState::Failed(message.to_owned())
            }
            TaskPayload::Cancelled => TaskState::Cancelled,
            TaskPayload::InputRequired { input_requests } => TaskState::Asks(input_requests),
            _ => TaskState::Failed("it is in a state that is not known here".into()),
        })
    }

    /// Gives a task the answers it waits for.
    pub(crate) async fn answer_task(&self, id: &str, responses: InputResponses) -> Result<(), String> {
        let told = self.service.peer().update_task(UpdateTaskParams::new(id, responses));
        match timeout(LOOK_MAX, told).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.why(&error).await),
            Err(_) => Err(format!("it did not answer within {} s", LOOK_MAX.as_secs())),
        }
    }

    /// Tells a task to stop.
    pub(crate) async fn cancel_task(&self, id: &str) {
        // A server that cannot be told finds out by its own limits.
        let _ = timeout(CANCEL_MAX, self.service.peer().cancel_task(CancelTaskParams::new(id))).await;
    }

    /// Forgets a request, and says whether any of it may have reached the server.
    fn forget(&self, id: &rmcp::model::RequestId) -> bool {
        match &self.wire {
            Wire::Lines { state, .. } => state.take_begun(id),
            Wire::Http => true,
        }
    }

    async fn failure(&self, error: ServiceError, may_have_run: bool) -> CallFailure {
        self.spoilt.store(true, Ordering::Relaxed);
        match (&error, http_failure(&error)) {
            (_, Some(HttpFailure::NotConnected(why))) => return CallFailure::NotRun(why.clone()),
            (_, Some(refused @ HttpFailure::Refused(..))) => return CallFailure::NeedsLogin(refused.to_string()),
            // A line that could not be written whole is not a message.
            (ServiceError::TransportSend(sent), _) if sent.error.is::<io::Error>() => {
                return CallFailure::NotRun(self.why(&error).await);
            }
            (_, _) => {}
        }
        let why = self.why(&error).await;
        if may_have_run { CallFailure::Lost(why) } else { CallFailure::NotRun(why) }
    }

    /// The reason of an error, with how the process ended and what it said last.
    async fn why(&self, error: &ServiceError) -> String {
        if let Some(failure) = http_failure(error) {
            return failure.to_string();
        }
        let is_end = matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_));
        let reason = if is_end { self.wire.end_reason().await } else { None };
        match (reason, error) {
            (Some(reason), _) => self.wire.with_errors(reason),
            (None, ServiceError::TransportClosed) => self.wire.with_errors("the connection was cut".into()),
            (None, ServiceError::McpError(error)) => error.message.to_string(),
            (None, _) => error.to_string(),
        }
    }
}

impl Wire {
    /// Why the connection ended: because it was broken, or because the process ended.
    async fn end_reason(&self) -> Option<String> {
        let Self::Lines { process, state } = self else { return None };
        match state.failure() {
            Some(failure) => Some(failure.into()),
            None => process.ended_within(REASON_MAX).await,
        }
    }

    /// A reason with the last lines of the server's errors.
    fn with_errors(&self, why: String) -> String {
        let Self::Lines { process, .. } = self else { return why };
        let errors = process.errors();
        let mut lines: Vec<_> = errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines.split_off(lines.len().saturating_sub(ERROR_LINES));
        if last.is_empty() {
            return why;
        }
        let shown = last.iter().map(|line| plain(line)).collect::<Vec<_>>();
        format!("{why}. It said: {}", shown.join(" | "))
    }
}

/// How long to wait before a task is asked about again.
pub(crate) fn pause(task: &Task) -> Duration {
    task.poll_interval_ms.map_or(TASK_PAUSE, Duration::from_millis)
}

/// A line without control characters, within bounds.
fn plain(line: &str) -> String {
    let mut told: String = line.chars().filter(|c| !c.is_control()).take(ERROR_LINE_CHARS + 1).collect();
    if told.chars().count() > ERROR_LINE_CHARS {
        told = told.chars().take(ERROR_LINE_CHARS).chain(['…']).collect();
    }
    told
}

/// The failure of HTTP behind an error, if there is one.
fn http_failure(error: &ServiceError) -> Option<&HttpFailure> {
    let ServiceError::TransportSend(sent) = error else { return None };
    in_http(&*sent.error)
}

fn in_http<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a HttpFailure> {
    match error.downcast_ref::<StreamableHttpError<HttpFailure>>()? {
        StreamableHttpError::Client(failure) => Some(failure),
        _ => None,
    }
}

fn http_start_failure(error: &ClientInitializeError) -> StartFailure {
    let failure = match error {
        ClientInitializeError::TransportError { error, .. } => in_http(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => return http_start_failure(fallback),
        _ => None,
    };
    match failure {
        Some(refused @ HttpFailure::Refused(..)) => {
            StartFailure { reason: refused.to_string(), kind: StartFailureKind::NeedsLogin }
        }
        Some(failure) => StartFailure::new(failure.to_string()),
        None => StartFailure::new(error.to_string()),
    }
}
