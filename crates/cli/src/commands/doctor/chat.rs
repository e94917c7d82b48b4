//! Checks and repairs one stored chat.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::bail;
use everturn::core::doctor::{CallKnowledge, Flaw, Repaired, TranscriptOrigin, facts, repair};
use everturn::core::ids::{CallUid, ChatId};
use everturn::core::message::Body;
use everturn::core::status::Status;
use everturn::stores::{CallRecord, ChatSnapshot, Lease, Store, StoreExt as _};

use super::{Doctor, Health, count, tell, tell_changes};
use crate::find_chat::find_kept;
use crate::offline_store::OfflineStore;
use crate::terminal::visible;

/// Prints the flaws of a chat, and repairs it with `--fix`.
pub(super) async fn check(doctor: &Doctor, piece: &str, out: &mut impl Write) -> anyhow::Result<Health> {
    let kept = doctor.place.look().await?;
    let chat = find_kept(&kept, piece).await?;
    writeln!(out, "chat {chat}: {}", visible::line(&kept.heading(chat).await?.title, 60))?;
    let mut health = Health::Good;
    if let OfflineStore::Ours(inspection) = &kept {
        for trouble in inspection.defects(chat)? {
            writeln!(out, "  {}", visible::line(&trouble.to_string(), 200))?;
            health = health.and(Health::of(trouble.is_harmless()));
        }
    }
    let picture = kept.picture(chat).await?;
    let (transcript, repaired) = (&picture.transcript, examined(&picture));
    tell(out, &repaired.findings, |message| format!("message {message}"))?;
    tell_changes(out, transcript.iter().map(|message| &**message))?;
    let (messages, wrong) = (count(transcript.len(), "message", "messages"), repaired.findings.len());
    match (wrong, doctor.fix) {
        (0, _) => writeln!(out, "{messages}: the transcript has no flaws")?,
        (_, false) => writeln!(out, "{messages}, {}: --fix mends them", count(wrong, "flaw", "flaws"))?,
        (_, true) => {
            drop(kept);
            let store = doctor.place.write().await?;
            mend(&*store, chat).await?;
            writeln!(out, "{messages}, {}: mended", count(wrong, "flaw", "flaws"))?;
            return Ok(health);
        }
    }
    Ok(health.and(Health::of(wrong == 0)))
}

/// The findings of a repair. Open calls of a running turn are no flaw.
pub(super) fn examined(ChatSnapshot { heading, transcript, calls }: &ChatSnapshot) -> Repaired {
    let mut repaired = repair(transcript, TranscriptOrigin::Ours(&known(calls)));
    if matches!(heading.status, Status::Running | Status::Interrupting | Status::Awaiting) {
        let newest = transcript.iter().rev().find(|message| matches!(message.body, Body::Reply(_)));
        let newest = newest.map(|message| message.id);
        let is_open = |flaw: &Flaw| matches!(flaw, Flaw::UnansweredCall { .. });
        repaired.findings.retain(|finding| Some(finding.message) != newest || !is_open(&finding.flaw));
    }
    repaired
}

/// What the store knows of calls. A start is stored before the call is made; no stored start may also mean
/// that a client was to run it.
fn known(calls: &[CallRecord]) -> impl Fn(CallUid) -> CallKnowledge + use<> {
    let started: BTreeSet<CallUid> = calls.iter().map(|call| call.uid).collect();
    move |call| if started.contains(&call) { CallKnowledge::Started } else { CallKnowledge::Nothing }
}

/// Repairs an idle chat in one commit. Returns whether there was anything to repair.
pub(super) async fn mend(store: &dyn Store, chat: ChatId) -> anyhow::Result<bool> {
    if !store.inbox(chat).await?.is_empty() {
        bail!("chat {chat} has commands in its inbox: start a server to apply them first");
    }
    let mut lease = store.acquire(chat).await?;
    let mended = mend_leased(store, chat, &mut lease).await;
    // Also without a repair: a server would have to wait until the lease expires.
    let released = store.release(lease).await;
    let mended = mended?;
    released?;
    Ok(mended)
}

async fn mend_leased(store: &dyn Store, chat: ChatId, lease: &mut Lease) -> anyhow::Result<bool> {
    let loaded = store.load(lease).await?;
    if loaded.chat.is_busy() {
        bail!("chat {chat} has an unfinished turn: start a server to finish it first");
    }
    let (transcript, calls) = (store.transcript(chat).await?, store.calls(chat).await?);
    let repaired = repair(&transcript, TranscriptOrigin::Ours(&known(&calls)));
    let facts = facts::of_repair(&loaded.chat, &transcript, &repaired);
    if !facts.is_empty() {
        store.commit(lease, &facts).await?;
    }
    Ok(!repaired.is_healthy())
}
