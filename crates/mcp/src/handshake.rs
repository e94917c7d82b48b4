//! How a connection to a local server begins.
//!
//! A server of 2026 answers `server/discover`; older ones want `initialize` first and answer anything else with an error,
//! or not at all. Which kind a server is cannot be known before the first contact, and a cold `npx` may take half a minute
//! to answer anything. So both questions are asked on the same pipe, the second one later, and answers are told apart by
//! their ids. Afterwards the tool cache knows, and only the right question is asked.

use std::io;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientJsonRpcMessage, ClientNotification, ClientRequest, DiscoverRequest,
    DiscoverRequestParams, ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
    InitializeRequest, InitializedNotification, JsonObject, ProtocolVersion, RequestId, RequestMetaObject,
    ServerJsonRpcMessage, ServerPeerInfo, ServerResult, TASKS_EXTENSION_ID,
};
use rmcp::service::select_protocol_version;
use rmcp::transport::Transport;
use tokio::time::sleep;

use crate::config::Protocol;

/// How long a server has to answer `server/discover` before `initialize` is sent too.
const DISCOVER_MAX: Duration = Duration::from_secs(3);
/// Ids that no request of the connection itself will have.
const DISCOVER_ID: i64 = 1_000_000_001;
const INITIALIZE_ID: i64 = 1_000_000_002;

/// Why a connection did not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("its output ended before it answered")]
    Closed,
    #[error("it cannot be written to: {0}")]
    Write(io::Error),
    #[error("it refused the connection: {}", .0.message)]
    Refused(ErrorData),
    #[error("it speaks only {0}, and {own} is needed", own = version_list(&SPOKEN))]
    Versions(String),
    #[error("it answered something unexpected")]
    Strange,
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        // It has ended, and how it ended says more.
        if error.kind() == io::ErrorKind::BrokenPipe { Self::Closed } else { Self::Write(error) }
    }
}

/// Versions that can be spoken, best first.
const SPOKEN: [ProtocolVersion; 5] = [
    ProtocolVersion::V_2026_07_28,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2024_11_05,
];

fn version_list(versions: &[ProtocolVersion]) -> String {
    versions.iter().map(ProtocolVersion::as_str).collect::<Vec<_>>().join(", ")
}

/// What the client says of itself: calls may become tasks, and servers may ask people.
pub(crate) fn client_config() -> ClientConfig {
    let client = Implementation::new("everturn", env!("CARGO_PKG_VERSION"));
    let mut capabilities = ClientCapabilities::default();
    capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), JsonObject::new())].into());
    capabilities.elicitation = Some(ElicitationCapability::new().with_form(FormElicitationCapability::default()));
    ClientConfig::new(capabilities, client).with_protocol_version(ProtocolVersion::V_2025_11_25)
}

/// What became of a question that may begin a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    NotAsked,
    Open,
    Refused,
}

/// Begins a connection. `protocol` is what the server is known to speak.
pub(crate) async fn begin<T>(transport: &mut T, protocol: Option<Protocol>) -> Result<ServerPeerInfo, HandshakeError>
where
    T: Transport<RoleClient, Error = io::Error>,
{
    let mut discovers = Question::Open;
    let mut initializes = Question::NotAsked;
    if protocol == Some(Protocol::Initialize) {
        discovers = Question::Refused;
    } else {
        transport.send(discover()).await?;
    }
    loop {
        if discovers == Question::Refused && initializes == Question::NotAsked {
            transport.send(initialize()).await?;
            initializes = Question::Open;
        }
        let is_late = protocol.is_none() && initializes == Question::NotAsked;
        let message = tokio::select! {
            biased;
            message = transport.receive() => message.ok_or(HandshakeError::Closed)?,
            () = sleep(DISCOVER_MAX), if is_late => {
                transport.send(initialize()).await?;
                initializes = Question::Open;
                continue;
            }
        };
        match message {
            ServerJsonRpcMessage::Response(response) if is_id(&response.id, DISCOVER_ID) => {
                return discovered(response.result);
            }
            ServerJsonRpcMessage::Response(response) if is_id(&response.id, INITIALIZE_ID) => {
                let ServerResult::InitializeResult(result) = response.result else {
                    return Err(HandshakeError::Strange);
                };
                check_version(&result.protocol_version)?;
                transport.send(has_initialized()).await?;
                return Ok(result.into());
            }
            ServerJsonRpcMessage::Error(error) => {
                // An error may come without an id. Then it is about what was asked last.
                let is_about_initialize =
                    error.id.as_ref().map_or(initializes == Question::Open, |id| is_id(id, INITIALIZE_ID));
                *(if is_about_initialize { &mut initializes } else { &mut discovers }) = Question::Refused;
                let is_over = initializes == Question::Refused && discovers == Question::Refused;
                if is_over || protocol == Some(Protocol::Discover) {
                    return Err(HandshakeError::Refused(error.error));
                }
            }
            // Whatever else a server sends before that has no meaning yet.
            ServerJsonRpcMessage::Response(_)
            | ServerJsonRpcMessage::Request(_)
            | ServerJsonRpcMessage::Notification(_) => {}
        }
    }
}

/// Whether an id is this number. Some servers write numbers as text.
fn is_id(id: &RequestId, number: i64) -> bool {
    match id {
        RequestId::Number(id) => *id == number,
        RequestId::String(id) => id.parse() == Ok(number),
    }
}

fn discover() -> ClientJsonRpcMessage {
    let ClientConfig { capabilities, client_info, .. } = client_config();
    let meta = RequestMetaObject::with_client_context(ProtocolVersion::V_2026_07_28, client_info, capabilities);
    let mut request = DiscoverRequest::new(DiscoverRequestParams::default());
    request.extensions.insert(meta);
    ClientJsonRpcMessage::request(ClientRequest::DiscoverRequest(request), RequestId::Number(DISCOVER_ID))
}

fn initialize() -> ClientJsonRpcMessage {
    let mut client = client_config();
    client.capabilities.elicitation = None; // Its questions come while a call runs, and could not outlive this process.
    let request = InitializeRequest::new(client);
    ClientJsonRpcMessage::request(ClientRequest::InitializeRequest(request), RequestId::Number(INITIALIZE_ID))
}

fn has_initialized() -> ClientJsonRpcMessage {
    ClientJsonRpcMessage::notification(ClientNotification::InitializedNotification(InitializedNotification::default()))
}

fn discovered(result: ServerResult) -> Result<ServerPeerInfo, HandshakeError> {
    let ServerResult::DiscoverResult(result) = result else { return Err(HandshakeError::Strange) };
    match select_protocol_version(&SPOKEN[..1], &result.supported_versions) {
        Some(version) => Ok(ServerPeerInfo::from_discover_result(version, result)),
        None => Err(HandshakeError::Versions(version_list(&result.supported_versions))),
    }
}

fn check_version(version: &ProtocolVersion) -> Result<(), HandshakeError> {
    let is_spoken = SPOKEN.contains(version);
    if is_spoken { Ok(()) } else { Err(HandshakeError::Versions(version_list(std::slice::from_ref(version)))) }
}
