//! Checks and repairs a session file of another program.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use everturn::core::doctor::changes::PromptChanges;
use everturn::core::doctor::foreign::{ForeignSession, Loss, SessionFormat, read};
use everturn::core::doctor::{Repaired, TranscriptOrigin, facts, repair};
use everturn::core::ids::{ChatId, MessageId, ModelId, Timestamp};
use everturn::core::message::{Body, Message};
use everturn::core::prompt::{Request, Target, WireFormat, prepare};
use everturn::providers::{anthropic, openai_chat, openai_responses};
use everturn::stores::NewChat;
use serde_json::{Value, json};

use super::{Doctor, Health, count, lines, tell, tell_changes};
use crate::atomic_file;
use crate::clock;
use crate::terminal::visible;

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// The owner of the first token of a data directory.
const OWNER: &str = "local";

/// Prints the flaws of a session. With `--fix`, the repaired copy becomes a chat, or a file.
pub(super) async fn check(doctor: &Doctor, file: &Path, out: &mut impl Write) -> anyhow::Result<Health> {
    let unreadable = || format!("{} cannot be read", file.display());
    if std::fs::metadata(file).with_context(unreadable)?.len() > FILE_BYTES_MAX {
        bail!("{} is larger than a gigabyte", file.display());
    }
    let bytes = std::fs::read(file).with_context(unreadable)?;
    let session = read(&bytes, Timestamp(clock::now())).with_context(|| file.display().to_string())?;
    let repaired = repair(&session.messages, TranscriptOrigin::Foreign);
    writeln!(out, "{}: {}", file.display(), session.format)?;
    let is_line = matches!(session.format, SessionFormat::ClaudeCode | SessionFormat::Codex);
    tell(out, &repaired.findings, |message| {
        let place = session.place(message).unwrap_or_default();
        if is_line { format!("line {place}") } else { format!("message {place}") }
    })?;
    let is_lost = told_skipped(out, &session)?;
    tell_changes(out, session.messages.iter().map(|message| &**message))?;
    if let Some(line) = session.cut {
        writeln!(out, "  line {line}: the file ends in the middle of it")?;
        writeln!(out, "      its program ended while writing it; --fix leaves the line out")?;
    }
    let unsent = unsent(&session);
    let messages = count(session.messages.len(), "message", "messages");
    let wrong = repaired.findings.len() + unsent + usize::from(session.cut.is_some());
    if unsent > 0 {
        writeln!(
            out,
            "  {unsent} blank messages or thoughts without a seal, which a provider refuses; --fix leaves them out"
        )?;
    }
    let flaws = count(wrong, "flaw", "flaws");
    match (doctor.fix, &doctor.out) {
        (false, _) if wrong == 0 => writeln!(out, "{messages}: it has no flaws")?,
        (false, _) => writeln!(out, "{messages}, {flaws}: --fix makes a mended copy a chat, or with --out a file")?,
        (true, Some(to)) => {
            // Parts that the provider refuses without being flaws are left out of messages, and stay in the
            // lines of a file.
            let whole = whole_lines(&bytes, &session);
            let in_its_own = if unsent == 0 { lines::written(whole, &session, &repaired) } else { None };
            let (mended, how) = match (repaired.findings.len() + unsent, in_its_own) {
                (0, _) => (whole.to_vec(), ""),
                (_, Some(mended)) => (mended, ""),
                (_, None) if is_line => {
                    (written(&session, &repaired)?, ", as messages: its own format cannot express the repair")
                }
                (_, None) => (written(&session, &repaired)?, ""),
            };
            atomic_file::make(to, &mended)?;
            writeln!(out, "{messages}, {flaws}: written to {}{how}", to.display())?;
        }
        (true, None) => {
            let chat = import(doctor, &session, &repaired, &bytes).await?;
            writeln!(out, "{messages}, {flaws}: now chat {chat}")?;
        }
    }
    Ok(Health::of((wrong == 0 || doctor.fix) && !is_lost))
}

/// The file without a last line that was cut.
fn whole_lines<'a>(bytes: &'a [u8], session: &ForeignSession) -> &'a [u8] {
    match session.cut {
        Some(_) => &bytes[..bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)],
        None => bytes,
    }
}

/// How many parts of a session its provider refuses although the conversation has no flaw there.
fn unsent(session: &ForeignSession) -> usize {
    let (wire, provider) = spoken_on(session.format);
    let changes = PromptChanges::of(session.messages.iter().map(|message| &**message), &Target::new(wire, provider));
    // Only Anthropic has reasoning in messages, and refuses it without a signature. Elsewhere it is left out
    // anyway.
    let thoughts = if wire == WireFormat::Anthropic { changes.reasoning } else { 0 };
    changes.blank + thoughts
}

/// The wire format that accepts the session, and its provider.
const fn spoken_on(format: SessionFormat) -> (WireFormat, &'static str) {
    match format {
        SessionFormat::Anthropic | SessionFormat::ClaudeCode => (WireFormat::Anthropic, "anthropic"),
        SessionFormat::OpenAiChat => (WireFormat::OpenAiChat, "openai"),
        SessionFormat::OpenAiResponses | SessionFormat::Codex => (WireFormat::OpenAiResponses, "openai"),
    }
}

/// Prints what was not imported, and returns whether content was lost.
fn told_skipped(out: &mut impl Write, session: &ForeignSession) -> std::io::Result<bool> {
    for skipped in &session.skipped {
        let what = visible::line(&skipped.what, 100);
        let lost = match skipped.harm {
            Loss::None => "not part of the conversation",
            Loss::Lost => "cannot be imported",
        };
        writeln!(out, "  {} × {what}, first at {}: {lost}", skipped.count, skipped.place)?;
    }
    Ok(session.skipped.iter().any(|skipped| skipped.harm == Loss::Lost))
}

/// Stores a repaired session as a new chat.
async fn import(
    doctor: &Doctor,
    session: &ForeignSession,
    repaired: &Repaired,
    bytes: &[u8],
) -> anyhow::Result<ChatId> {
    let now = Timestamp(clock::now());
    let mut hasher = DefaultHasher::new();
    (bytes, std::process::id()).hash(&mut hasher);
    let chat = ChatId::new(now, hasher.finish().into());
    let about = format!("(Imported from {}; {} of it mended.)", session.format, repaired.findings.len());
    let told = session.system.iter().fold(about, |told, system| format!("{told}\n\n{system}"));
    let began = repaired.messages.first().map_or(now, |message| message.at);
    let first = Message { id: MessageId(0), at: began, body: Body::Context(told), sent: None };
    let messages: Vec<Arc<Message>> = [Arc::new(first)].into_iter().chain(repaired.messages.iter().cloned()).collect();
    let store = doctor.place.write().await?;
    store.create(&NewChat::of(chat, &doctor.agent, OWNER)).await?;
    let mut lease = store.acquire(chat).await?;
    store.commit(&mut lease, &facts::of_import(&messages)).await?;
    store.release(lease).await?;
    Ok(chat)
}

/// The repaired session as a file: messages in the provider's format.
fn written(session: &ForeignSession, repaired: &Repaired) -> anyhow::Result<Vec<u8>> {
    let (wire, provider) = spoken_on(session.format);
    let target = Target::new(wire, provider);
    let entries = prepare(repaired.messages.iter().map(|message| &**message), &target);
    let model: ModelId = format!("{provider}/unknown").parse()?;
    let request = Request { system: session.system.clone(), ..Request::new(model, &target, entries) };
    let value: Value = match wire {
        WireFormat::Anthropic if session.system.is_empty() => anthropic::written(&request),
        WireFormat::Anthropic => {
            json!({"system": session.system.join("\n\n"), "messages": anthropic::written(&request)})
        }
        WireFormat::OpenAiChat => openai_chat::written(&request),
        WireFormat::OpenAiResponses | WireFormat::Gemini if session.system.is_empty() => {
            openai_responses::written(&request)
        }
        WireFormat::OpenAiResponses | WireFormat::Gemini => {
            json!({"instructions": session.system.join("\n\n"), "input": openai_responses::written(&request)})
        }
    };
    Ok(format!("{value:#}\n").into_bytes())
}
