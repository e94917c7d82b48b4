//! Checks and repairs a whole store.

use std::fs::Permissions;
use std::io::{IsTerminal as _, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use everturn::core::ids::ChatId;
use everturn::stores::StoreError;
use everturn::stores::sqlite::SqliteInspection;

use super::chat::{examined, mend};
use super::{Doctor, Health, count};
use crate::offline_store::OfflineStore;
use crate::output;
use crate::terminal::visible;

/// Flaws per chat that are named in the report.
const NAMED_LEN_MAX: usize = 3;

/// Checks the directory, the database and every chat, and repairs them with `--fix`.
pub(super) async fn check(doctor: &Doctor, out: &mut impl Write) -> anyhow::Result<Health> {
    let mut kept = doctor.place.look().await?;
    let mut health = match &mut kept {
        OfflineStore::Ours(inspection) => {
            let dir = doctor.place.dir()?;
            writeln!(out, "data directory {}", dir.display())?;
            privacy(doctor, &dir, out)?.and(file(inspection, out)?)
        }
        OfflineStore::Shared(_) => {
            writeln!(out, "the database in DATABASE_URL")?;
            Health::Good
        }
    };
    let chats = kept.chats().await?;
    let (mut messages, mut flawed, mut progress) = (0, Vec::new(), Progress::new(chats.len()));
    for chat in &chats {
        progress.step();
        match look(&kept, *chat, out).await? {
            (len, Found::Good) => messages += len,
            (len, Found::Flaws) => {
                messages += len;
                flawed.push(*chat);
            }
            (len, Found::Beyond) => {
                messages += len;
                health = Health::Bad;
            }
        }
    }
    progress.end();
    let (chats, messages) = (count(chats.len(), "chat", "chats"), count(messages, "message", "messages"));
    let sick = count(flawed.len(), "has", "have");
    if flawed.is_empty() {
        writeln!(out, "  {chats}, {messages}: every transcript is in order")?;
        return Ok(health);
    }
    if !doctor.fix {
        writeln!(out, "  {chats}, {messages}: {sick} flaws, which --fix mends")?;
        return Ok(Health::Bad);
    }
    drop(kept);
    let store = doctor.place.write().await?;
    for chat in flawed {
        match mend(&*store, chat).await {
            Ok(_) => writeln!(out, "  chat {chat}: mended")?,
            Err(error) => {
                writeln!(out, "  chat {chat}: not mended: {}", visible::line(&format!("{error:#}"), 200))?;
                health = Health::Bad;
            }
        }
    }
    Ok(health)
}

/// The result of checking one chat.
enum Found {
    Good,
    /// Only flaws that can be repaired.
    Flaws,
    /// Damage that cannot be repaired.
    Beyond,
}

async fn look(kept: &OfflineStore, chat: ChatId, out: &mut impl Write) -> anyhow::Result<(usize, Found)> {
    let mut found = Found::Good;
    if let OfflineStore::Ours(inspection) = kept {
        // One unreadable chat does not stop the check of the others.
        let troubles = match inspection.defects(chat) {
            Ok(troubles) => troubles,
            Err(error) => return unreadable(out, chat, &error),
        };
        for trouble in troubles {
            writeln!(out, "  chat {chat}: {}", visible::line(&trouble.to_string(), 200))?;
            if !trouble.is_harmless() {
                found = Found::Beyond;
            }
        }
    }
    let picture = match kept.picture(chat).await {
        Ok(picture) => picture,
        Err(StoreError::Unreadable(_) | StoreError::Damaged(_)) if matches!(found, Found::Beyond) => {
            return Ok((0, found));
        } // Printed above.
        Err(error) => return unreadable(out, chat, &error),
    };
    let repaired = examined(&picture);
    for finding in repaired.findings.iter().take(NAMED_LEN_MAX) {
        writeln!(out, "  chat {chat}: {}", visible::line(&finding.to_string(), 200))?;
    }
    if let Some(more) = repaired.findings.len().checked_sub(NAMED_LEN_MAX + 1) {
        writeln!(out, "  chat {chat}: and {} more", more + 1)?;
    }
    if !repaired.findings.is_empty() && matches!(found, Found::Good) {
        found = Found::Flaws;
    }
    Ok((picture.transcript.len(), found))
}

fn unreadable(out: &mut impl Write, chat: ChatId, error: &StoreError) -> anyhow::Result<(usize, Found)> {
    writeln!(out, "  chat {chat}: {}", visible::line(&error.to_string(), 200))?;
    Ok((0, Found::Beyond))
}

/// Whether only the owner can use the directory and what is in it.
fn privacy(doctor: &Doctor, dir: &Path, out: &mut impl Write) -> anyhow::Result<Health> {
    let mut open: Vec<PathBuf> = Vec::new();
    let names = ["everturn.db", "everturn.db-wal", "token"].map(|name| dir.join(name));
    let is_open = |path: &Path| std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o077 != 0);
    if is_open(dir) {
        open.push(dir.into());
        // A private directory protects its files.
        open.extend(names.into_iter().filter(|path| is_open(path)));
    }
    if open.is_empty() {
        writeln!(out, "  only its owner can use it")?;
        return Ok(Health::Good);
    }
    for path in &open {
        let mode = std::fs::metadata(path)?.permissions().mode();
        if doctor.fix {
            std::fs::set_permissions(path, Permissions::from_mode(mode & !0o077))?;
            writeln!(out, "  {} was accessible to other users; now it is private", path.display())?;
        } else {
            writeln!(out, "  {} is accessible to other users; --fix makes it private", path.display())?;
        }
    }
    Ok(Health::of(doctor.fix))
}

/// The database as a file.
fn file(inspection: &mut SqliteInspection, out: &mut impl Write) -> anyhow::Result<Health> {
    let (found, known) = inspection.schema()?;
    writeln!(out, "  schema {found}{}", if found < known { ", which the next start brings up to date" } else { "" })?;
    let (mut progress, wipe) = (Progress::new(0), Progress::new(0));
    let damage = inspection.damage(move || progress.step())?;
    wipe.end();
    if damage.is_empty() {
        writeln!(out, "  SQLite finds no damage")?;
    }
    for line in &damage {
        writeln!(out, "  damaged: {}", visible::line(line, 200))?;
    }
    if !damage.is_empty() {
        writeln!(out, "  a damaged file cannot be repaired: restore a backup")?;
    }
    let strays = inspection.orphans()?;
    for trouble in &strays {
        writeln!(out, "  {}", visible::line(&trouble.to_string(), 200))?;
    }
    Ok(Health::of(damage.is_empty() && strays.is_empty()))
}

/// Progress line on a terminal; a check may take long.
struct Progress {
    done: usize,
    of: usize,
    shows: bool,
}

impl Progress {
    fn new(of: usize) -> Self {
        Self { done: 0, of, shows: std::io::stderr().is_terminal() }
    }

    fn step(&mut self) {
        self.done += 1;
        if !self.shows {
            return;
        }
        match self.of {
            0 => output::sign(format_args!("\r  checking the file{:<4}\r", ".".repeat(self.done % 4))),
            of if of > 100 => output::sign(format_args!("\r  chat {} of {of}\r", self.done)),
            _ => {}
        }
    }

    fn end(&self) {
        if self.shows && (self.of == 0 || self.of > 100) {
            output::sign(format_args!("\r{:<40}\r", ""));
        }
    }
}
