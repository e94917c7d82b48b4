//! A proxy between the engine and its provider that answers the first request itself, wrongly.
//!
//! What no provider sends, a proxy, a load balancer or a captive portal may: bytes as they are, whatever HTTP says. All
//! later connections go through to the provider.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// What the proxy does with the first connection.
#[derive(Debug, Clone)]
pub enum First {
    /// Takes the request and sends these bytes, then closes.
    Says(Vec<u8>),
    /// Sends these bytes before the provider's answer.
    Hints(Vec<u8>),
}

/// Starts the proxy before `provider`, and returns its address.
pub async fn before(provider: SocketAddr, first: First) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            match first {
                First::Says(bytes) => {
                    request(&mut socket).await;
                    let _ = socket.write_all(&bytes).await; // A client that has read enough hangs up.
                    let _ = socket.shutdown().await;
                    // Unread bytes would make the close a reset.
                    while socket.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {}
                }
                First::Hints(bytes) => {
                    let asked = request(&mut socket).await;
                    socket.write_all(&bytes).await.unwrap();
                    let mut behind = TcpStream::connect(provider).await.unwrap();
                    behind.write_all(&asked).await.unwrap();
                    let _ = copy_bidirectional(&mut socket, &mut behind).await; // However it ended, both know.
                }
            }
        });
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut behind = TcpStream::connect(provider).await.unwrap();
                let _ = copy_bidirectional(&mut socket, &mut behind).await; // However it ended, both know.
            });
        }
    });
    address
}

/// Reads one request to its end.
async fn request(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        match socket.read(&mut piece).await {
            Ok(read @ 1..) => bytes.extend_from_slice(&piece[..read]),
            Ok(0) | Err(_) => return bytes,
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return bytes;
        }
    }
}
