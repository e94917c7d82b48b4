//! A server on this machine that answers with what was recorded.

use everturn_core::limits::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::http::Http;

pub(crate) const KEY: &str = "sk-0123456789abcdef";

/// Answers one request, and gives back what it was asked.
pub(crate) async fn server(
    status: &'static str,
    kind: &'static str,
    body: &'static str,
) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let request = request(&mut socket).await;
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nx-request-id: req_7\r\n");
        let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        socket.write_all(answer.as_bytes()).await.unwrap();
        request
    });
    (url, asked)
}

/// The environment variables of a client of the test server.
pub(crate) fn variables(url: &str) -> impl Fn(&str) -> Option<String> {
    let url = url.to_owned();
    move |name| match name {
        "OPENAI_API_KEY" => Some(KEY.to_owned()),
        "OPENAI_BASE_URL" | "OLLAMA_BASE_URL" => Some(url.clone()),
        "OPENAI_ORG_ID" => Some("org-1".to_owned()),
        "OPENAI_PROJECT_ID" => Some("proj_2".to_owned()),
        _ => None,
    }
}

pub(crate) fn http() -> Http {
    Http::direct(&Limits::default())
}

async fn request(socket: &mut TcpStream) -> String {
    let mut request = String::new();
    loop {
        let mut bytes = [0; 4096];
        let read = socket.read(&mut bytes).await.unwrap();
        request.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return request;
        }
    }
}
