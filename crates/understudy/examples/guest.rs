//! Interoperability check: our adapters call a server of another project, on every wire format.
//!
//! `guest URL VERSION` asks an aimock with the fixtures of `xtask/interop/aimock.json` and prints a line of
//! JSON per check. `cargo xtask interop` runs it.

use std::sync::Arc;

use everturn_core::delta::{AttemptBegan, Delta, Rung};
use everturn_core::draft::Draft;
use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::ids::{MessageId, ModelId, StepId, Timestamp};
use everturn_core::limits::Limits;
use everturn_core::message::{Body, CallResult, CallVerdict, File, Message, Meta, Output, Part, Reply, Stop, Text};
use everturn_core::prompt::{Request, ToolSpec, prepare, validate};
use everturn_providers::anthropic::Anthropic;
use everturn_providers::catalogue::Catalogue;
use everturn_providers::gemini::{Gemini, GoogleRetention};
use everturn_providers::http::Http;
use everturn_providers::openai_chat::OpenAiChat;
use everturn_providers::openai_responses::OpenAiResponses;
use everturn_providers::{Frame, Provider};
use futures_util::StreamExt as _;
use serde_json::json;

type Outcome = Result<(), String>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (url, version) = (args.next().ok_or("guest URL VERSION")?, args.next().unwrap_or_default());
    println!("{}", json!({"peer": "aimock", "version": version}));
    for guest in guests(&url)? {
        guest.answers().await;
        guest.troubles().await;
    }
    Ok(())
}

/// One of our adapters, and the model it asks for.
struct Guest {
    name: &'static str,
    provider: Box<dyn Provider>,
    model: ModelId,
    /// What the other side cannot do on this wire.
    spared: &'static [&'static str],
}

fn guests(url: &str) -> Result<Vec<Guest>, Box<dyn std::error::Error>> {
    let variable = |name: &str| match name {
        "ANTHROPIC_BASE_URL" => Some(url.to_owned()),
        "GOOGLE_GEMINI_BASE_URL" => Some(format!("{url}/v1beta")),
        "OPENAI_BASE_URL" => Some(format!("{url}/v1")),
        "ANTHROPIC_API_KEY" | "OPENAI_API_KEY" | "GEMINI_API_KEY" => Some("a-key".to_owned()),
        _ => None,
    };
    let (http, known) = (Http::direct(&Limits::default()), Arc::new(Catalogue::embedded()));
    let guest = |name, provider: Box<dyn Provider>, model: &str, spared| {
        Ok::<_, Box<dyn std::error::Error>>(Guest { name, provider, model: model.parse()?, spared })
    };
    let gemini = Gemini::usual(http.clone(), variable)?;
    Ok(vec![
        guest(
            "anthropic",
            Box::new(Anthropic::usual(http.clone(), known.clone(), variable)?),
            "anthropic/claude-sonnet-4-5",
            &[],
        )?,
        guest(
            "responses",
            Box::new(OpenAiResponses::usual(http.clone(), known.clone(), variable)?),
            "openai/gpt-5.2",
            &[],
        )?,
        guest("chat", Box::new(OpenAiChat::usual(http, known, variable)?), "openai/gpt-5.2", &[])?,
        guest("gemini", Box::new(gemini.clone()), "google/gemini-3-flash", &[])?,
        guest(
            "interactions",
            Box::new(gemini.with_kept(GoogleRetention::Background)),
            "google/gemini-3-flash",
            &["reasoning", "length"],
        )?,
    ])
}

/// How a question ended.
type Answer = Result<Reply, (ProviderError, String)>;

impl Guest {
    async fn answers(&self) {
        self.check("text", async {
            let reply = self.ask(&[user("say hello")]).await.map_err(shown)?;
            same(&(reply.text().as_str(), &reply.stop), &("Hello from over there. 🦀", &Stop::End))?;
            let usage = reply.usage.ok_or("no usage")?;
            same(&(usage.prompt(), usage.output), &(12, 7))
        })
        .await;
        self.check("reasoning", async {
            let reply = self.ask(&[user("think first")]).await.map_err(shown)?;
            let thoughts = reply.parts.iter().filter_map(|part| match part {
                Part::Reasoning(thought) => Some(thought.text.as_str()),
                _ => None,
            });
            same(&(thoughts.collect::<String>(), reply.text()), &("Let me think.".into(), "Done.".into()))?;
            // What was thought goes back in the next request.
            let again = [user("think first"), Body::Reply(Box::new(reply)), user("say hello")];
            self.ask(&again).await.map(drop).map_err(shown)
        })
        .await;
        self.check("tools", self.tools()).await;
        self.check("image", async {
            let image = File {
                name: "dot.png".into(),
                media_type: "image/png".into(),
                bytes: Some(DOT.into()),
                meta: Meta::new(),
            };
            let asked = Body::User(vec![words("look at this"), Part::File(image)]);
            same(&self.ask(&[asked]).await.map_err(shown)?.text().as_str(), &"A picture.")
        })
        .await;
        self.check("length", async {
            same(&self.ask(&[user("stop early")]).await.map_err(shown)?.stop, &Stop::Length)
        })
        .await;
    }

    async fn tools(&self) -> Outcome {
        let reply = self.ask(&[user("use the tools")]).await.map_err(shown)?;
        same(&(reply.text().as_str(), &reply.stop), &("Let me look.", &Stop::ToolUse))?;
        let calls: Vec<_> = reply.calls().cloned().collect();
        let seen: Vec<_> = calls.iter().map(|call| (call.tool.as_str(), call.object().unwrap_or_default())).collect();
        let city = json!({"city": "Utqiaġvik \"Barrow\""}).as_object().cloned().unwrap_or_default();
        same(&seen, &vec![("weather", city), ("now", serde_json::Map::new())])?;
        let told = calls.into_iter().zip(["cold", "noon"]).map(|(call, text)| {
            Body::Result(Box::new(CallResult {
                call: call.uid,
                tool: call.tool,
                verdict: CallVerdict::Done,
                output: Output::text(text),
                began: None,
                ended: Timestamp(0),
                meta: Meta::new(),
            }))
        });
        let said: Vec<_> = [user("use the tools"), Body::Reply(Box::new(reply))].into_iter().chain(told).collect();
        same(&self.ask(&said).await.map_err(shown)?.text().as_str(), &"It is cold, and noon.")
    }

    async fn troubles(&self) {
        self.check("a cut stream", async {
            let (error, said) = self.fails("break off").await?;
            same(&error.retry, &Retry::Backoff)?;
            ("This sentence is longer than what will come of it.".starts_with(&said) && said.len() < 40)
                .then_some(())
                .ok_or(format!("said {said:?}"))
        })
        .await;
        let cases: [(&str, &str, Expected); 6] = [
            ("500", "drop it", |error| error.status == Some(500) && error.retry != Retry::Never),
            ("not the protocol", "gibber", |error| {
                error.kind == ErrorKind::Malformed || error.cause == Cause::Truncated
            }),
            ("a lost connection", "hang up", |error| error.cause != Cause::Refused && error.retry == Retry::Backoff),
            ("429 with a time", "too fast", |error| {
                error.kind == ErrorKind::RateLimit && matches!(error.retry, Retry::After(time) if time.as_secs() == 1)
            }),
            ("529", "too busy", |error| error.kind == ErrorKind::Overloaded && error.retry == Retry::Backoff),
            ("401", "wrong key", |error| error.kind == ErrorKind::Auth && error.retry == Retry::Never),
        ];
        for (name, asked, expected) in cases {
            self.check(name, async {
                let (error, _) = self.fails(asked).await?;
                expected(&error).then_some(()).ok_or(format!("{error:?}"))
            })
            .await;
        }
        self.check("strict: what nobody wrote is refused", async {
            let (error, _) = self.fails("say what nobody wrote").await?;
            error.status.is_some().then_some(()).ok_or(format!("{error:?}"))
        })
        .await;
    }

    async fn check(&self, name: &str, body: impl Future<Output = Outcome>) {
        if self.spared.contains(&name) {
            return;
        }
        let name = format!("{}: {name}", self.name);
        match body.await {
            Ok(()) => println!("{}", json!({"check": name, "ok": true})),
            Err(why) => println!("{}", json!({"check": name, "ok": false, "why": why})),
        }
    }

    async fn fails(&self, asked: &str) -> Result<(ProviderError, String), String> {
        match self.ask(&[user(asked)]).await {
            Ok(reply) => Err(format!("an answer came: {:?}", reply.text())),
            Err(failed) => Ok(failed),
        }
    }

    /// Asks as the engine does: prepare, fit, open, fold.
    async fn ask(&self, said: &[Body]) -> Answer {
        let facts = self.provider.facts(self.model.name());
        let messages: Vec<Message> = said
            .iter()
            .zip(1..)
            .map(|(body, id)| Message { id: MessageId(id), at: Timestamp(0), body: body.clone(), sent: None })
            .collect();
        let mut request = Request::new(self.model.clone(), &facts.target, prepare(&messages, &facts.target));
        let city = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
        request.tools = Arc::new([
            ToolSpec::new("weather", "Tells the weather of a city.", city),
            ToolSpec::new("now", "Tells the time.", json!({"type": "object", "properties": {}})),
        ]);
        request.background = facts.target.background;
        let request = request.fit(&facts.target);
        assert_eq!(validate(&request, &facts.target), Ok(()), "every request is valid");
        let mut draft = Draft::new(StepId(messages.len() as u64));
        let began = AttemptBegan { number: 1, model: self.model.clone(), rung: Rung::First };
        draft.push(Timestamp(0), &Delta::Attempt(Box::new(began))).expect("an attempt comes first");
        let mut frames = self.provider.open(request).await.map_err(|error| (error, String::new()))?;
        while let Some(frame) = frames.next().await {
            let said = everturn_core::message::text_of(draft.parts());
            let frame = frame.map_err(|error| (error, said))?;
            for delta in frame.deltas() {
                draft.push(Timestamp(0), delta).expect("an adapter keeps order");
            }
            if let Frame::Stop(stop) = frame {
                return Ok(draft.seal(stop, Timestamp(0), None).expect("an attempt began"));
            }
        }
        unreachable!("a stream ends with a stop or an error")
    }
}

type Expected = fn(&ProviderError) -> bool;

/// One white pixel.
const DOT: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 1, 0, 0, 0, 1, 8,
    0, 0, 0, 0, 0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0, 0x0a, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0xf8, 0x0f, 0, 1, 1,
    1, 0, 0x1b, 0xb6, 0xee, 0x56, 0, 0, 0, 0, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

fn words(text: &str) -> Part {
    Part::Text(Text { text: text.into(), meta: Meta::new() })
}

fn user(text: &str) -> Body {
    Body::User(vec![words(text)])
}

fn shown((error, said): (ProviderError, String)) -> String {
    format!("{error:?} after {said:?}")
}

fn same<T: PartialEq + std::fmt::Debug>(seen: &T, expected: &T) -> Outcome {
    if seen == expected { Ok(()) } else { Err(format!("saw {seen:?}, expected {expected:?}")) }
}
