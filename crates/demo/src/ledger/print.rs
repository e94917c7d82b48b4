//! The books, for people.

use std::collections::BTreeMap;

use everturn::core::cost::Micros;

use super::{Calls, Ledger, Row, total};
use crate::style::Style;
use crate::view::wrapped;

/// It takes less, unless something is wrong with the machine.
const SECONDS_MAX: f64 = 60.0;
/// How wide the names of lines are.
const NAME: usize = 12;

/// The lines of the closing table.
pub(crate) fn table(ledger: &Ledger, style: Style, columns: usize) -> Vec<String> {
    let rows = &ledger.rows;
    let heads =
        format!("{:>7}{:>9}{:>10}{:>10}{:>7}{:>12}", "sent", "stored", "client A", "client B", "lost", "duplicated");
    let mut lines = vec![style.bold(&format!("{:<NAME$}{heads}", "tokens"))];
    let mut wires: Vec<&'static str> = Vec::new();
    for row in rows {
        if !wires.contains(&row.wire) {
            wires.push(row.wire);
        }
    }
    for wire in wires {
        let own: Vec<Row> = rows.iter().filter(|row| row.wire == wire).cloned().collect();
        lines.push(tokens(wire, &own, style));
    }
    lines.push(tokens("all", rows, style));
    lines.push(String::new());
    for (name, told) in
        [("tools", tools(rows)), ("attempts", attempts(rows)), ("paid again", paid(rows)), ("next token", gaps(rows))]
    {
        for (at, line) in wrapped(&told, columns.saturating_sub(NAME + 1)).iter().enumerate() {
            let name = style.bold(&format!("{:<NAME$}", if at == 0 { name } else { "" }));
            lines.push(format!("{name}{line}"));
        }
    }
    lines.push(String::new());
    lines.extend(verdict(ledger, style));
    lines.extend(ledger.wrong.iter().map(|wrong| format!("  {} {wrong}", style.bad("✗"))));
    lines
}

fn tokens(name: &str, rows: &[Row], style: Style) -> String {
    let shown = |client: usize| total(rows, |row| row.shown.get(client).copied().unwrap_or(0));
    let zero = |count: usize, width: usize| {
        let text = format!("{count:>width$}");
        if count == 0 { style.good(&text) } else { style.bad(&text) }
    };
    let (lost, doubled) = (total(rows, |row| row.lost), total(rows, |row| row.duplicated));
    format!(
        "{name:<NAME$}{:>7}{:>9}{:>10}{:>10}{}{}",
        total(rows, |row| row.sent),
        total(rows, |row| row.stored),
        shown(0),
        shown(1),
        zero(lost, 7),
        zero(doubled, 12),
    )
}

fn tools(rows: &[Row]) -> String {
    let sum = |count: fn(&Calls) -> usize| total(rows, |row| count(&row.calls));
    let (once, effects, unknown) =
        (sum(|calls| calls.once), sum(|calls| calls.once_effects), sum(|calls| calls.unknown));
    let none = sum(|calls| calls.once - calls.once_effects.min(calls.once));
    let told = match (unknown, none) {
        (0, _) => String::new(),
        (_, 0) => format!(", of which {unknown} are told as unknown"),
        (_, none) => format!(", of which {unknown} are told as unknown: {none} had none"),
    };
    format!(
        "{} calls, {} done. `note` must not run twice: {effects} effects for {once} calls{told}. Others ran again {} times.",
        sum(|calls| calls.made),
        sum(|calls| calls.done),
        sum(|calls| calls.run_again),
    )
}

fn attempts(rows: &[Row]) -> String {
    let mut rungs: BTreeMap<&str, usize> = BTreeMap::new();
    rows.iter().flat_map(|row| &row.rungs).for_each(|rung| *rungs.entry(rung).or_default() += 1);
    let rungs: Vec<String> = rungs.iter().map(|(rung, times)| format!("{rung} {times}")).collect();
    let attempts: u64 = rows.iter().map(|row| row.attempts).sum();
    format!("{attempts} for {} chats; rungs: {}", rows.len(), rungs.join(", "))
}

fn paid(rows: &[Row]) -> String {
    let cost: u64 = rows.iter().map(|row| row.cost_micros).sum();
    let stopped = total(rows, |row| row.stopped);
    let unsaid = if stopped > 0 { format!(", {stopped} in flight when stop was pressed") } else { String::new() };
    format!(
        "{} tokens{unsaid}; all attempts together cost {} at the prices of real models",
        total(rows, |row| row.paid_again),
        Micros(cost)
    )
}

/// The time from a fault to the next token, by kind of fault: the median and the longest.
fn gaps(rows: &[Row]) -> String {
    let mut scenes: Vec<(&str, Vec<u64>)> = Vec::new();
    for row in rows {
        match scenes.iter_mut().find(|(scene, _)| *scene == row.scene) {
            Some((_, gaps)) => gaps.extend(&row.gaps_ms),
            None => scenes.push((row.scene, row.gaps_ms.clone())),
        }
    }
    let told = scenes.into_iter().filter(|(_, gaps)| !gaps.is_empty()).map(|(scene, mut gaps)| {
        gaps.sort_unstable();
        format!("{scene} {} ({})", gaps[gaps.len() / 2], gaps[gaps.len() - 1])
    });
    format!("after {}; median (longest) in milliseconds", told.collect::<Vec<_>>().join(", "))
}

fn verdict(ledger: &Ledger, style: Style) -> Vec<String> {
    let Ledger { seed, lost, duplicated, seconds, rows, .. } = ledger;
    let is_each_once = rows.iter().all(|row| row.calls.unknown == 0 && row.calls.run_again == 0);
    let tools = if is_each_once { "every tool once" } else { "no tool twice that must not run twice" };
    let words = match ledger.balanced {
        true => style.good(&format!("✓ The ledger balances: lost {lost}, duplicated {duplicated}, {tools}.")),
        false => style.bad(&format!("✗ The ledger does not balance: lost {lost}, duplicated {duplicated}.")),
    };
    let mut lines = vec![words, format!("  It took {seconds:.0} s. To have it again: everturn demo --seed {seed}")];
    if *seconds > SECONDS_MAX {
        lines.push(style.warn("  That is more than a minute: this machine is slow, or busy."));
    }
    lines
}
