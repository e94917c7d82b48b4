//! Where the chats are: a directory, or a database.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use everturn::core::ids::ChatId;
use everturn::stores::{Postgres, Sqlite, Store, postgres, sqlite};
use everturn_props::shared::psql;

/// Where the chats are. Written as text, to be handed to another process.
#[derive(Debug, Clone)]
pub enum Place {
    /// SQLite in this directory.
    Directory(PathBuf),
    /// Postgres at this address.
    Database(String),
}

/// How long other processes wait for a silent one: short, because these die all the time.
pub const LEASE_MAX: Duration = Duration::from_millis(800);
/// How long one is sure of itself that does not notice.
const SURE_MAX: Duration = Duration::from_secs(4 * 60 * 60);

impl Place {
    /// Opens it, also after a process was killed there.
    pub async fn open(&self) -> Arc<dyn Store> {
        self.open_for(LEASE_MAX).await
    }

    /// Opens it with a lease that the process itself trusts for a long time without renewing it.
    pub async fn open_sure(&self) -> Arc<dyn Store> {
        self.open_for(SURE_MAX).await
    }

    async fn open_for(&self, lease_max: Duration) -> Arc<dyn Store> {
        // An answer is in pieces for a moment only, so that they die while it is put together, too.
        let short = sqlite::SqliteOptions { appends_len_max: 8, ..sqlite::SqliteOptions::default() };
        match self {
            Self::Directory(path) => Arc::new(Sqlite::open(path, &short).unwrap()),
            Self::Database(url) => {
                let heartbeat = lease_max / 4;
                let options = postgres::PostgresOptions {
                    lease_max,
                    heartbeat,
                    file_len_min: 8,
                    ..postgres::PostgresOptions::default()
                };
                Arc::new(Postgres::open(url, options).await.unwrap())
            }
        }
    }
}

/// Query for inconsistent rows in Postgres, one line each. Messages, commands and attempts have no gaps, applied commands
/// have an outcome, commits are in order, and no row lacks its chat.
const TROUBLES: &str = "
    SELECT 'messages of ' || c.no FROM chats c, LATERAL (
        SELECT count(*) AS len, coalesce(max(id), 0) AS newest, coalesce(max(version), 0) AS version
        FROM messages WHERE chat = c.id
    ) m WHERE len <> newest OR m.version > c.version
    UNION ALL SELECT 'the order of messages in ' || c.no FROM chats c WHERE EXISTS (
        SELECT 1 FROM (SELECT version, lag(version) OVER (ORDER BY id) AS before FROM messages WHERE chat = c.id) m
        WHERE version < before)
    UNION ALL SELECT 'the inbox of ' || c.no FROM chats c, LATERAL (
        SELECT count(*) AS len, coalesce(max(seq), 0) AS newest,
            count(*) FILTER (WHERE (outcome IS NULL) = (seq <= c.obeyed)) AS wrong
        FROM inbox WHERE chat = c.id
    ) i WHERE len <> newest OR newest <> c.submitted OR wrong > 0 OR c.obeyed > c.submitted
    UNION ALL SELECT 'attempts of ' || c.no FROM chats c, LATERAL (
        SELECT count(*) AS len, coalesce(max(number) - min(number) + 1, 0) AS span FROM attempts WHERE chat = c.id
    ) a WHERE len <> span
    UNION ALL SELECT 'a draft of nobody, ' || no FROM drafts WHERE no NOT IN (SELECT no FROM chats)
    UNION ALL SELECT 'a draft of the future, ' || no FROM drafts JOIN chats USING (no) WHERE drafts.step > chats.step
    UNION ALL SELECT 'a batch of nobody, ' || batch FROM tail WHERE NOT nos <@ (SELECT array_agg(no) FROM chats)
    UNION ALL SELECT 'words of no message, ' || id FROM spoken s WHERE NOT EXISTS (
        SELECT 1 FROM messages WHERE chat = s.chat AND id = s.id)";

/// Reads every row of Postgres, table by table, except those of workers and leases.
const ROWS: &str = "
    SELECT string_agg(format(
        'SELECT %L, count(*), md5(string_agg(r::text, chr(10) ORDER BY r::text)) FROM (SELECT %s AS r FROM %I t) s',
        tablename, CASE tablename WHEN 'chats' THEN 'to_jsonb(t) - ''fence'' - ''worker''' ELSE 't' END, tablename
    ), ' UNION ALL ' ORDER BY tablename)
    FROM pg_tables WHERE schemaname = current_schema() AND tablename <> 'workers'";

impl Place {
    /// Everything wrong with what is stored, looked for everywhere.
    pub fn troubles(&self, chats: &[ChatId]) -> Vec<String> {
        match self {
            Self::Directory(path) => {
                let mut inspection = sqlite::SqliteInspection::open(path).unwrap();
                let mut found = inspection.damage(|| ()).unwrap();
                let of_chats = chats.iter().flat_map(|chat| inspection.defects(*chat).unwrap());
                let all = of_chats.chain(inspection.orphans().unwrap()).filter(|trouble| !trouble.is_harmless());
                found.extend(all.map(|trouble| trouble.to_string()));
                found
            }
            Self::Database(url) => psql(url, TROUBLES).unwrap().lines().map(Into::into).collect(),
        }
    }

    /// Marks every worker as gone, so that the next process need not wait until the last lease expires.
    pub fn bury(&self) {
        if let Self::Database(url) = self {
            psql(url, "DELETE FROM workers").unwrap();
        }
    }

    /// Waits until every lease that was not renewed has expired, and returns how many chats are held.
    pub fn held_for_long(&self) -> usize {
        let Self::Database(url) = self else { panic!("asked of Postgres alone") };
        let since = psql(url, "SELECT clock_timestamp()").unwrap();
        let is_long =
            format!("SELECT clock_timestamp() > timestamptz '{}' + 2 * max(lasts) FROM workers", since.trim());
        while psql(url, &is_long).unwrap().trim() != "t" {}
        let held =
            "SELECT count(*) FROM chats JOIN workers ON workers.id = worker WHERE clock_timestamp() <= seen + lasts";
        psql(url, held).unwrap().trim().parse().unwrap()
    }

    /// A number for all rows of each table.
    pub fn rows(&self) -> String {
        let Self::Database(url) = self else { panic!("asked of Postgres alone") };
        psql(url, psql(url, ROWS).unwrap().trim()).unwrap()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "{}", path.display()),
            Self::Database(url) => write!(f, "{url}"),
        }
    }
}

impl FromStr for Place {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text.starts_with("postgres://") { Self::Database(text.into()) } else { Self::Directory(text.into()) })
    }
}
