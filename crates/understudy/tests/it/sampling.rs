//! Sampling parameters, by the real adapters, to the strict server: what a model takes is sent, and nothing is refused.

use std::fmt::Write as _;
use std::sync::Arc;

use everturn_core::ids::{MessageId, Timestamp};
use everturn_core::limits::Limits;
use everturn_core::message::{Body, Message, Meta, Part, Text};
use everturn_core::prompt::{Effort, Request, Sampling, WireFormat, prepare, validate};
use everturn_providers::Provider;
use everturn_providers::anthropic::Anthropic;
use everturn_providers::catalogue::Catalogue;
use everturn_providers::gemini::{Gemini, GoogleRetention};
use everturn_providers::http::Http;
use everturn_providers::openai_chat::OpenAiChat;
use everturn_providers::openai_responses::OpenAiResponses;
use everturn_understudy::http::{KEY, UnderstudyOptions, UnderstudyServer};
use everturn_understudy::{Manner, Understudy};
use expect_test::expect;
use serde_json::Value;

/// Every parameter there is, set.
fn everything() -> Sampling {
    let stop = vec!["END".to_owned()];
    Sampling { temperature: Some(1.5), top_p: Some(0.9), top_k: Some(40), seed: Some(7), stop }
}

/// What of them a request says, by their names on its wire, and how long the answer may be.
fn said(body: &Value) -> String {
    let config = ["generationConfig", "generation_config"].iter().find_map(|name| body.get(*name)).unwrap_or(body);
    let names = [
        "temperature",
        "top_p",
        "topP",
        "top_k",
        "topK",
        "seed",
        "stop",
        "stop_sequences",
        "stopSequences",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "maxOutputTokens",
    ];
    let found = names.iter().filter_map(|name| Some(format!("{name}={}", config.get(*name)?)));
    found.collect::<Vec<_>>().join(" ")
}

/// Every provider here, with models that differ in what they take.
fn asked(url: &str) -> Vec<(Box<dyn Provider>, Vec<&'static str>)> {
    let (http, catalogue) = (Http::direct(&Limits::default()), Arc::new(Catalogue::embedded()));
    let variable = |name: &str| match name {
        "ANTHROPIC_BASE_URL" => Some(url.to_owned()),
        "OPENAI_BASE_URL" => Some(format!("{url}/v1")),
        "GOOGLE_GEMINI_BASE_URL" => Some(format!("{url}/v1beta")),
        "ANTHROPIC_API_KEY" | "OPENAI_API_KEY" | "GEMINI_API_KEY" => Some(KEY.to_owned()),
        _ => None,
    };
    let gemini = || Gemini::usual(http.clone(), variable).unwrap();
    let openai = ["gpt-5-mini", "gpt-5.1", "gpt-4.1", "unlisted"];
    let google = ["gemini-2.5-flash", "gemini-3-pro"];
    vec![
        (
            Box::new(Anthropic::usual(http.clone(), catalogue.clone(), variable).unwrap()),
            ["claude-opus-4-7", "claude-sonnet-4-5", "claude-3-5-haiku"].into(),
        ),
        (Box::new(OpenAiResponses::usual(http.clone(), catalogue.clone(), variable).unwrap()), openai.into()),
        (Box::new(OpenAiChat::usual(http.clone(), catalogue, variable).unwrap()), openai.into()),
        (Box::new(gemini()), google.into()),
        (Box::new(gemini().with_kept(GoogleRetention::Background)), google.into()),
    ]
}

/// What is sent of everything that can be asked for, to each model and at each effort, and that a strict server takes it.
async fn sent_to_each() -> String {
    let company = Understudy::company(Manner { pace: std::time::Duration::ZERO, seed: 1 });
    let server = UnderstudyServer::start(company, UnderstudyOptions::default()).await.unwrap();
    let hello = Part::Text(Text { text: "Hello".into(), meta: Meta::new() });
    let message = Message { id: MessageId(1), at: Timestamp(1), body: Body::User(vec![hello]), sent: None };
    let mut table = String::new();
    for (provider, models) in asked(&server.url()) {
        for model in models {
            let target = provider.facts(model).target;
            for effort in [None, Some(Effort::None), Some(Effort::High)] {
                let id = format!("{}/{model}", provider.name()).parse().unwrap();
                let request = Request {
                    effort,
                    sampling: everything(),
                    max_output: 9000,
                    output_is_told: true,
                    background: target.background && target.wire == WireFormat::Gemini,
                    ..Request::new(id, &target, prepare([&message], &target))
                };
                let request = request.fit(&target);
                assert_eq!(validate(&request, &target), Ok(()), "{model}");
                let opened = provider.open(request).await.map(drop);
                assert!(opened.is_ok(), "{:?} {model} {effort:?}: {opened:?}", target.wire);
                let sent = server.requests().pop().unwrap();
                let effort = effort.map_or("-".into(), |effort| format!("{effort:?}"));
                let path = sent.path.split('?').next().unwrap_or_default();
                let name = path.rsplit(['/', ':']).next().unwrap_or_default();
                writeln!(table, "{name} {model} {effort}: {}", said(&sent.body)).unwrap();
            }
        }
    }
    table
}

#[tokio::test]
async fn only_parameters_the_model_takes_are_sent() {
    expect![[r#"
        messages claude-opus-4-7 -: stop_sequences=["END"] max_tokens=9000
        messages claude-opus-4-7 None: stop_sequences=["END"] max_tokens=9000
        messages claude-opus-4-7 High: stop_sequences=["END"] max_tokens=9000
        messages claude-sonnet-4-5 -: temperature=1.0 top_k=40 stop_sequences=["END"] max_tokens=9000
        messages claude-sonnet-4-5 None: temperature=1.0 top_k=40 stop_sequences=["END"] max_tokens=9000
        messages claude-sonnet-4-5 High: stop_sequences=["END"] max_tokens=9000
        messages claude-3-5-haiku -: temperature=1.0 top_k=40 stop_sequences=["END"] max_tokens=9000
        messages claude-3-5-haiku None: temperature=1.0 top_k=40 stop_sequences=["END"] max_tokens=9000
        messages claude-3-5-haiku High: temperature=1.0 top_k=40 stop_sequences=["END"] max_tokens=9000
        responses gpt-5-mini -: max_output_tokens=9000
        responses gpt-5-mini None: max_output_tokens=9000
        responses gpt-5-mini High: max_output_tokens=9000
        responses gpt-5.1 -: max_output_tokens=9000
        responses gpt-5.1 None: temperature=1.5 top_p=0.9 max_output_tokens=9000
        responses gpt-5.1 High: max_output_tokens=9000
        responses gpt-4.1 -: temperature=1.5 top_p=0.9 max_output_tokens=9000
        responses gpt-4.1 None: temperature=1.5 top_p=0.9 max_output_tokens=9000
        responses gpt-4.1 High: temperature=1.5 top_p=0.9 max_output_tokens=9000
        responses unlisted -: max_output_tokens=9000
        responses unlisted None: max_output_tokens=9000
        responses unlisted High: max_output_tokens=9000
        completions gpt-5-mini -: seed=7 max_completion_tokens=9000
        completions gpt-5-mini None: seed=7 max_completion_tokens=9000
        completions gpt-5-mini High: seed=7 max_completion_tokens=9000
        completions gpt-5.1 -: seed=7 max_completion_tokens=9000
        completions gpt-5.1 None: temperature=1.5 top_p=0.9 seed=7 max_completion_tokens=9000
        completions gpt-5.1 High: seed=7 max_completion_tokens=9000
        completions gpt-4.1 -: temperature=1.5 top_p=0.9 seed=7 stop=["END"] max_completion_tokens=9000
        completions gpt-4.1 None: temperature=1.5 top_p=0.9 seed=7 stop=["END"] max_completion_tokens=9000
        completions gpt-4.1 High: temperature=1.5 top_p=0.9 seed=7 stop=["END"] max_completion_tokens=9000
        completions unlisted -: seed=7 max_completion_tokens=9000
        completions unlisted None: seed=7 max_completion_tokens=9000
        completions unlisted High: seed=7 max_completion_tokens=9000
        streamGenerateContent gemini-2.5-flash -: temperature=1.5 topP=0.9 topK=40 seed=7 stopSequences=["END"] maxOutputTokens=9000
        streamGenerateContent gemini-2.5-flash None: temperature=1.5 topP=0.9 topK=40 seed=7 stopSequences=["END"] maxOutputTokens=9000
        streamGenerateContent gemini-2.5-flash High: temperature=1.5 topP=0.9 topK=40 seed=7 stopSequences=["END"] maxOutputTokens=9000
        streamGenerateContent gemini-3-pro -: seed=7 stopSequences=["END"] maxOutputTokens=9000
        streamGenerateContent gemini-3-pro None: seed=7 stopSequences=["END"] maxOutputTokens=9000
        streamGenerateContent gemini-3-pro High: seed=7 stopSequences=["END"] maxOutputTokens=9000
        interactions gemini-2.5-flash -: temperature=1.5 top_p=0.9 seed=7 stop_sequences=["END"] max_output_tokens=9000
        interactions gemini-2.5-flash None: temperature=1.5 top_p=0.9 seed=7 stop_sequences=["END"] max_output_tokens=9000
        interactions gemini-2.5-flash High: temperature=1.5 top_p=0.9 seed=7 stop_sequences=["END"] max_output_tokens=9000
        interactions gemini-3-pro -: seed=7 stop_sequences=["END"] max_output_tokens=9000
        interactions gemini-3-pro None: seed=7 stop_sequences=["END"] max_output_tokens=9000
        interactions gemini-3-pro High: seed=7 stop_sequences=["END"] max_output_tokens=9000
    "#]]
    .assert_eq(&sent_to_each().await);
}
