//! What an event of a provider's stream costs, from bytes to delta.
//!
//! Each figure stands beside a floor measured in the same run: the same bytes copied, piece by piece as they came. Long
//! tool inputs are read at two sizes, since that is where a decoder that looks back at what it has would show. Run with
//! `cargo xtask bench wire [--json]`.

#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use everturn_providers::anthropic::Messages;
use everturn_providers::gemini::{GenerateContent, Interaction};
use everturn_providers::openai_chat::Completions;
use everturn_providers::openai_responses::{ResponseRetention, Responses};
use everturn_providers::sse::SseBounds;
use everturn_providers::wire::{Decode, Fold, frames};
use futures_util::{StreamExt as _, stream};

const SIZES: [usize; 2] = [1_000, 100_000];
const ROUNDS: usize = 7;
/// About what one read of a socket brings.
const PIECE_BYTES: usize = 16 * 1024;
/// Wide enough for the longest answer here.
const BOUNDS: SseBounds = SseBounds { line_bytes_max: 1 << 20, frame_bytes_max: 4 << 20, response_bytes_max: 1 << 30 };

fn main() {
    let out = Out { json: std::env::args().any(|arg| arg == "--json") };
    out.wire(&ANTHROPIC, || Messages::new("anthropic"));
    out.wire(&RESPONSES, || Responses::new("openai", ResponseRetention::Nothing));
    out.wire(&CHAT, || Completions::new("openai"));
    out.wire(&GEMINI, || GenerateContent::new("google"));
    out.wire(&INTERACTIONS, || Interaction::new("google"));
}

/// What a wire's events look like.
struct Wire {
    name: &'static str,
    /// Before a text, and one piece of it.
    text: [&'static str; 2],
    /// Before a tool's input, and one piece of it. On a wire format with calls in one piece, a call.
    input: [&'static str; 2],
}

const ANTHROPIC: Wire = Wire {
    name: "anthropic",
    text: [
        r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

"#,
        r#"event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" token"}}

"#,
    ],
    input: [
        r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"write","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"text\":\""}}

"#,
        r#"event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":" token"}}

"#,
    ],
};

const RESPONSES: Wire = Wire {
    name: "responses",
    text: [
        r#"event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","model":"m","status":"in_progress"}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}}

"#,
        r#"event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":7,"item_id":"msg_68a4c1e6d3b481919b0a5c6a3b7c8d9e","output_index":0,"content_index":0,"delta":" token","logprobs":[],"obfuscation":"AbCdEfGhIj"}

"#,
    ],
    input: [
        r#"event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","model":"m","status":"in_progress"}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"call_1","name":"write"}}

"#,
        r#"event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":7,"item_id":"fc_68a4c1e6d3b481919b0a5c6a3b7c8d9e","output_index":0,"delta":" token","obfuscation":"AbCdEfGhIj"}

"#,
    ],
};

const CHAT: Wire = Wire {
    name: "chat",
    text: [
        "",
        r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"m","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}],"usage":null}

"#,
    ],
    input: [
        r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"write","arguments":"{\"text\":\""}}]},"finish_reason":null}]}

"#,
        r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"m","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":" token"}}]},"logprobs":null,"finish_reason":null}],"usage":null}

"#,
    ],
};

const GEMINI: Wire = Wire {
    name: "gemini",
    text: [
        "",
        r#"data: {"candidates": [{"content": {"parts": [{"text": " token"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 11,"totalTokenCount": 11,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 11}]},"modelVersion": "m","responseId": "abc"}

"#,
    ],
    input: [
        "",
        r#"data: {"candidates": [{"content": {"parts": [{"functionCall": {"name": "write","args": {"text": " token"}}}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 11,"totalTokenCount": 11},"modelVersion": "m","responseId": "abc"}

"#,
    ],
};

const INTERACTIONS: Wire = Wire {
    name: "interactions",
    text: [
        r#"event: interaction.created
data: {"event_type":"interaction.created","event_id":"e0","interaction":{"id":"v1_1","status":"in_progress"}}

event: step.start
data: {"event_type":"step.start","event_id":"e1","index":0,"step":{"type":"model_output"}}

"#,
        r#"event: step.delta
data: {"event_type":"step.delta","event_id":"e2","index":0,"delta":{"type":"text","text":" token"}}

"#,
    ],
    input: [
        r#"event: interaction.created
data: {"event_type":"interaction.created","event_id":"e0","interaction":{"id":"v1_1","status":"in_progress"}}

event: step.start
data: {"event_type":"step.start","event_id":"e1","index":0,"step":{"type":"function_call","id":"c1","name":"write"}}

"#,
        r#"event: step.delta
data: {"event_type":"step.delta","event_id":"e2","index":0,"delta":{"type":"arguments_delta","arguments":" token"}}

"#,
    ],
};

struct Out {
    json: bool,
}

impl Out {
    /// All figures of one wire.
    fn wire<D: Decode>(&self, wire: &Wire, decode: impl Fn() -> D) {
        for (what, stream) in [("text", &wire.text), ("input", &wire.input)] {
            let bench = format!("{} {what}", wire.name);
            let mut first = None;
            for n in SIZES {
                let pieces = pieces(stream, n);
                let floor = best(|| copy(&pieces)) / n as f64;
                let read = best(|| read(&pieces, n, decode())) / n as f64;
                self.line(&bench, "time per event", n, read, "ns", floor);
                self.line(&bench, "growth from 1k", n, read, "ns", *first.get_or_insert(read));
            }
        }
    }

    fn line(&self, bench: &str, metric: &str, n: usize, value: f64, unit: &str, floor: f64) {
        let ratio = value / floor;
        if self.json {
            println!(
                "{{\"bench\":\"{bench}\",\"metric\":\"{metric}\",\"n\":{n},\"value\":{value:.3},\"unit\":\"{unit}\",\
                 \"floor\":{floor:.3},\"ratio\":{ratio:.3}}}"
            );
        } else {
            println!("{bench:<18} {metric:<16} n={n:<8} {value:>10.2} {unit:<3} floor {floor:>9.2}  ratio {ratio:.2}");
        }
    }
}

/// A stream with `n` events of a kind, cut as a socket would.
fn pieces([head, piece]: &[&str; 2], n: usize) -> Vec<Bytes> {
    let whole = Bytes::from([head, piece.repeat(n).as_str()].concat());
    (0..whole.len()).step_by(PIECE_BYTES).map(|at| whole.slice(at..(at + PIECE_BYTES).min(whole.len()))).collect()
}

/// The best of several runs, in nanoseconds: noise only ever adds.
fn best(run: impl Fn() -> f64) -> f64 {
    (0..ROUNDS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn timed<T>(run: impl FnOnce() -> T) -> f64 {
    let started = Instant::now();
    drop(black_box(run()));
    started.elapsed().as_nanos() as f64
}

fn copy(pieces: &[Bytes]) -> f64 {
    let mut copy = Vec::with_capacity(PIECE_BYTES);
    timed(|| {
        for piece in pieces {
            copy.clear();
            copy.extend_from_slice(black_box(piece));
            black_box(&copy);
        }
    })
}

/// The way of an answer's bytes through [`frames`], as the engine reads them; each delta is dropped.
fn read<D: Decode>(pieces: &[Bytes], n: usize, decode: D) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let pieces: Vec<_> = pieces.iter().cloned().map(Ok).collect();
    timed(|| {
        let mut frames = frames(stream::iter(pieces).boxed(), Fold::new("bench", BOUNDS, decode), Duration::MAX);
        let seen = runtime.block_on(async {
            let mut seen = 0_usize;
            while let Some(frame) = frames.next().await {
                seen += black_box(frame).map_or(0, |frame| frame.deltas().len());
            }
            seen
        });
        assert!(seen >= n, "{seen} deltas of {n} events");
    })
}
