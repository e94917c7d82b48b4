//! The order of entries, and what each may hold.

use super::law::AdjacencyRule;
use super::{Check, RequestViolation};
use crate::message::{Meta, Seal};
use crate::prompt::entry::{PromptEntry, PromptMedia, PromptPart, Role, SealedReasoning};

impl Check<'_> {
    pub(super) fn order(&mut self) {
        let entries = &self.request.entries;
        let Some(last) = entries.last() else { return self.found.push(RequestViolation::NoEntries) };
        self.expect(entries.get(0).is_some_and(|first| first.role == Role::User), RequestViolation::FirstNotUser);
        let may_end = last.role != Role::Assistant || self.is_prefill(last) || self.is_echo(entries.len() - 1);
        self.expect(may_end, RequestViolation::LastNotUser);
        for (at, (one, next)) in entries.iter().zip(entries.iter().skip(1)).enumerate() {
            let allowed = one.role != next.role
                || match self.law.neighbours {
                    AdjacencyRule::Any => true,
                    AdjacencyRule::Sealed => one.role == Role::Assistant && (thinks(one) || thinks(next)),
                    AdjacencyRule::None => false,
                };
            self.expect(allowed, RequestViolation::SameRole { entry: at + 1 });
        }
    }

    fn is_prefill(&self, last: &PromptEntry) -> bool {
        let Some(PromptPart::Text(text)) = last.parts.last() else { return false };
        self.target.prefill
            && !last.parts.iter().any(|part| matches!(part, PromptPart::Call(_)))
            && (self.law.reasoning_is_free || !(thinks(last) || self.request.reasons()))
            && (self.law.prefill_ends_blank || !text.text.ends_with(char::is_whitespace))
    }

    /// Whether an entry is an answer that the provider shall go on with: its own tools were at work when it stopped.
    pub(super) fn is_echo(&self, at: usize) -> bool {
        let entries = &self.request.entries;
        let last = entries.last().filter(|last| at + 1 == entries.len() && last.role == Role::Assistant);
        let at_work = |part: &PromptPart| matches!(part, PromptPart::HostedCall(_) | PromptPart::HostedResult(_));
        self.law.echoes && last.and_then(|last| last.parts.last()).is_some_and(at_work)
    }

    pub(super) fn parts(&mut self) {
        for (at, entry) in self.request.entries.iter().enumerate() {
            self.expect(!entry.parts.is_empty(), RequestViolation::EmptyEntry { entry: at });
            if thinks(entry) {
                let is_reasoning = |part: &PromptPart| matches!(part, PromptPart::Reasoning(_));
                let (first, last) = (entry.parts.first(), entry.parts.last());
                let (first, last) = (first.is_some_and(is_reasoning), last.is_some_and(is_reasoning));
                self.expect(first || !self.law.reasoning_first, RequestViolation::ReasoningNotFirst { entry: at });
                self.expect(!last || self.law.reasoning_last, RequestViolation::ReasoningLast { entry: at });
                self.expect(!entry.parts.iter().all(is_reasoning), RequestViolation::ReasoningAlone { entry: at });
            }
            for (nth, part) in entry.parts.iter().enumerate() {
                self.part(at, nth, entry.role, part);
            }
        }
        self.led();
    }

    fn part(&mut self, entry: usize, nth: usize, role: Role, part: &PromptPart) {
        let speaker = match part {
            PromptPart::Text(_) => role == Role::User || role == Role::Assistant,
            PromptPart::File(_) => role == Role::User,
            PromptPart::Result(_) => role == Role::Tool,
            PromptPart::Reasoning(_)
            | PromptPart::Call(_)
            | PromptPart::HostedCall(_)
            | PromptPart::HostedResult(_) => role == Role::Assistant,
        };
        self.expect(speaker, RequestViolation::WrongRole { entry, part: nth });
        let provider = &self.target.provider;
        let own = meta_of(part).keys().all(|name| name == provider);
        self.expect(own, RequestViolation::ForeignMeta { entry, part: nth });
        match part {
            PromptPart::Text(text) => {
                self.expect(!text.text.trim().is_empty(), RequestViolation::BlankText { entry, part: nth });
                self.expect(!text.text.contains('\0'), RequestViolation::Nul { entry, part: nth });
            }
            PromptPart::File(file) => {
                self.media(entry, nth, std::slice::from_ref(&file.media), &self.target.user_media);
                self.expect(!file.name.contains('\0'), RequestViolation::Nul { entry, part: nth });
            }
            PromptPart::Reasoning(sealed) => self.sealed(entry, nth, sealed),
            PromptPart::Result(result) => {
                self.media(entry, nth, &result.media, &self.target.result_media);
                let says = !result.text.trim().is_empty() || !result.media.is_empty();
                self.expect(says, RequestViolation::EmptyResult { entry, part: nth });
                self.expect(!result.text.contains('\0'), RequestViolation::Nul { entry, part: nth });
            }
            PromptPart::Call(_) | PromptPart::HostedCall(_) | PromptPart::HostedResult(_) => {}
        }
    }

    fn media(&mut self, entry: usize, part: usize, media: &[PromptMedia], taken: &[String]) {
        for one in media {
            self.expect(!one.bytes.is_empty(), RequestViolation::EmptyMedia { entry, part });
            let kind = one.media_type.split('/').next().unwrap_or_default();
            let any = format!("{kind}/*");
            let known = taken.iter().any(|taken| *taken == one.media_type || *taken == any);
            let bare = one.media_type.bytes().all(|b| b.is_ascii_graphic() && !b.is_ascii_uppercase() && b != b';');
            let other = SIGNATURES.iter().any(|(name, signature)| {
                *name != one.media_type
                    && one.bytes.starts_with(signature)
                    && (kind == "image" || one.media_type == PDF)
            });
            self.expect(known && bare && !other, RequestViolation::MediaType { entry, part });
        }
    }

    fn sealed(&mut self, entry: usize, part: usize, sealed: &SealedReasoning) {
        let (Seal::Signature(token) | Seal::Redacted(token)) = &sealed.seal;
        self.expect(self.target.reasoning, RequestViolation::ReasoningUnwanted { entry, part });
        self.expect(sealed.provider == self.target.provider, RequestViolation::ReasoningForeign { entry, part });
        self.expect(!token.trim().is_empty(), RequestViolation::ReasoningUnsealed { entry, part });
    }

    /// A budgeted reasoner that is asked to reason wants the loop it is in to have begun with its reasoning.
    fn led(&mut self) {
        if !self.target.leading_reasoning || !self.request.reasons() {
            return;
        }
        let since_user = self.request.entries.iter().rev().take_while(|entry| entry.role != Role::User).count();
        let turn = self.request.entries.len() - since_user;
        if let Some(first) = self.request.entries.get(turn)
            && first.role == Role::Assistant
        {
            let leads = matches!(first.parts.first(), Some(PromptPart::Reasoning(_)));
            self.expect(leads, RequestViolation::ReasoningMissing { entry: turn });
        }
    }
}

const PDF: &str = "application/pdf";

/// How bytes begin that providers recognise, whatever they are said to be.
const SIGNATURES: [(&str, &[u8]); 4] =
    [("image/png", b"\x89PNG\r\n\x1a\n"), ("image/jpeg", b"\xff\xd8\xff"), ("image/gif", b"GIF89a"), (PDF, b"%PDF-")];

fn thinks(entry: &PromptEntry) -> bool {
    entry.parts.iter().any(|part| matches!(part, PromptPart::Reasoning(_)))
}

fn meta_of(part: &PromptPart) -> &Meta {
    match part {
        PromptPart::Text(text) => &text.meta,
        PromptPart::File(file) => &file.meta,
        PromptPart::Reasoning(sealed) => &sealed.meta,
        PromptPart::Call(call) => &call.meta,
        PromptPart::Result(result) => &result.meta,
        PromptPart::HostedCall(call) => &call.meta,
        PromptPart::HostedResult(result) => &result.meta,
    }
}
