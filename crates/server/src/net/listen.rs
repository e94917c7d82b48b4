//! Listeners: a TCP port, or a Unix socket.

use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixSocket, UnixStream};

use crate::net::tls::Tls;

/// Prefix of a Unix socket's path.
const UNIX: &str = "unix:";

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address and a port; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A Unix socket that only its owner can use.
    Unix(PathBuf),
}

/// A text that is not a listen address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither an address with a port, such as 127.0.0.1:4140, nor unix: and a path")]
pub struct BadListenAddress(String);

impl FromStr for ListenAddress {
    type Err = BadListenAddress;

    fn from_str(text: &str) -> std::result::Result<Self, BadListenAddress> {
        let no = || BadListenAddress(text.into());
        match text.strip_prefix(UNIX) {
            Some(path) if path.is_empty() || path.contains('\n') => Err(no()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| no()),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// A listener's address, and its TLS configuration.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// Where to listen.
    pub at: ListenAddress,
    /// The certificate, if this server does TLS itself.
    pub tls: Option<Arc<Tls>>,
}

impl ListenerConfig {
    /// A listener without TLS.
    #[must_use]
    pub const fn plain(at: ListenAddress) -> Self {
        Self { at, tls: None }
    }

    /// The URL for a client on this machine.
    #[must_use]
    pub fn url(&self) -> String {
        match (&self.at, &self.tls) {
            (ListenAddress::Unix(_), _) => self.at.to_string(),
            (ListenAddress::Tcp(address), None) => format!("http://{}", reachable(*address)),
            (ListenAddress::Tcp(address), Some(_)) => format!("https://{}", reachable(*address)),
        }
    }

    /// Whether only clients on this machine can reach it.
    #[must_use]
    pub const fn is_loopback(&self) -> bool {
        match &self.at {
            ListenAddress::Unix(_) => true,
            ListenAddress::Tcp(address) => address.ip().is_loopback(),
        }
    }

    /// Whether a client on this machine can use it as it is: over loopback, and without a certificate to trust.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        match (&self.at, &self.tls) {
            (ListenAddress::Unix(_), _) => true,
            (ListenAddress::Tcp(address), None) => address.ip().is_loopback() || address.ip().is_unspecified(),
            (ListenAddress::Tcp(_), Some(_)) => false,
        }
    }
}

/// An address that a local client can connect to: loopback for a server that listens on all addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The listen backlog. After a restart all clients reconnect at once, and a client that finds the backlog full tries again
/// a second later. The usual backlog is 128; the system may limit it further.
const WAITING_LEN_MAX: u32 = 4_096;

/// A bound listener.
pub(crate) enum BoundListener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _file: SocketFile },
}

/// An accepted connection.
pub(crate) enum NewConnection {
    Tcp(TcpStream, IpAddr),
    Unix(UnixStream),
}

impl BoundListener {
    /// Binds the listener, and returns it with its actual address.
    pub(crate) async fn bind(at: &ListenAddress) -> Result<(Self, ListenAddress)> {
        match at {
            ListenAddress::Tcp(address) => {
                let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
                socket.set_reuseaddr(true)?; // Or a restart would wait for old connections in TIME_WAIT.
                socket.bind(*address)?;
                let listener = socket.listen(WAITING_LEN_MAX)?;
                let address = listener.local_addr()?;
                Ok((Self::Tcp(listener), ListenAddress::Tcp(address)))
            }
            ListenAddress::Unix(path) => {
                let path = std::path::absolute(path)?;
                make_room(&path).await?;
                let socket = UnixSocket::new_stream()?;
                socket.bind(&path)?;
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
                let listener = socket.listen(WAITING_LEN_MAX)?;
                let file = SocketFile::new(&path)?;
                Ok((Self::Unix { listener, _file: file }, ListenAddress::Unix(path)))
            }
        }
    }

    pub(crate) async fn accept(&self) -> Result<NewConnection> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, from)| {
                let _ = stream.set_nodelay(true); // Without it, writes are only slower.
                NewConnection::Tcp(stream, from.ip().to_canonical())
            }),
            Self::Unix { listener, .. } => listener.accept().await.map(|(stream, _)| NewConnection::Unix(stream)),
        }
    }
}

/// Removes a socket file without a listening process, and nothing else.
async fn make_room(path: &Path) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(about) if !about.file_type().is_socket() => {
            return Err(Error::new(ErrorKind::AlreadyExists, "a file that is not a socket is there"));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(Error::new(ErrorKind::AddrInUse, "another process is listening there")),
    }
}

/// The file of a Unix socket, removed when dropped, unless another process has replaced it.
pub(crate) struct SocketFile {
    path: PathBuf,
    id: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path) -> Result<Self> {
        Ok(Self { path: path.into(), id: id(path)? })
    }
}

fn id(path: &Path) -> Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|about| (about.dev(), about.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if id(&self.path).is_ok_and(|id| id == self.id) {
            let _ = std::fs::remove_file(&self.path); // A file that stays is removed by the next listener.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        for text in ["127.0.0.1:4140", "[::1]:0", "unix:/run/everturn.sock", "unix:here"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        for text in ["", "localhost:1", "127.0.0.1", "unix:", "4140"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn clients_on_this_machine_are_given_what_they_can_use() {
        for (at, url, is_local) in [
            ("127.0.0.1:1", "http://127.0.0.1:1", true),
            ("0.0.0.0:1", "http://127.0.0.1:1", true),
            ("[::]:1", "http://[::1]:1", true),
            ("10.1.2.3:1", "http://10.1.2.3:1", false),
            ("unix:/a", "unix:/a", true),
        ] {
            let entrance = ListenerConfig::plain(at.parse().unwrap());
            assert_eq!((entrance.url().as_str(), entrance.is_local()), (url, is_local));
        }
    }

    /// After a restart all clients reconnect at once. The backlog holds them until they are accepted.
    #[tokio::test]
    async fn the_backlog_holds_a_crowd() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &Path| format!("unix:{}", path.join("socket").display());
        for at in ["127.0.0.1:0", &at(dir.path())] {
            let (_listener, at) = BoundListener::bind(&at.parse().unwrap()).await.unwrap();
            let mut waiting = Vec::new();
            for number in 0..300 {
                let come = async {
                    match &at {
                        ListenAddress::Tcp(address) => {
                            TcpStream::connect(address).await.map(|stream| NewConnection::Tcp(stream, address.ip()))
                        }
                        ListenAddress::Unix(path) => UnixStream::connect(path).await.map(NewConnection::Unix),
                    }
                };
                let came = tokio::time::timeout(std::time::Duration::from_secs(30), come).await;
                waiting.push(came.unwrap_or_else(|_| panic!("{number} found no room at {at}")).unwrap());
            }
        }
    }

    /// A socket is its owner's alone, one that was left is replaced, and one that is used, or no socket, is not.
    #[tokio::test]
    async fn only_a_socket_that_was_left_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let at = ListenAddress::Unix(path.clone());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "it was left");
        let (listener, bound) = BoundListener::bind(&at).await.unwrap();
        assert_eq!(bound, at);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = BoundListener::bind(&at).await.err().unwrap();
        assert_eq!(again.kind(), ErrorKind::AddrInUse);
        drop(listener);
        assert!(!path.exists(), "it is taken away");
        std::fs::write(&path, "a letter").unwrap();
        let letter = BoundListener::bind(&at).await.err().unwrap();
        assert_eq!(letter.kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a letter");
        std::fs::remove_file(&path).unwrap();
        let (first, _) = BoundListener::bind(&at).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        let (_second, _) = BoundListener::bind(&at).await.unwrap();
        drop(first);
        assert!(path.exists(), "it is the second's");
    }
}
