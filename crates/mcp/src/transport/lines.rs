//! One JSON message per line, within bounds.
//!
//! Servers print other things too: banners, logs, warnings of their runtime. A line that is not a message of the protocol
//! is skipped and logged. A message that is broken ends the connection instead, because the call that it answers cannot be
//! told, and would wait for ever.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};

use super::MESSAGE_BYTES_MAX;

/// Characters of a skipped line that are logged.
const LOGGED_CHARS: usize = 200;

/// A connection over two pipes.
pub(crate) struct LineTransport<R, W> {
    read: BufReader<R>,
    /// The line that is being read. Kept here, because a read may be dropped half-way.
    line: Vec<u8>,
    write: Arc<tokio::sync::Mutex<Option<W>>>,
    shared: Arc<LineState>,
}

/// What is known about a connection from outside.
#[derive(Debug, Default)]
pub(crate) struct LineState {
    /// Requests of which at least one byte may have been written.
    begun: Mutex<HashSet<RequestId>>,
    /// Why the connection ended, if it was broken.
    failure: OnceLock<String>,
}

impl LineState {
    /// Forgets a request, and says whether any of it may have been written.
    pub(crate) fn take_begun(&self, id: &RequestId) -> bool {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }

    /// Why the connection ended, if it was broken.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    fn begin(&self, id: RequestId) {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    fn fail(&self, why: String) {
        let _ = self.failure.set(why); // The first reason is the reason.
    }
}

/// What a line is.
#[derive(Debug)]
enum Line {
    Message(Box<ServerJsonRpcMessage>),
    /// Something else that a server printed.
    Noise,
    /// A message that cannot be read. The call that it answers is unknown.
    Broken(String),
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> LineTransport<R, W> {
    pub(crate) fn new(read: R, write: W) -> Self {
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            write: Arc::new(tokio::sync::Mutex::new(Some(write))),
            shared: Arc::default(),
        }
    }

    /// See [`LineState`].
    pub(crate) fn state(&self) -> Arc<LineState> {
        self.shared.clone()
    }

    /// Reads the next line into `self.line`. Cancel-safe: what was read stays there.
    async fn read_line(&mut self) -> io::Result<bool> {
        loop {
            let available = self.read.fill_buf().await?;
            if available.is_empty() {
                return Ok(false);
            }
            let newline = available.iter().position(|byte| *byte == b'\n');
            let taken = newline.map_or(available.len(), |at| at + 1);
            if self.line.len() + taken > MESSAGE_BYTES_MAX {
                let what = format!("it sent a message of more than {} MiB", MESSAGE_BYTES_MAX / 1024 / 1024);
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            self.line.extend_from_slice(&available[..taken]);
            self.read.consume(taken);
            if newline.is_some() {
                return Ok(true);
            }
        }
    }

    /// The next message, or `None` at the connection's end.
    async fn next_message(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            match self.read_line().await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.shared.fail(error.to_string());
                    return None;
                }
            }
            let line = std::mem::take(&mut self.line);
            match read(&line) {
                Line::Message(message) => return Some(*message),
                Line::Noise => {
                    let text: String = String::from_utf8_lossy(&line).chars().take(LOGGED_CHARS).collect();
                    tracing::debug!(line = ?text.trim_end(), "an MCP server printed a line that is not a message");
                }
                Line::Broken(why) => {
                    self.shared.fail(why);
                    return None;
                }
            }
        }
    }
}

fn read(line: &[u8]) -> Line {
    match serde_json::from_slice::<ServerJsonRpcMessage>(line) {
        Ok(message) => Line::Message(Box::new(message)),
        Err(error) => unreadable(line, &error),
    }
}

/// A line that is not a message: noise, an answer whose call can be told, or the end of the connection.
fn unreadable(line: &[u8], error: &serde_json::Error) -> Line {
    let begins = line.trim_ascii_start();
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        let is_message = begins.starts_with(b"{") && contains(&begins[..begins.len().min(256)], b"\"jsonrpc\"");
        return if is_message { Line::Broken(format!("it sent a broken message: {error}")) } else { Line::Noise };
    };
    let id = match value.get("id") {
        Some(Value::Number(number)) => number.as_i64().map(RequestId::Number),
        Some(Value::String(text)) => Some(RequestId::String(text.as_str().into())),
        Some(_) | None => None,
    };
    let is_answer = value.get("jsonrpc").is_some() && (value.get("result").is_some() || value.get("error").is_some());
    match id.filter(|_| is_answer) {
        Some(id) => {
            let why = format!("the server's answer does not fit the protocol: {error}");
            Line::Message(Box::new(ServerJsonRpcMessage::error(ErrorData::internal_error(why, None), Some(id))))
        }
        None => Line::Noise,
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

impl<R, W> Transport<RoleClient> for LineTransport<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let write = self.write.clone();
        let shared = self.shared.clone();
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut write = write.lock().await;
            let Some(pipe) = write.as_mut() else { return Err(io::ErrorKind::BrokenPipe.into()) };
            if let ClientJsonRpcMessage::Request(request) = &message {
                shared.begin(request.id.clone());
            }
            pipe.write_all(&line).await?;
            pipe.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.next_message().await
    }

    /// Closes the server's input, which asks it to end. A write that waits for the server to read is not waited for.
    async fn close(&mut self) -> io::Result<()> {
        if let Ok(mut write) = self.write.try_lock() {
            *write = None;
        }
        Ok(())
    }
}
