//! A daemon that gives canned answers, for tests.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{Client, Patience};

/// A daemon that gives each connection the next of these answers, whatever it is asked, and then closes it.
pub async fn daemon(answers: Vec<String>) -> (Client, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 8192];
            let len = stream.read(&mut request).await.unwrap();
            asked.push(String::from_utf8_lossy(&request[..len]).to_lowercase());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        asked
    });
    (Client::new(base.parse().unwrap(), "evt_token".into()), served)
}

/// An answer with this status line, content type and body.
pub fn answer(status: &str, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// A problem of this status and type.
pub fn problem(status: u16, kind: &str) -> String {
    let body =
        format!(r#"{{"type":"urn:everturn:problem:{kind}","title":"T","status":{status},"detail":"What happened."}}"#);
    answer(&format!("{status} No"), "application/problem+json", &body)
}

/// The line of a request that has its idempotency key.
pub fn key(request: &str) -> &str {
    request.lines().find(|line| line.starts_with("idempotency-key")).expect("it has an idempotency key")
}

impl Client {
    /// A client that gives up at the first failure.
    #[must_use]
    pub fn hasty(self) -> Self {
        Self { patience: Patience { total: Duration::ZERO, ..self.patience }, ..self }
    }
}
