//! A daemon that listens elsewhere than most, and the commands that find it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair};
use reqwest::{Certificate, Client, StatusCode};

use crate::daemon::{Daemon, Scratch, everturn};
use crate::operations::is_all_json;

/// Writes a certificate for this machine and its key, and gives back what has to be trusted.
fn certify(dir: &Path) -> (PathBuf, PathBuf, Certificate) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let (certificate_file, key_file) = (dir.join("cert.pem"), dir.join("key.pem"));
    std::fs::write(&certificate_file, certificate.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    (certificate_file, key_file, Certificate::from_der(certificate.der()).unwrap())
}

async fn start(data: &Scratch, arguments: &[&str]) -> Daemon {
    let mut command = everturn(&["serve", "--model", "understudy/numbered", "--data"]);
    command.arg(data.path()).args(arguments);
    Daemon::spawn(data.path(), command).await
}

/// Commands of this machine find the daemon by its directory, and talk to it.
async fn commands_work(data: &Scratch, more: &[&str]) {
    let path = data.path().to_str().unwrap();
    let ran = everturn(&["run", "--data", path, "count to 3"]).output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "t1 t2 t3\n", "{}", String::from_utf8_lossy(&ran.stderr));
    let by_data = ["--data", path];
    let mut listed = everturn(&["chats"]);
    listed.args(if more.is_empty() { &by_data } else { more });
    let token = std::fs::read_to_string(data.path().join("token")).unwrap();
    let listed = listed.env("EVERTURN_TOKEN", token.trim()).output().await.unwrap();
    assert!(
        String::from_utf8_lossy(&listed.stdout).contains("count to 3"),
        "{}",
        String::from_utf8_lossy(&listed.stderr)
    );
}

/// S1: with TLS the daemon is reached by its name, commands by a port of their own, and SIGHUP reads a new
/// certificate.
#[tokio::test]
async fn a_daemon_with_tls_serves_commands_too() {
    let (data, files) = (Scratch::new(), Scratch::new());
    std::fs::create_dir_all(files.path()).unwrap();
    let (certificate, key, root) = certify(files.path());
    let tls = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let daemon = start(&data, &[&["--listen", "0.0.0.0:0", "--expose"], &tls[..]].concat()).await;
    assert!(daemon.base.starts_with("https://0.0.0.0:"), "{}", daemon.base);
    assert!(daemon.banner[1].contains("http://127.0.0.1:"), "{:?}", daemon.banner);
    commands_work(&data, &[]).await;
    let url = format!("{}/v1/chats", daemon.base.replace("0.0.0.0", "localhost"));
    let ask = async |root: &Certificate| {
        let client = Client::builder().no_proxy().tls_certs_only([root.clone()]).build().unwrap();
        client.get(&url).bearer_auth(&daemon.token).send().await.map(|response| response.status())
    };
    assert_eq!(ask(&root).await.unwrap(), StatusCode::OK);
    let (_, _, next) = certify(files.path());
    daemon.signal("HUP").await;
    while ask(&next).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert!(ask(&root).await.is_err());
    daemon.end().await;
}

/// S1: a socket in the file system is all that commands need.
#[tokio::test]
async fn a_daemon_on_a_socket_serves_commands_too() {
    let data = Scratch::new();
    let socket = format!("unix:{}", data.path().join("socket").display());
    let daemon = start(&data, &["--listen", &socket]).await;
    assert_eq!(daemon.base, socket);
    commands_work(&data, &[]).await;
    commands_work(&data, &["--url", &socket]).await;
    daemon.end().await;
    assert!(!data.path().join("socket").exists());
}

/// Also behind a proxy, requests from this machine are answered directly.
#[tokio::test]
async fn a_daemon_behind_a_proxy_serves_commands_too() {
    let data = Scratch::new();
    let daemon = start(&data, &["--listen", "0.0.0.0:0", "--expose", "--proxy", "192.0.2.1"]).await;
    commands_work(&data, &[]).await;
    daemon.end().await;
}

/// What is allowed and most likely not meant is warned about at the start: a proxy that is everybody, a
/// certificate that has expired, a key that everybody can read.
#[tokio::test]
async fn what_is_most_likely_not_meant_is_warned_about() {
    let data = Scratch::new();
    let daemon = start(&data, &["--listen", "0.0.0.0:0", "--expose", "--proxy", "0.0.0.0/0"]).await;
    let logged = daemon.end().await;
    assert!(logged.contains("--proxy 0.0.0.0/0 trusts every address") && is_all_json(&logged), "{logged}");
    let (data, files) = (Scratch::new(), Scratch::new());
    std::fs::create_dir_all(files.path()).unwrap();
    let (certificate, key) = (files.path().join("it.pem"), files.path().join("it.key"));
    let pair = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    std::fs::write(&certificate, params.self_signed(&pair).unwrap().pem()).unwrap();
    std::fs::write(&key, pair.serialize_pem()).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let files = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let daemon = start(&data, &[&["--listen", "0.0.0.0:0", "--expose"][..], &files].concat()).await;
    let logged = daemon.end().await;
    for said in ["it.pem expired on 2020-01-01T00:00:00Z", "it.key can be read by every user"] {
        assert!(logged.contains(said), "{logged}");
    }
}

/// S1: over a network the token travels encrypted, or to a host that is trusted by name.
#[tokio::test]
async fn the_token_does_not_travel_unencrypted() {
    let ran = async |arguments: &[&str], url: &str| {
        let mut command = everturn(arguments);
        let output = command.env("EVERTURN_TOKEN", "evt_secret").env("EVERTURN_URL", url).output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let said = "the token would travel unencrypted: use https, or list 192.0.2.1:4140 in EVERTURN_PLAIN_HOSTS";
    for (arguments, url) in [
        (vec!["chats"], "http://192.0.2.1:4140"),
        (vec!["chats", "--url", "http://me:word@192.0.2.1:4140/"], "http://127.0.0.1:9"),
        (vec!["run", "hello"], "http://192.0.2.1:4140"),
    ] {
        let (code, error) = ran(&arguments, url).await;
        assert!(code == Some(1) && error.contains(said) && !error.contains("word"), "{error}");
    }
}

/// A daemon elsewhere has instructions of its own, however it was named.
#[tokio::test]
async fn a_daemon_elsewhere_is_not_given_other_instructions() {
    let mut command = everturn(&["run", "--system", "Be brief.", "hello"]);
    command.env("EVERTURN_TOKEN", "evt_secret").env("EVERTURN_URL", "http://127.0.0.1:9");
    let output = command.output().await.unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && error.contains("has its own --system"), "{error}");
}
