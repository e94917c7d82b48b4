//! Recordings of requests to providers, in files.
//!
//! They show what really went over the wire, of all chats or of those in debug mode. One file per exchange
//! and one directory per chat, below `recordings` in the data directory; the newest are kept. They hold
//! messages but no keys. Chats in Postgres have a directory per database: only that database knows which of
//! them were deleted.

use std::fmt;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use everturn::core::ids::ChatId;
use everturn::providers::record::{Exchange, Of, Recorder};
use serde::{Deserialize, Serialize};

/// Files kept per chat.
const FILES_MAX: usize = 32;
/// Chats with recordings.
const CHATS_MAX: usize = 100;

/// Which exchanges are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Record {
    /// None.
    Off,
    /// Failed exchanges.
    Errors,
    /// Every exchange.
    All,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Errors => "errors",
            Self::All => "all",
        })
    }
}

impl FromStr for Record {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self::Off),
            "errors" => Ok(Self::Errors),
            "all" => Ok(Self::All),
            _ => Err("expected off, errors or all"),
        }
    }
}

/// The store whose chats are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// The data directory.
    Ours,
    /// A database, with its name, if that is known.
    Elsewhere(Option<String>),
}

/// Writes recordings.
pub struct Files {
    dir: PathBuf,
    record: Record,
    /// Whether the directory belongs to one store.
    is_of_one: bool,
    /// Serialises writes: files are numbered, and old ones deleted.
    writing: Mutex<()>,
}

/// The content of a file.
#[derive(Serialize)]
struct Sheet<'a> {
    provider: &'a str,
    host: &'a str,
    method: &'a str,
    path: &'a str,
    request_headers: &'a [(String, String)],
    request_body: Body<'a>,
    status: Option<u16>,
    response_headers: &'a [(String, String)],
    response_body: &'a str,
    is_cut: bool,
    error: Option<&'a str>,
}

/// A body: JSON as it is, anything else as text.
#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Json(serde_json::Value),
    Text(&'a str),
}

impl Files {
    /// A recorder with files below `recordings` in the data directory.
    pub fn new(data: &Path, record: Record, whose: &Whose) -> Self {
        let (all, is_of_one) = (data.join("recordings"), *whose != Whose::Elsewhere(None));
        let dir = match whose {
            Whose::Ours => all,
            Whose::Elsewhere(name) => all.join(format!("of-{}", name.as_deref().unwrap_or("elsewhere"))),
        };
        Self { dir, record, is_of_one, writing: Mutex::new(()) }
    }

    /// The directories of chats, the oldest first.
    fn chats(&self) -> std::io::Result<Vec<(PathBuf, ChatId)>> {
        let chat = |dir: PathBuf| dir.file_name()?.to_str()?.parse().ok().map(|chat| (dir, chat));
        Ok(sorted(&self.dir)?.into_iter().filter_map(chat).collect())
    }

    fn write(&self, chat: ChatId, exchange: &Exchange) -> std::io::Result<()> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = self.dir.join(chat.to_string());
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        let names = sorted(&dir)?;
        let newest = names.last().and_then(|name| name.file_stem()?.to_str()?.parse::<u64>().ok()).unwrap_or(0);
        for old in names.iter().take((names.len() + 1).saturating_sub(FILES_MAX)) {
            std::fs::remove_file(old)?;
        }
        let path = dir.join(format!("{:08}.json", newest + 1));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&sheet(exchange))?;
        let chats = self.chats()?;
        for (old, _) in chats.iter().filter(|(old, _)| *old != dir).take(chats.len().saturating_sub(CHATS_MAX)) {
            std::fs::remove_dir_all(old)?;
        }
        Ok(())
    }
}

/// Entries of a directory, sorted by name. Names of chats sort by age, the oldest first.
fn sorted(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut names = std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn sheet(exchange: &Exchange) -> Vec<u8> {
    let text = &exchange.request_body;
    let sheet = Sheet {
        provider: &exchange.provider,
        host: &exchange.host,
        method: &exchange.method,
        path: &exchange.path,
        request_headers: &exchange.request_headers,
        request_body: serde_json::from_str(text).map_or(Body::Text(text), Body::Json),
        status: exchange.status,
        response_headers: &exchange.response_headers,
        response_body: &exchange.response_body,
        is_cut: exchange.is_cut,
        error: exchange.error.as_deref(),
    };
    serde_json::to_vec_pretty(&sheet).unwrap_or_default()
}

impl Recorder for Files {
    fn record(&self, Of { chat, debug }: Of, exchange: Exchange) {
        let is_wanted = match self.record {
            Record::Off => false,
            Record::Errors => exchange.error.is_some(),
            Record::All => true,
        };
        if !is_wanted && !debug {
            return;
        }
        if let Err(error) = self.write(chat, &exchange) {
            tracing::warn!(%chat, %error, "recording of a provider request could not be written");
        }
    }

    fn forget(&self, chat: ChatId) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        match std::fs::remove_dir_all(self.dir.join(chat.to_string())) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(%chat, %error, "recordings of a deleted chat could not be removed");
            }
            Ok(()) | Err(_) => {}
        }
    }

    fn kept(&self) -> Vec<ChatId> {
        let chats = if self.is_of_one { self.chats() } else { Ok(Vec::new()) };
        chats.unwrap_or_default().into_iter().map(|(_, chat)| chat).collect() // The directory may not exist.
    }

    fn is_on(&self, of: Of) -> bool {
        of.debug || self.record != Record::Off
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const fn usual(chat: ChatId) -> Of {
        Of { chat, debug: false }
    }

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("everturn-record-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir); // Left by an earlier run.
        dir
    }

    /// The newest files of a chat are kept, each private to the user; above the limit the oldest chat is
    /// removed.
    #[test]
    fn the_newest_are_kept() {
        let dir = scratch("newest");
        let files = Files::new(&dir, Record::All, &Whose::Ours);
        let chat = |number| ChatId::from_u128(number);
        for _ in 0..FILES_MAX + 5 {
            files.record(usual(chat(CHATS_MAX as u128 + 9)), Exchange::default());
        }
        let of = |number: u128| sorted(&dir.join("recordings").join(chat(number).to_string())).unwrap();
        let kept = of(CHATS_MAX as u128 + 9);
        assert_eq!((kept.len(), kept[0].file_name().unwrap().to_str()), (FILES_MAX, Some("00000006.json")));
        assert_eq!(std::fs::metadata(&kept[0]).unwrap().permissions().mode() & 0o777, 0o600);
        for number in 0..CHATS_MAX as u128 + 3 {
            files.record(usual(chat(number)), Exchange::default());
        }
        assert_eq!(sorted(&dir.join("recordings")).unwrap().len(), CHATS_MAX);
        assert!(!dir.join("recordings").join(chat(0).to_string()).exists());
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// Recordings of a deleted chat are removed, and no others; also while recording is off.
    #[test]
    fn recordings_are_deleted_with_their_chat() {
        let (dir, [one, two]) = (scratch("gone"), [1, 2].map(ChatId::from_u128));
        let files = Files::new(&dir, Record::All, &Whose::Ours);
        for chat in [one, one, two] {
            files.record(usual(chat), Exchange::default());
        }
        let off = Files::new(&dir, Record::Off, &Whose::Ours);
        assert_eq!((off.kept(), off.is_on(usual(one))), (vec![one, two], false));
        off.forget(one);
        off.forget(one);
        assert_eq!(files.kept(), [two]);
        std::fs::remove_dir_all(dir).unwrap();
        assert_eq!(files.kept(), []);
    }

    /// Directories of other stores do not count as chats and are not deleted.
    #[test]
    fn stores_keep_out_of_each_others_way() {
        let (dir, chat) = (scratch("stores"), ChatId::from_u128(7));
        let whose = [Whose::Ours, Whose::Elsewhere(Some("a-1".into())), Whose::Elsewhere(Some("a-2".into()))];
        let stores = whose.each_ref().map(|whose| Files::new(&dir, Record::All, whose));
        for number in 0..=CHATS_MAX as u128 {
            stores.iter().for_each(|files| files.record(usual(ChatId::from_u128(number)), Exchange::default()));
        }
        assert_eq!(stores.each_ref().map(|files| files.kept().len()), [CHATS_MAX; 3]);
        stores[1].forget(chat);
        assert_eq!(stores.each_ref().map(|files| files.kept().contains(&chat)), [true, false, true]);
        // A database without a known name may be any.
        let nameless = Files::new(&dir, Record::All, &Whose::Elsewhere(None));
        nameless.record(usual(chat), Exchange::default());
        assert_eq!(nameless.kept(), []);
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// Every exchange of a chat in debug mode is recorded, and of other chats what the configuration says.
    #[test]
    fn a_chat_in_debug_mode_is_recorded() {
        let (dir, [one, two]) = (scratch("debug"), [1, 2].map(ChatId::from_u128));
        let files = Files::new(&dir, Record::Off, &Whose::Ours);
        for of in [Of { chat: one, debug: true }, usual(two)] {
            assert_eq!(files.is_on(of), of.debug);
            files.record(of, Exchange::default());
        }
        assert_eq!(files.kept(), [one]);
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// With `errors`, successful exchanges are not recorded.
    #[test]
    fn a_successful_exchange_is_not_recorded_as_an_error() {
        let dir = scratch("errors");
        let files = Files::new(&dir, Record::Errors, &Whose::Ours);
        files.record(usual(ChatId::from_u128(1)), Exchange::default());
        assert!(!dir.exists());
        files.record(usual(ChatId::from_u128(1)), Exchange { error: Some("timeout".into()), ..Exchange::default() });
        assert!(dir.join("recordings").exists());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
