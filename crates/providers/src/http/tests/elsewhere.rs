//! Where a question may go: to its host, by way of the proxy the environment names, and nowhere else.

use std::process::{Command, Output};
use std::sync::Mutex;

use super::tls::{Authority, Speaks, answer_plainly, server};
use super::*;

/// P9: a redirect is an answer like any other. No connection is made to its target, let alone with the key.
#[tokio::test]
async fn a_redirect_leads_nowhere() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let location = format!("location: http://{}/v1/ask\r\n", elsewhere.local_addr().unwrap());
    for status in ["301", "302", "303", "307", "308"] {
        let error = refused(status, &location, "").await;
        assert_eq!((error.kind, error.retry), (ErrorKind::Config, Retry::Never), "{status}");
        assert_eq!(error.detail, "a redirect, which is not followed; check the base URL");
    }
    assert_nobody_came(&elsewhere).await;
}

async fn assert_nobody_came(listener: &TcpListener) {
    // A connection would have been made before the answer was read, and be in the backlog by now.
    let came = tokio::time::timeout(Duration::from_millis(10), listener.accept()).await;
    assert!(came.is_err(), "a connection was made");
}

/// A proxy that makes tunnels, and remembers what it was asked for and every byte it could read.
async fn proxy() -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            tokio::spawn(tunnel(client, Arc::clone(&notes)));
        }
    });
    (url, seen)
}

async fn tunnel(mut client: TcpStream, seen: Arc<Mutex<Vec<u8>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    let target = String::from_utf8(head.clone()).unwrap().split(' ').nth(1).unwrap().to_owned();
    seen.lock().unwrap().extend_from_slice(&head);
    let mut host = TcpStream::connect(target).await.unwrap();
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    let (mut from_client, mut to_client) = client.split();
    let (mut from_host, mut to_host) = host.split();
    let back = tokio::io::copy(&mut from_host, &mut to_client);
    let forth = async {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = from_client.read(&mut bytes).await {
            seen.lock().unwrap().extend_from_slice(&bytes[..read]);
            to_host.write_all(&bytes[..read]).await.unwrap();
        }
    };
    tokio::select! { _ = back => {}, () = forth => {} }
}

/// The variable that makes this test ask, in a process of its own: an environment belongs to a process.
const ASK: &str = "EVERTURN_TEST_ASK";

fn child(url: &str, set: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "http::tests::elsewhere::the_environment_names_a_proxy_and_whom_to_trust", "--nocapture"]);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.env(ASK, url).envs(set.iter().copied());
    command
}

/// Asks as the program would, and says what came of it.
async fn ask_as_usual(url: &str) {
    let endpoint = Endpoint::at("openai", url).unwrap().plain();
    let endpoint = endpoint.with_key(SecretString::from(KEY.to_owned()), Auth::Bearer).unwrap();
    let http = Http::new(&Limits::default());
    match http.stream(&endpoint, HttpCall::post("/v1/ask", json!({"q": 1})), Texts).await {
        Ok(frames) => println!("{:?}", all(frames).await),
        Err(error) => println!("refused: {}", error.detail),
    }
}

async fn said(command: Command) -> String {
    let mut command = command;
    let Output { stdout, stderr, status } =
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// P9: the usual variables are honoured, an exception from them too; a tunnel is all a proxy is asked for, and it sees
/// no key. The certificates to trust are those the machine has, or the file it names.
#[tokio::test]
async fn the_environment_names_a_proxy_and_whom_to_trust() {
    if let Ok(url) = std::env::var(ASK) {
        return ask_as_usual(&url).await;
    }
    let authority = Authority::new("ours");
    let endpoint = server(authority.server("127.0.0.1", Speaks::Http1), |socket| {
        answer_plainly(socket, format!("{STREAM}content-length: 12\r\n\r\ndata: stop\n\n"))
    })
    .await;
    let (url, host) = (format!("https://{}", endpoint.host()), endpoint.host());
    let root = std::env::temp_dir().join(format!("everturn-{}.pem", std::process::id()));
    std::fs::write(&root, authority.root.pem()).unwrap();
    let trusted = ("SSL_CERT_FILE", root.to_str().unwrap());
    let (proxy, seen) = proxy().await;

    let through = said(child(&url, &[trusted, ("HTTPS_PROXY", &proxy)])).await;
    assert!(through.contains("[Ok(Stop(End))]"), "{through}");
    let seen_then = std::mem::take(&mut *seen.lock().unwrap());
    assert!(seen_then.starts_with(format!("CONNECT {host} HTTP/1.1\r\n").as_bytes()));
    assert!(memchr::memmem::find(&seen_then, KEY.as_bytes()).is_none(), "the proxy saw the key");

    let past = said(child(&url, &[trusted, ("HTTPS_PROXY", &proxy), ("NO_PROXY", "127.0.0.1")])).await;
    assert!(past.contains("[Ok(Stop(End))]"), "{past}");
    assert!(seen.lock().unwrap().is_empty(), "past the proxy");

    let untrusted = said(child(&url, &[])).await;
    assert!(untrusted.contains(&format!("refused: no secure connection to {host}: ")), "{untrusted}");
    std::fs::remove_file(root).unwrap();
}

/// A proxy would read the key on its way to a host of plain http. So such a host is asked directly, whatever the
/// variables say.
#[tokio::test]
async fn a_host_of_plain_http_is_asked_past_the_proxy() {
    let (proxy, seen) = proxy().await;
    let proxies = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"].map(|name| (name, &*proxy));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        answer_plainly(socket, format!("{STREAM}content-length: 12\r\n\r\ndata: stop\n\n")).await;
    });
    let said = said(child(&url, &proxies)).await;
    assert!(said.contains("[Ok(Stop(End))]"), "{said}");
    assert_eq!(*seen.lock().unwrap(), b"", "the proxy was asked");
}
