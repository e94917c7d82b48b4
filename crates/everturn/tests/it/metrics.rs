//! The metrics of turns, attempts, tools and waits.
#![allow(clippy::unwrap_used, reason = "whatever fails here fails a test")]

mod scenes;

use std::collections::{BTreeMap, BTreeSet};

use everturn::Metrics;
use everturn::core::error::{Cause, ErrorKind};
use expect_test::expect;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

fn counted() -> (Registry, Metrics) {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    (registry, metrics)
}

fn exposition(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}

/// The samples of some metrics in a fixed order, without the prefix and the buckets.
fn told(registry: &Registry, names: &str) -> String {
    let text = exposition(registry);
    let samples = text.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket{"));
    let samples = samples.map(|line| line.strip_prefix("everturn_").expect("everything has our prefix"));
    let mut samples: Vec<&str> =
        samples.filter(|line| names.split_whitespace().any(|name| is_of(line, name))).collect();
    samples.sort_unstable();
    samples.iter().map(|line| format!("{line}\n")).collect()
}

fn is_of(sample: &str, name: &str) -> bool {
    let metric = sample.split(['{', ' ']).next().unwrap_or_default();
    metric.strip_prefix(name).is_some_and(|suffix| matches!(suffix, "" | "_total" | "_sum" | "_count"))
}

/// CR63: a turn with a tool is visible: which model was asked how much, how long everything took, what it used and cost.
#[tokio::test(start_paused = true)]
async fn a_turn_is_visible() {
    let (registry, metrics) = counted();
    scenes::a_turn(metrics).await;
    let names = "attempts attempt_duration_seconds commit_duration_seconds cost_units interrupts message_count prompt_size_bytes queue_wait_seconds steps stream_retries tokens tokens_repaid tool_duration_seconds tool_errors tool_result_size_bytes ttft_seconds turn_duration_seconds turn_failures";
    expect![[r#"
        attempt_duration_seconds_count{provider="understudy",model="one"} 2
        attempt_duration_seconds_sum{provider="understudy",model="one"} 6.0
        attempts_total{provider="understudy",model="one",rung="first",outcome="answered"} 2
        commit_duration_seconds_count 6
        commit_duration_seconds_sum 0.0
        cost_units_total{provider="understudy",model="one",basis="known"} 0.00945
        interrupts_total 0
        message_count_count{provider="understudy",model="one"} 2
        message_count_sum{provider="understudy",model="one"} 4.0
        prompt_size_bytes_count{provider="understudy",model="one"} 2
        prompt_size_bytes_sum{provider="understudy",model="one"} 292.0
        queue_wait_seconds_count 0
        queue_wait_seconds_sum 0.0
        steps_total{provider="understudy",model="one",stop="end"} 1
        steps_total{provider="understudy",model="one",stop="tool_use"} 1
        tokens_total{provider="understudy",model="one",kind="cache_read",basis="known"} 5000
        tokens_total{provider="understudy",model="one",kind="cache_write",basis="known"} 400
        tokens_total{provider="understudy",model="one",kind="input",basis="known"} 1100
        tokens_total{provider="understudy",model="one",kind="output",basis="known"} 60
        tokens_total{provider="understudy",model="one",kind="reasoning",basis="known"} 150
        tool_duration_seconds_count{tool="slow"} 1
        tool_duration_seconds_sum{tool="slow"} 4.0
        tool_result_size_bytes_count{provider="understudy",model="one",tool="slow"} 1
        tool_result_size_bytes_sum{provider="understudy",model="one",tool="slow"} 4.0
        ttft_seconds_count{provider="understudy",model="one"} 2
        ttft_seconds_sum{provider="understudy",model="one"} 3.0
        turn_duration_seconds_count{end="done"} 1
        turn_duration_seconds_sum{end="done"} 10.0
    "#]]
    .assert_eq(&told(&registry, names));
}

/// CR64, CL54: each retry is counted by model, error and rung; what was kept and paid again, too.
#[tokio::test(start_paused = true)]
async fn a_retry_is_visible() {
    let names = "attempts stream_retries recovered_bytes tokens_repaid salvages drafts_resumed";
    let (registry, metrics) = counted();
    scenes::continued(metrics).await;
    expect![[r#"
        attempts_total{provider="understudy",model="one",rung="continue",outcome="answered"} 1
        attempts_total{provider="understudy",model="one",rung="continue",outcome="broke"} 1
        attempts_total{provider="understudy",model="one",rung="first",outcome="broke"} 1
        recovered_bytes_total{provider="understudy",model="one",rung="continue"} 23
        stream_retries_total{provider="understudy",model="one",kind="overloaded",rung="continue"} 1
        stream_retries_total{provider="understudy",model="one",kind="timeout",rung="continue"} 1
        tokens_repaid_total{provider="understudy",model="one"} 230
    "#]]
    .assert_eq(&told(&registry, names));
    let (registry, metrics) = counted();
    scenes::reattached(metrics).await;
    expect![[r#"
        attempts_total{provider="understudy",model="one",rung="first",outcome="broke"} 1
        attempts_total{provider="understudy",model="one",rung="reattach",outcome="answered"} 1
        recovered_bytes_total{provider="understudy",model="one",rung="reattach"} 3
        stream_retries_total{provider="understudy",model="one",kind="timeout",rung="reattach"} 1
    "#]]
    .assert_eq(&told(&registry, names));
    let (registry, metrics) = counted();
    scenes::salvaged(metrics).await;
    expect![[r#"
        attempts_total{provider="understudy",model="one",rung="first",outcome="answered"} 1
        attempts_total{provider="understudy",model="one",rung="first",outcome="broke"} 1
        recovered_bytes_total{provider="understudy",model="one",rung="salvage"} 11
        salvages_total{provider="understudy",model="one"} 1
    "#]]
    .assert_eq(&told(&registry, names));
    let (registry, metrics) = counted();
    scenes::fell_back(metrics).await;
    expect![[r#"
        attempts_total{provider="first",model="big",rung="first",outcome="broke"} 1
        attempts_total{provider="first",model="big",rung="restart",outcome="broke"} 1
        attempts_total{provider="understudy",model="one",rung="fall_back",outcome="answered"} 1
        stream_retries_total{provider="first",model="big",kind="overloaded",rung="restart"} 1
        stream_retries_total{provider="first",model="big",kind="usage_limit",rung="fall_back"} 1
    "#]]
    .assert_eq(&told(&registry, names));
}

/// CL51, CL55: a break is counted under its kind, also one that the provider brought about by cancelling the stream.
/// What is not tried again is no retry.
#[tokio::test(start_paused = true)]
async fn retries_are_counted_by_kind() {
    let (registry, metrics) = counted();
    for kind in ErrorKind::ALL {
        scenes::broken_once(metrics.clone(), kind, Cause::Reset).await;
    }
    expect![[r#"
        stream_retries_total{provider="understudy",model="one",kind="chain_broken",rung="continue"} 1
        stream_retries_total{provider="understudy",model="one",kind="malformed",rung="continue"} 1
        stream_retries_total{provider="understudy",model="one",kind="overloaded",rung="continue"} 1
        stream_retries_total{provider="understudy",model="one",kind="rate_limit",rung="continue"} 1
        stream_retries_total{provider="understudy",model="one",kind="silence",rung="continue"} 1
        stream_retries_total{provider="understudy",model="one",kind="timeout",rung="continue"} 1
        stream_retries_total{provider="understudy",model="one",kind="truncated",rung="continue"} 1
        turn_failures_total{kind="auth"} 1
        turn_failures_total{kind="budget"} 1
        turn_failures_total{kind="config"} 1
        turn_failures_total{kind="content_filter"} 1
        turn_failures_total{kind="context_full"} 1
        turn_failures_total{kind="generic"} 1
        turn_failures_total{kind="missing_key"} 1
        turn_failures_total{kind="provider_disabled"} 1
        turn_failures_total{kind="quarantine"} 1
        turn_failures_total{kind="usage_limit"} 1
    "#]]
    .assert_eq(&told(&registry, "stream_retries turn_failures"));
    let (registry, metrics) = counted();
    for cause in [Cause::Reset, Cause::GoAway, Cause::ServerError] {
        scenes::broken_once(metrics.clone(), ErrorKind::Timeout, cause).await;
    }
    expect![[r#"
        stream_retries_total{provider="understudy",model="one",kind="timeout",rung="continue"} 3
    "#]]
    .assert_eq(&told(&registry, "stream_retries"));
}

/// CR65, CL53, CL16: tool errors are counted under the registered name, whatever went wrong; a name the model made up never
/// becomes a label.
#[tokio::test(start_paused = true)]
async fn tool_errors_are_counted_under_registered_names() {
    let (registry, metrics) = counted();
    scenes::tool_troubles(metrics).await;
    expect![[r#"
        tool_duration_seconds_count{tool="fails"} 1
        tool_duration_seconds_count{tool="panics"} 1
        tool_duration_seconds_count{tool="sleeps"} 1
        tool_duration_seconds_sum{tool="fails"} 0.0
        tool_duration_seconds_sum{tool="panics"} 0.0
        tool_duration_seconds_sum{tool="sleeps"} 6.0
        tool_errors_total{provider="understudy",model="one",tool="alone"} 1
        tool_errors_total{provider="understudy",model="one",tool="echo"} 3
        tool_errors_total{provider="understudy",model="one",tool="fails"} 1
        tool_errors_total{provider="understudy",model="one",tool="panics"} 1
        tool_errors_total{provider="understudy",model="one",tool="sleeps"} 1
        tool_errors_total{provider="understudy",model="one",tool="unknown"} 2
    "#]]
    .assert_eq(&told(&registry, "tool_errors tool_duration_seconds"));
    let text = exposition(&registry);
    for made_up in ["hacked", "rm", "also_made_up", "old_echo"] {
        assert!(!text.contains(made_up), "{made_up} is in\n{text}");
    }
}

/// CL49: the size of a result is known for text, error, media and nothing; a cut one counts as cut.
#[tokio::test(start_paused = true)]
async fn results_are_measured() {
    let (registry, metrics) = counted();
    scenes::tool_results(metrics).await;
    expect![[r#"
        tool_result_size_bytes_count{provider="understudy",model="one",tool="endless"} 1
        tool_result_size_bytes_count{provider="understudy",model="one",tool="error"} 1
        tool_result_size_bytes_count{provider="understudy",model="one",tool="media"} 1
        tool_result_size_bytes_count{provider="understudy",model="one",tool="nothing"} 1
        tool_result_size_bytes_count{provider="understudy",model="one",tool="text"} 1
        tool_result_size_bytes_sum{provider="understudy",model="one",tool="endless"} 49028.0
        tool_result_size_bytes_sum{provider="understudy",model="one",tool="error"} 8.0
        tool_result_size_bytes_sum{provider="understudy",model="one",tool="media"} 500.0
        tool_result_size_bytes_sum{provider="understudy",model="one",tool="nothing"} 0.0
        tool_result_size_bytes_sum{provider="understudy",model="one",tool="text"} 12.0
        tool_result_truncated_total{provider="understudy",model="one",tool="endless"} 1
    "#]]
    .assert_eq(&told(&registry, "tool_result_size_bytes tool_result_truncated"));
}

/// CL50: compactions are counted by outcome; one that was not needed and one that was stopped are not.
#[tokio::test(start_paused = true)]
async fn compactions_are_counted_by_outcome() {
    let (registry, metrics) = counted();
    scenes::compactions(metrics).await;
    let names = "compaction attempts stream_retries tokens_repaid";
    expect![[r#"
        attempts_total{provider="understudy",model="one",rung="first",outcome="answered"} 6
        attempts_total{provider="understudy",model="one",rung="summary",outcome="answered"} 2
        attempts_total{provider="understudy",model="one",rung="summary",outcome="broke"} 2
        compaction_total{provider="understudy",model="one",result="error"} 1
        compaction_total{provider="understudy",model="one",result="success"} 2
        compaction_total{provider="understudy",model="one",result="timeout"} 1
    "#]]
    .assert_eq(&told(&registry, names));
    let (registry, metrics) = counted();
    scenes::compaction_interrupted(metrics.clone()).await;
    scenes::a_turn(metrics).await;
    expect![[r#"
        attempts_total{provider="understudy",model="one",rung="first",outcome="answered"} 3
        attempts_total{provider="understudy",model="one",rung="summary",outcome="interrupted"} 1
    "#]]
    .assert_eq(&told(&registry, "compaction attempts"));
}

/// An interrupt is counted, and so is what it cut short, at an estimate.
#[tokio::test(start_paused = true)]
async fn an_interrupt_is_visible() {
    let (registry, metrics) = counted();
    scenes::interrupted(metrics).await;
    expect![[r#"
        attempts_total{provider="understudy",model="one",rung="first",outcome="interrupted"} 1
        interrupts_total 1
        steps_total{provider="understudy",model="one",stop="interrupted"} 1
        tokens_total{provider="understudy",model="one",kind="input",basis="estimated"} 3
        tokens_total{provider="understudy",model="one",kind="output",basis="estimated"} 6
        turn_duration_seconds_count{end="interrupted"} 1
        turn_duration_seconds_sum{end="interrupted"} 7.0
    "#]]
    .assert_eq(&told(&registry, "interrupts steps tokens turn_duration_seconds attempts"));
}

/// A queued message waits from its acceptance until its turn begins; a deleted one is not measured. An edit ends the turn
/// that it replaces.
#[tokio::test(start_paused = true)]
async fn waiting_is_measured() {
    let (registry, metrics) = counted();
    scenes::queued(metrics).await;
    expect![[r#"
        queue_wait_seconds_count 2
        queue_wait_seconds_sum 18.0
        turn_duration_seconds_count{end="done"} 2
        turn_duration_seconds_sum{end="done"} 15.0
    "#]]
    .assert_eq(&told(&registry, "queue_wait_seconds turn_duration_seconds"));
    let (registry, metrics) = counted();
    scenes::edited(metrics).await;
    expect![[r#"
        attempts_total{provider="understudy",model="one",rung="first",outcome="answered"} 1
        attempts_total{provider="understudy",model="one",rung="first",outcome="lost"} 1
        turn_duration_seconds_count{end="done"} 1
        turn_duration_seconds_count{end="edited"} 1
        turn_duration_seconds_sum{end="done"} 0.0
        turn_duration_seconds_sum{end="edited"} 2.0
    "#]]
    .assert_eq(&told(&registry, "turn_duration_seconds attempts"));
}

/// A takeover, what it found in the journal, and calls with an unknown outcome.
#[tokio::test(start_paused = true)]
async fn takeovers_are_visible() {
    let names = "driver_failures drafts_resumed stream_retries recovered_bytes takeovers tool_unknown drivers";
    let (registry, metrics) = counted();
    scenes::taken_over(metrics).await;
    expect![[r#"
        drafts_resumed_total{provider="understudy",model="one"} 1
        driver_failures_total{kind="fenced"} 2
        drivers 0
        recovered_bytes_total{provider="understudy",model="one",rung="continue"} 7
        stream_retries_total{provider="understudy",model="one",kind="truncated",rung="continue"} 1
        takeovers_total 2
        tool_unknown_total{provider="understudy",model="one",tool="stuck"} 1
    "#]]
    .assert_eq(&told(&registry, names));
    let (registry, metrics) = counted();
    scenes::lost(metrics).await;
    expect![[r#"
        heartbeat_failures_total 2
        lease_losses_total 1
    "#]]
    .assert_eq(&told(&registry, "heartbeat_failures lease_losses"));
    let (registry, metrics) = counted();
    scenes::panicked(metrics).await;
    expect![[r#"
        driver_failures_total{kind="panic"} 1
        drivers 0
        takeovers_total 0
    "#]]
    .assert_eq(&told(&registry, names));
}

/// Gauges count the chats held now: a chat that waits for an answer is, one that rests is not.
#[tokio::test(start_paused = true)]
async fn gauges_follow_the_drivers() {
    let (registry, metrics) = counted();
    let (awaiting, _failed) = scenes::resting(metrics).await;
    expect![[r#"
        chats{status="awaiting"} 1
        chats{status="failed"} 0
        chats{status="idle"} 0
        chats{status="running"} 0
        drivers 1
    "#]]
    .assert_eq(&told(&registry, "chats drivers"));
    awaiting.engine.shutdown().await;
    expect![[r#"
        chats{status="awaiting"} 0
        chats{status="failed"} 0
        chats{status="idle"} 0
        chats{status="running"} 0
        drivers 0
    "#]]
    .assert_eq(&told(&registry, "chats drivers"));
}

/// The bounds reach as far as what they measure does.
#[tokio::test(start_paused = true)]
async fn histograms_have_sensible_bounds() {
    let (registry, metrics) = counted();
    scenes::a_turn(metrics).await;
    let text = exposition(&registry);
    let mut bounds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains("_bucket{")) {
        let (name, labels) = line.split_once("_bucket{").unwrap();
        let bound = labels.split("le=\"").nth(1).unwrap().split('"').next().unwrap();
        let known = bounds.entry(name).or_default();
        if !known.contains(&bound) {
            known.push(bound);
        }
    }
    let told: String = bounds.iter().map(|(name, bounds)| format!("{name} {}\n", bounds.join(" "))).collect();
    expect![[r#"
        everturn_attempt_duration_seconds 0.05 0.1 0.25 0.5 1.0 2.5 5.0 10.0 30.0 60.0 120.0 300.0 600.0 +Inf
        everturn_commit_duration_seconds 0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 1.0 5.0 +Inf
        everturn_journal_append_duration_seconds 0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 1.0 5.0 +Inf
        everturn_load_duration_seconds 0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 1.0 5.0 +Inf
        everturn_message_count 1.0 2.0 4.0 8.0 16.0 32.0 64.0 128.0 256.0 512.0 1024.0 +Inf
        everturn_place_wait_seconds 0.5 1.0 2.5 5.0 10.0 30.0 60.0 120.0 300.0 600.0 1800.0 3600.0 14400.0 +Inf
        everturn_prompt_size_bytes 1024.0 4096.0 16384.0 65536.0 262144.0 1048576.0 4194304.0 16777216.0 67108864.0 268435456.0 +Inf
        everturn_queue_wait_seconds 0.5 1.0 2.5 5.0 10.0 30.0 60.0 120.0 300.0 600.0 1800.0 3600.0 14400.0 +Inf
        everturn_submit_duration_seconds 0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 1.0 5.0 +Inf
        everturn_tool_duration_seconds 0.05 0.1 0.25 0.5 1.0 2.5 5.0 10.0 30.0 60.0 120.0 300.0 600.0 +Inf
        everturn_tool_result_size_bytes 64.0 256.0 1024.0 4096.0 16384.0 65536.0 262144.0 1048576.0 4194304.0 +Inf
        everturn_ttft_seconds 0.05 0.1 0.25 0.5 1.0 2.5 5.0 10.0 30.0 60.0 120.0 300.0 600.0 +Inf
        everturn_turn_duration_seconds 0.5 1.0 2.5 5.0 10.0 30.0 60.0 120.0 300.0 600.0 1800.0 3600.0 14400.0 +Inf
    "#]].assert_eq(&told);
}

/// CL46: every metric of the page is shown once something happened, with the labels the page says, and no other.
#[tokio::test(start_paused = true)]
async fn every_documented_metric_is_moved_by_something() {
    let (registry, metrics) = counted();
    scenes::all(&metrics).await;
    let text = exposition(&registry);
    let mut shown: BTreeMap<&str, &str> = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        shown.insert(name, kind);
    }
    let shown: BTreeSet<String> = shown.iter().map(|(name, kind)| row(&text, name, kind)).collect();
    let page = include_str!("../../../../docs/metrics.md");
    let listed =
        page.lines().take_while(|line| *line != "## The server").filter(|line| line.starts_with("| `everturn_"));
    let listed: BTreeSet<String> = listed.map(|line| line.split('|').take(4).collect::<Vec<_>>().join("|")).collect();
    assert_eq!(shown, listed);
}

/// A metric as the page has it, up to its labels, from its first sample.
fn row(text: &str, name: &str, kind: &str) -> String {
    let suffix = if kind == "counter" { "_total" } else { "" };
    let sample = text.lines().find(|line| line.starts_with(name)).unwrap();
    let labels = sample.split_once('{').map_or("", |(_, rest)| rest.rsplit_once('}').unwrap().0);
    let names = labels.split("\",").filter_map(|label| label.split_once("=\"")).map(|(name, _)| name);
    let names: Vec<&str> = names.filter(|name| *name != "le").collect();
    format!("| `{name}{suffix}` | {kind} | {} ", names.join(", "))
}

/// CL47: without a registry all of it can be used, by every engine, and leads nowhere.
#[tokio::test(start_paused = true)]
async fn without_a_registry_nothing_happens() {
    scenes::all(&Metrics::unregistered()).await;
    scenes::all(&Metrics::default()).await;
}
