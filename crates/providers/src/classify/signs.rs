//! The signs by which a failure is known.
//!
//! A failure often shows several: a status, a name, a phrase. The one that explains most wins, whichever it came from,
//! and the order of the [`Sign`]s is that order. So a used-up quota is not a rate limit although it comes as a 429, a
//! key without access is not a wrong model, and a wrong model is not an outage although a proxy made it a 503.

use everturn_core::error::{ErrorKind, Retry};

use super::said::ErrorText;

/// What a failure can turn out to be, the sign that explains most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// The conversation lacks a part that must stand beside another: a mistake of ours that no retry mends.
    PromptShape,
    /// The response this one was chained to is gone.
    ChainBroken,
    /// The provider is disabled.
    Disabled,
    /// Too much to do, for everybody.
    Overloaded,
    /// Money or quota is used up.
    Quota,
    /// The key is wrong.
    KeyRefused,
    /// The prompt is too long.
    TooLong,
    /// The policy refused.
    Filtered,
    /// The model or a setting is wrong.
    Config,
    /// Nothing is there that could answer: the base URL is wrong.
    Address,
    /// Too many requests, from us.
    RateLimit,
    /// The key is right and may not.
    Forbidden,
    /// Not there at the moment.
    Unavailable,
    /// Something broke at the provider.
    ServerError,
    /// A conflict that may be over next time.
    Conflict,
    /// Refused for an unknown reason.
    Refused,
    /// A good status without an answer.
    NoAnswer,
}

impl Sign {
    /// What it is and what may be done.
    pub const fn meaning(self) -> (ErrorKind, Retry) {
        let kind = match self {
            Self::PromptShape | Self::Refused => return (ErrorKind::Generic, Retry::Never),
            Self::ServerError | Self::Conflict => return (ErrorKind::Generic, Retry::Backoff),
            Self::ChainBroken => ErrorKind::ChainBroken,
            Self::Disabled => ErrorKind::ProviderDisabled,
            Self::Overloaded => ErrorKind::Overloaded,
            Self::Quota => ErrorKind::UsageLimit,
            Self::KeyRefused | Self::Forbidden => ErrorKind::Auth,
            Self::TooLong => ErrorKind::ContextFull,
            Self::Filtered => ErrorKind::ContentFilter,
            Self::Config | Self::Address => ErrorKind::Config,
            Self::RateLimit => ErrorKind::RateLimit,
            Self::Unavailable => ErrorKind::Timeout,
            Self::NoAnswer => ErrorKind::Malformed,
        };
        (kind, kind.default_retry())
    }
}

/// The providers with error phrases to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorDialect {
    Anthropic,
    OpenAi,
    Google,
    Bedrock,
    /// Compatible servers, and gateways that pass on what any provider said.
    Any,
}

impl ErrorDialect {
    /// The family of a provider, by its name in configuration.
    pub fn of(provider: &str) -> Self {
        let provider = provider.to_ascii_lowercase();
        match provider.as_str() {
            "anthropic" => Self::Anthropic,
            "openai" | "azure" => Self::OpenAi,
            "google" | "gemini" | "vertex" => Self::Google,
            "bedrock" => Self::Bedrock,
            _ => Self::Any,
        }
    }
}

/// The sign that explains most among status, names and message.
pub fn read(family: ErrorDialect, status: Option<u16>, said: &ErrorText) -> Sign {
    let error_status = status.filter(|status| !(200..300).contains(status)).or(said.status).or_else(|| {
        let names = [&said.name, &said.code];
        let bad = BAD_REQUESTS.iter().any(|bad| names.iter().any(|name| bad.eq_ignore_ascii_case(name)));
        bad.then_some(400)
    });
    let by_status = match (error_status, status) {
        (Some(404), _) => not_found(&said.message),
        (Some(status), _) => of_status(status),
        (None, Some(_)) => Sign::NoAnswer,
        (None, None) => Sign::ServerError, // In a stream: the request had been accepted.
    };
    let message = said.message.to_lowercase();
    let of_name = |name: &String| if is_not_found(name) { Some(not_found(&message)) } else { of_name(name) };
    let names = [&said.code, &said.name].into_iter().filter_map(of_name);
    let phrases = PHRASES.iter().filter(|phrase| phrase.is_in(&message, family, error_status));
    names.chain(phrases.map(|phrase| phrase.sign)).fold(by_status, Sign::min)
}

/// What a status alone says.
const fn of_status(status: u16) -> Sign {
    match status {
        300..=399 | 404 | 405 => Sign::Address, // We follow no redirects.
        501 | 505 => Sign::Config,              // What is not there will not be there in a minute.
        401 => Sign::KeyRefused,
        402 => Sign::Quota,
        403 => Sign::Forbidden,
        413 => Sign::TooLong,
        429 => Sign::RateLimit,
        529 => Sign::Overloaded,
        408 | 425 | 499 | 502 | 503 | 504 => Sign::Unavailable,
        409 | 424 => Sign::Conflict,
        500..=599 => Sign::ServerError,
        _ => Sign::Refused,
    }
}

/// What it means that something was not found: the model if that is what the message speaks of, else the address. A path
/// that the message repeats says nothing, since the model is in many.
fn not_found(message: &str) -> Sign {
    let message = message.to_lowercase();
    let mut words = message.split_whitespace().filter(|word| !word.contains("/models"));
    if words.any(|word| word.contains("model") || word.contains("deployment")) { Sign::Config } else { Sign::Address }
}

/// Names that say no more than the status 404 does.
const NOT_FOUND: [&str; 4] = ["not_found_error", "NotFoundError", "NOT_FOUND", "ResourceNotFoundException"];

fn is_not_found(name: &str) -> bool {
    NOT_FOUND.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Names that say no more than the status 400 does, which is something where there is no status.
const BAD_REQUESTS: [&str; 4] = ["invalid_request_error", "INVALID_ARGUMENT", "ValidationException", "BadRequestError"];

/// What an error's name says, if it says more than its status does.
pub(super) fn of_name(name: &str) -> Option<Sign> {
    let row = NAMES.iter().find(|(_, names)| names.iter().any(|known| known.eq_ignore_ascii_case(name)));
    row.map(|&(sign, _)| sign)
}

/// The names of errors: Anthropic's types, OpenAI's codes and types, Google's statuses and reasons, Amazon's exceptions,
/// and those of gateways and compatible servers.
pub(super) const NAMES: &[(Sign, &[&str])] = &[
    (Sign::ChainBroken, &["previous_response_not_found"]),
    (Sign::Disabled, &["provider_disabled"]),
    (Sign::Overloaded, &["overloaded_error", "overloaded", "engine_overloaded", "slow_down", "ModelNotReadyException"]),
    (
        Sign::Quota,
        &[
            "insufficient_quota",
            "billing_error",
            "billing_hard_limit_reached",
            "billing_not_active",
            "budget_exceeded",
            "insufficient_funds",
            "insufficient_credits",
            "quota_exceeded",
            "daily_quota",
            "ServiceQuotaExceededException",
        ],
    ),
    (
        Sign::KeyRefused,
        &[
            "authentication_error",
            "invalid_api_key",
            "invalid_authentication_error",
            "account_deactivated",
            "UNAUTHENTICATED",
            "API_KEY_INVALID",
            "UnrecognizedClientException",
            "ExpiredTokenException",
            "InvalidSignatureException",
        ],
    ),
    (
        Sign::TooLong,
        &["context_length_exceeded", "request_too_large", "exceed_context_size_error", "context_window_exceeded"],
    ),
    (
        Sign::Filtered,
        &[
            "content_filter",
            "content_policy_violation",
            "image_content_policy_violation",
            "ResponsibleAIPolicyViolation",
            "moderation",
        ],
    ),
    (
        Sign::Config,
        &[
            "model_not_found",
            "invalid_model",
            "unsupported_model",
            "unsupported_parameter",
            "unsupported_value",
            "unknown_parameter",
            "not_supported_error",
            "DeploymentNotFound",
            "FAILED_PRECONDITION",
            "UNIMPLEMENTED",
        ],
    ),
    (Sign::Forbidden, &["permission_error", "permission_denied", "AccessDeniedException"]),
    (
        Sign::RateLimit,
        &["rate_limit_error", "rate_limit_exceeded", "rateLimitExceeded", "RESOURCE_EXHAUSTED", "ThrottlingException"],
    ),
    (
        Sign::Unavailable,
        &[
            "timeout_error",
            "unavailable_error",
            "UNAVAILABLE",
            "DEADLINE_EXCEEDED",
            "CANCELLED",
            "ModelTimeoutException",
            "ServiceUnavailableException",
        ],
    ),
    (
        Sign::ServerError,
        &[
            "api_error",
            "server_error",
            "internal_server_error",
            "InternalServerError",
            "INTERNAL",
            "InternalServerException",
            "ModelErrorException",
            "ModelStreamErrorException",
        ],
    ),
    (Sign::Conflict, &["ABORTED"]),
];

/// Something a provider is known to say where its types say too little: all pieces, in this order, without case.
pub(super) struct Phrase {
    pub sign: Sign,
    pub families: &'static [ErrorDialect],
    pub pieces: &'static [&'static str],
}

impl Phrase {
    fn is_in(&self, message: &str, family: ErrorDialect, status: Option<u16>) -> bool {
        if family != ErrorDialect::Any && !self.families.contains(&family) {
            return false;
        }
        // Providers speak of quotas when they mean a rate; only a name makes a 429 final. And a server that broke while
        // checking a budget broke.
        if self.sign == Sign::Quota && status.is_none_or(|status| status == 429 || status >= 500) {
            return false;
        }
        let mut rest = Some(message);
        for piece in self.pieces {
            rest = rest.and_then(|text| text.split_once(piece)).map(|(_, after)| after);
        }
        rest.is_some()
    }
}

const ANTHROPIC: &[ErrorDialect] = &[ErrorDialect::Anthropic, ErrorDialect::Bedrock];
const OPENAI: &[ErrorDialect] = &[ErrorDialect::OpenAi];
const GOOGLE: &[ErrorDialect] = &[ErrorDialect::Google];
const BEDROCK: &[ErrorDialect] = &[ErrorDialect::Bedrock];
const GATEWAYS: &[ErrorDialect] = &[];

const fn phrase(sign: Sign, families: &'static [ErrorDialect], pieces: &'static [&'static str]) -> Phrase {
    Phrase { sign, families, pieces }
}

pub(super) const PHRASES: &[Phrase] = &[
    phrase(Sign::PromptShape, OPENAI, &["no tool output found for function call"]),
    phrase(Sign::PromptShape, OPENAI, &["was provided without its required 'reasoning' item"]),
    phrase(Sign::PromptShape, OPENAI, &["was provided without its required following item"]),
    phrase(Sign::ChainBroken, OPENAI, &["previous_response_id"]),
    phrase(Sign::ChainBroken, OPENAI, &["previous response", "not found"]),
    phrase(Sign::ChainBroken, OPENAI, &["previous response", "does not exist"]),
    phrase(Sign::ChainBroken, OPENAI, &["previous response", "expired"]),
    phrase(Sign::Overloaded, OPENAI, &["currently overloaded"]),
    phrase(Sign::Overloaded, GOOGLE, &["model is overloaded"]),
    phrase(Sign::Quota, ANTHROPIC, &["credit balance is too low"]),
    phrase(Sign::Quota, ANTHROPIC, &["reached your specified api usage limits"]),
    phrase(Sign::Quota, OPENAI, &["exceeded your current quota"]),
    phrase(Sign::Quota, GATEWAYS, &["ai budget of"]),
    phrase(Sign::Quota, GATEWAYS, &["budget has been exceeded"]),
    phrase(Sign::Quota, GATEWAYS, &["insufficient", "credits"]),
    phrase(Sign::Quota, GATEWAYS, &["insufficient balance"]),
    phrase(Sign::TooLong, ANTHROPIC, &["prompt is too long"]),
    phrase(Sign::TooLong, ANTHROPIC, &["exceed context limit"]),
    phrase(Sign::TooLong, OPENAI, &["maximum context length"]),
    phrase(Sign::TooLong, OPENAI, &["exceeds the context window"]),
    phrase(Sign::TooLong, OPENAI, &["input tokens exceed the configured limit"]),
    phrase(Sign::TooLong, OPENAI, &["request too large for"]), // One request above the minute's share: waiting is no use.
    phrase(Sign::TooLong, GOOGLE, &["input token count", "exceeds"]),
    phrase(Sign::TooLong, GOOGLE, &["input token count", "only supports up to"]),
    phrase(Sign::TooLong, GOOGLE, &["request payload size exceeds the limit"]),
    phrase(Sign::TooLong, BEDROCK, &["input is too long"]),
    phrase(Sign::TooLong, BEDROCK, &["too many input tokens"]),
    phrase(Sign::TooLong, GATEWAYS, &["exceeds the available context size"]), // llama.cpp
    phrase(Sign::TooLong, GATEWAYS, &["greater than the context length"]),    // LM Studio
    phrase(Sign::TooLong, GATEWAYS, &["maximum prompt length is"]),           // xAI
    phrase(Sign::TooLong, GATEWAYS, &["reduce the length of the messages"]),  // Groq
    phrase(Sign::TooLong, GATEWAYS, &["prompt token count", "exceeds the limit"]), // Copilot
    phrase(Sign::TooLong, GATEWAYS, &["context window exceeds limit"]),       // MiniMax
    phrase(Sign::TooLong, GATEWAYS, &["exceeded model token limit"]),         // Kimi
    phrase(Sign::Filtered, OPENAI, &["prompt was flagged"]),
    phrase(Sign::Config, BEDROCK, &["model identifier is invalid"]),
    phrase(Sign::Config, BEDROCK, &["on-demand throughput", "supported"]),
    phrase(Sign::Config, GATEWAYS, &["invalid model"]),
    phrase(Sign::Config, GATEWAYS, &["unknown model"]),
    phrase(Sign::Config, GATEWAYS, &["unsupported model"]),
    phrase(Sign::Config, GATEWAYS, &["model", "not found"]),
];
