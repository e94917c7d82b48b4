//! Usage and budget of a chat and its owner, as lines.

use everturn::core::cost::Micros;
use everturn_server::wire::{Account, Bounds, Tokens, Usage, Used};

use super::{duration, grouped};

/// Usage of the chat, with its last error, then of all chats of the owner.
pub fn told(usage: &Usage, account: &Account) -> Vec<String> {
    let tokens = |tokens: &Tokens| {
        format!("{} in, {} out, {} cached", grouped(tokens.input), grouped(tokens.output), grouped(tokens.cache_read))
    };
    let calls =
        if usage.attempts == 1 { "1 provider call".into() } else { format!("{} provider calls", usage.attempts) };
    let mut lines = vec![format!("{calls}; tokens: {}", tokens(&usage.known))];
    if usage.estimated != Tokens::default() {
        lines.push(format!("not reported, so estimated: {}", tokens(&usage.estimated)));
    }
    let (known, estimated) = (usage.cost.known_micros, usage.cost.estimated_micros);
    lines.push(format!("cost: {} known, {} estimated", money(known), money(estimated)));
    let odd = usage.each.iter().rev().filter(|attempt| attempt.outcome != "answered");
    lines.extend(odd.take(5).map(|attempt| {
        let took = duration(attempt.took_ms as i64);
        format!("step {} attempt {}: {} after {took}", attempt.step, attempt.number, attempt.outcome)
    }));
    let chat = Used {
        steps: usage.steps,
        time_ms: usage.time_ms,
        alive_ms: usage.alive_ms,
        tokens: total(&usage.known).saturating_add(total(&usage.estimated)),
        cost_micros: known.saturating_add(estimated),
    };
    lines.push(format!("in this chat: {}", beside(&chat, &account.chat_max)));
    lines.push(format!("today, in all chats: {}", beside(&account.day, &account.day_max)));
    lines.push(format!("this month: {}", beside(&account.month, &account.month_max)));
    lines
}

/// Today's usage of all chats of the owner.
pub fn used_today(account: &Account) -> String {
    beside(&account.day, &account.day_max)
}

/// Usage, with the limit where there is one.
fn beside(used: &Used, max: &Bounds) -> String {
    let of = |used: String, max: Option<String>| match max {
        Some(max) => format!("{used} of {max}"),
        None => used,
    };
    let minutes = |ms: u64| grouped(ms / 60_000);
    format!(
        "{} steps, {} minutes of work, {} tokens, cost {}",
        of(grouped(used.steps), max.steps.map(grouped)),
        of(minutes(used.time_ms), max.time_ms.map(minutes)),
        of(grouped(used.tokens), max.tokens.map(grouped)),
        of(money(used.cost_micros), max.cost_micros.map(money)),
    )
}

const fn total(tokens: &Tokens) -> u64 {
    let prompt = tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write);
    prompt.saturating_add(tokens.output)
}

fn money(micros: u64) -> String {
    Micros(micros).to_string()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn usage_is_shown_with_its_limit() {
        let tokens =
            |input: u64| json!({"input": input, "output": 20, "reasoning": 5, "cache_read": 3, "cache_write": 4});
        let attempt = json!({"step": 1, "number": 1, "model": "a/b", "began": 0, "took_ms": 1500, "known": tokens(0),
            "estimated": tokens(0), "cost": {"known_micros": 0, "estimated_micros": 0}, "outcome": "reset: timeout"});
        let usage = json!({"known": tokens(12_000), "estimated": tokens(0), "attempts": 2, "steps": 1, "time_ms": 125_000,
            "cost": {"known_micros": 1_250_000, "estimated_micros": 100}, "each": [attempt]});
        let used = json!({"steps": 1200, "time_ms": 3_600_000, "tokens": 7, "cost_micros": 0});
        let account = json!({"day": used, "month": used, "month_max": {}, "chat_max": {"tokens": 20_000, "steps": 5},
            "day_max": {"steps": 1300, "time_ms": 7_200_000, "cost_micros": 2_500_000}});
        let told = told(&serde_json::from_value(usage).unwrap(), &serde_json::from_value(account).unwrap());
        expect![[r#"
            2 provider calls; tokens: 12,000 in, 20 out, 3 cached
            not reported, so estimated: 0 in, 20 out, 3 cached
            cost: $1.25 known, $0.0001 estimated
            step 1 attempt 1: reset: timeout after 1.5 s
            in this chat: 1 of 5 steps, 2 minutes of work, 12,054 of 20,000 tokens, cost $1.2501
            today, in all chats: 1,200 of 1,300 steps, 60 of 120 minutes of work, 7 tokens, cost $0.00 of $2.50
            this month: 1,200 steps, 60 minutes of work, 7 tokens, cost $0.00"#]]
        .assert_eq(&told.join("\n"));
    }
}
