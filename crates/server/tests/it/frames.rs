//! HTTP/2 frames by hand, for clients that break the rules.

use tokio::io::{AsyncRead, AsyncReadExt as _};

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub const RESET: u8 = 3;
pub const GOAWAY: u8 = 7;

pub fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    join(&[&length[1..], &[kind, flags], &stream.to_be_bytes(), payload])
}

/// The first frame of a connection: empty settings.
pub fn settings() -> Vec<u8> {
    frame(4, 0, 0, &[])
}

/// A complete GET request, the `number`-th of its connection.
pub fn get(number: u32, host: &str, path: &str, token: &str) -> Vec<u8> {
    let (get, http) = (0x82, 0x86); // Indexes into HPACK's static table.
    let literal = |name: u8, value: &str| join(&[&[name, u8::try_from(value.len()).unwrap()], value.as_bytes()]);
    let token = named("authorization", &format!("Bearer {token}"));
    frame(1, 0x5, 2 * number + 1, &join(&[&[get, http], &literal(0x01, host), &literal(0x04, path), &token]))
}

fn named(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| join(&[&[u8::try_from(text.len()).unwrap()], text.as_bytes()]);
    join(&[&[0x00], &text(name), &text(value)])
}

/// Resets a request.
pub fn reset(number: u32) -> Vec<u8> {
    frame(RESET, 0, 2 * number + 1, &8_u32.to_be_bytes())
}

/// The next frame: its type and payload.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    stream.read_exact(&mut payload).await?;
    Ok((head[3], payload))
}
