//! From bytes to tokens.
//!
//! Only the provider's tokenizer knows, and it tells afterwards. But a conversation changes little from one request to
//! the next, so the ratio of the last one is a good guess for the next; until there is one, three bytes make a token.
//! Media are counted apart: their bytes say little about their tokens, and would spoil the ratio.

use crate::cost::BYTES_PER_TOKEN;
use crate::message::{Body, File, Media, Output, Part, Seal};

/// How large something is in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PromptSize {
    /// Bytes of text: words, names, inputs, results.
    pub text: u64,
    /// Bytes of images and other media.
    pub media: u64,
    /// About the tokens those media take.
    pub media_tokens: u64,
}

impl PromptSize {
    /// A size of text.
    #[must_use]
    pub const fn text(bytes: usize) -> Self {
        Self { text: bytes as u64, media: 0, media_tokens: 0 }
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            text: self.text.saturating_add(other.text),
            media: self.media.saturating_add(other.media),
            media_tokens: self.media_tokens.saturating_add(other.media_tokens),
        }
    }

    /// All bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.text.saturating_add(self.media)
    }
}

impl std::iter::Sum for PromptSize {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), Self::plus)
    }
}

/// How large a message is in a request.
#[must_use]
pub fn size_of_body(body: &Body) -> PromptSize {
    match body {
        Body::User(parts) => size_of_parts(parts),
        Body::Context(text) => PromptSize::text(text.len()),
        Body::Reply(reply) => size_of_parts(&reply.parts),
        Body::Result(result) => PromptSize::text(result.tool.len()).plus(size_of_output(&result.output)),
        Body::Summary(summary) => PromptSize::text(summary.text.len()).plus(size_of_parts(&summary.newest_user)),
    }
}

/// How large some parts are in a request. Sources, parts we do not know and reasoning without a seal are never sent.
#[must_use]
pub fn size_of_parts(parts: &[Part]) -> PromptSize {
    let size = |part: &Part| match part {
        Part::Text(text) => PromptSize::text(text.text.len()),
        Part::Reasoning(reasoning) => match &reasoning.seal {
            Some(Seal::Signature(seal)) => PromptSize::text(reasoning.text.len() + seal.len()),
            Some(Seal::Redacted(block)) => PromptSize::text(block.len()),
            None => PromptSize::default(),
        },
        Part::Call(call) => PromptSize::text(call.provider_id.len() + call.tool.len() + call.input.len()),
        Part::Provided(provided) => PromptSize::text(provided.tool.len() + provided.output.to_string().len()),
        Part::File(file) => size_of_file(file),
        Part::Source(_) | Part::Other(_) => PromptSize::default(),
    };
    parts.iter().map(size).sum()
}

/// How large a tool's output is in a request: what the model is shown, not the full copy.
#[must_use]
pub fn size_of_output(output: &Output) -> PromptSize {
    let media = output.media.iter().map(|Media { media_type, bytes }| size_of_media(media_type, bytes.len()));
    PromptSize::text(output.text.len()).plus(media.sum())
}

fn size_of_file(file: &File) -> PromptSize {
    let len = file.bytes.as_ref().map_or(0, |bytes| bytes.len());
    if file.bytes.is_none() || file.media_type.starts_with("text/") {
        return PromptSize::text(file.name.len() + len); // Sent as text, or as a line saying that it is gone.
    }
    PromptSize::text(file.name.len()).plus(size_of_media(&file.media_type, len))
}

/// An image takes at most about 1600 tokens with the providers we know, whatever its bytes; a document takes more the
/// longer it is.
fn size_of_media(media_type: &str, len: usize) -> PromptSize {
    const IMAGE_TOKENS: u64 = 1_600;
    const DOCUMENT_BYTES_PER_TOKEN: u64 = 64;
    let bytes = len as u64;
    let media_tokens = if media_type.starts_with("image/") {
        IMAGE_TOKENS
    } else {
        IMAGE_TOKENS.max(bytes / DOCUMENT_BYTES_PER_TOKEN)
    };
    PromptSize { text: 0, media: bytes, media_tokens }
}

/// A ratio of bytes to tokens that learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenGauge {
    /// Thousandths of a byte that make a token.
    milli_bytes: u64,
}

/// The ratios that real text can have: dense numbers and rare scripts at the one end, prose at the other.
const MILLI_BYTES_MIN: u64 = 1_000;
const MILLI_BYTES_MAX: u64 = 6_000;
/// Text too short to learn from: what a provider adds to every request would outweigh it.
const SAMPLE_BYTES_MIN: u64 = 2_048;

impl Default for TokenGauge {
    fn default() -> Self {
        Self { milli_bytes: BYTES_PER_TOKEN * 1_000 }
    }
}

impl TokenGauge {
    /// Learns from a request that was sent and the prompt tokens the provider counted in it. What cannot be (nothing
    /// counted, hardly anything sent) teaches nothing, and no report moves the ratio beyond what text can have.
    pub fn learn(&mut self, sent: PromptSize, prompt_tokens: u64) {
        let text_tokens = prompt_tokens.saturating_sub(sent.media_tokens);
        if sent.text < SAMPLE_BYTES_MIN || text_tokens == 0 {
            return;
        }
        let ratio = sent.text.saturating_mul(1_000) / text_tokens;
        self.milli_bytes = ratio.clamp(MILLI_BYTES_MIN, MILLI_BYTES_MAX);
    }

    /// About how many tokens a request of this size has.
    #[must_use]
    pub fn tokens(&self, size: PromptSize) -> u64 {
        let text = (u128::from(size.text) * 1_000).div_ceil(u128::from(self.milli_bytes));
        u64::try_from(text).unwrap_or(u64::MAX).saturating_add(size.media_tokens)
    }
}
