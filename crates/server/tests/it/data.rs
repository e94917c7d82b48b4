//! The data directory is private to its owner.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use everturn::core::ids::Timestamp;
use everturn::stores::{Memory, Scopes, TokenHash, Tokens as _};
use everturn_server::{DataDir, DataError, FirstToken};

/// A directory of its own, deleted when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("everturn-server-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // Best effort: the system cleans its temporary directory.
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The first start creates a private directory and token; the next start finds them.
#[tokio::test]
async fn the_first_start_makes_a_token_that_stays() {
    let (scratch, memory) = (Scratch::new(), Memory::new());
    let data = DataDir::open(&scratch.0.join("a/b")).unwrap();
    assert_eq!(mode(data.path()), 0o700);
    assert_eq!(data.read_token().unwrap(), None);
    data.first_token(&memory, Timestamp(1)).await.unwrap();
    assert_eq!(mode(&data.token_file()), 0o600);
    let secret = data.read_token().unwrap().unwrap();
    let token = memory.find(&TokenHash::of(&secret)).await.unwrap().unwrap();
    assert_eq!((token.scopes, token.owner.as_str()), (Scopes::all(), "local"));
    data.first_token(&memory, Timestamp(2)).await.unwrap();
    assert_eq!(data.read_token().unwrap().unwrap(), secret);
    assert_eq!(memory.list().await.unwrap().len(), 1);
    memory.revoke(&token.hash, Timestamp(3)).await.unwrap();
    assert_eq!(
        data.first_token(&memory, Timestamp(4)).await.unwrap(),
        FirstToken::Old,
        "the server starts all the same"
    );
    assert!(!memory.find(&token.hash).await.unwrap().unwrap().is_good(Timestamp(4)), "and it stays revoked");
    std::fs::remove_file(data.token_file()).unwrap();
    assert_eq!(data.first_token(&memory, Timestamp(5)).await.unwrap(), FirstToken::Good);
    assert_ne!(data.read_token().unwrap().unwrap(), secret);
}

/// A directory or token file that other users can read is refused.
#[tokio::test]
async fn readable_by_others_is_refused() {
    let (scratch, memory) = (Scratch::new(), Memory::new());
    let data = DataDir::open(&scratch.0).unwrap();
    data.first_token(&memory, Timestamp(1)).await.unwrap();
    for open in [0o755, 0o770, 0o701] {
        std::fs::set_permissions(&scratch.0, Permissions::from_mode(open)).unwrap();
        assert!(matches!(DataDir::open(&scratch.0), Err(DataError::Open(_))), "{open:o}");
    }
    std::fs::set_permissions(&scratch.0, Permissions::from_mode(0o700)).unwrap();
    std::fs::set_permissions(data.token_file(), Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(data.read_token(), Err(DataError::Open(_))));
    std::fs::set_permissions(data.token_file(), Permissions::from_mode(0o600)).unwrap();
    std::fs::write(data.token_file(), "short\n").unwrap();
    assert!(matches!(data.first_token(&memory, Timestamp(2)).await, Err(DataError::NoToken(_))));
}

/// A directory of another user is refused, even by root: that user could put a token with all scopes there.
#[test]
fn a_directory_of_another_user_is_refused() {
    let (scratch, somebody) = (Scratch::new(), 65_534);
    DataDir::open(&scratch.0).unwrap();
    if std::os::unix::fs::chown(&scratch.0, Some(somebody), None).is_err() {
        return; // Only root can change the owner, so only root can run this.
    }
    assert!(matches!(DataDir::open(&scratch.0), Err(DataError::Foreign(_, uid)) if uid == somebody));
}

#[test]
fn the_usual_place_is_where_xdg_says() {
    let usual = |set: &[(&str, &str)]| {
        DataDir::usual(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    };
    assert_eq!(usual(&[("HOME", "/h")]).unwrap(), Path::new("/h/.local/share/everturn"));
    assert_eq!(usual(&[("HOME", "/h"), ("XDG_DATA_HOME", "/x")]).unwrap(), Path::new("/x/everturn"));
    assert_eq!(usual(&[("HOME", "/h"), ("XDG_DATA_HOME", "relative")]).unwrap(), Path::new("/h/.local/share/everturn"));
    assert!(matches!(usual(&[]), Err(DataError::Nowhere)));
}
