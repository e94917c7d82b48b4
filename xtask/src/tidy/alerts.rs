//! Alert rules ask for metrics that there are.
//!
//! A rule with a wrong name never fires, and that looks like a system without trouble. Names and labels are compared with the
//! page of metrics, which a test writes from what is registered; and each rule has to be explained on the page of alerts.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;

/// The rules.
const RULES: &str = "docs/deploy/alerts.yaml";
/// What they mean, and what to do.
const PAGE: &str = "docs/alerts.md";
/// The metrics there are.
const METRICS: &str = "docs/metrics.md";
/// How names of ours begin.
const OURS: &[&str] = &["everturn_", "process_"];
/// Labels that Prometheus adds to every metric.
const ADDED: &[&str] = &["job", "instance"];

/// Checks the rules among these files, if they are among them. Each comes with its text.
pub fn check(files: &BTreeMap<&str, &str>) -> Vec<Violation> {
    let text = |path| files.get(path).copied().unwrap_or_default();
    let metrics = metrics(text(METRICS));
    let mut violations = Vec::new();
    for path in [RULES, PAGE] {
        for (index, line) in text(path).lines().enumerate() {
            let wrong = selectors(line).into_iter().filter_map(|selector| selector.wrong(&metrics));
            violations.extend(wrong.map(|what| Violation::new(path, index + 1, what)));
        }
    }
    for (index, line) in text(RULES).lines().enumerate() {
        if let Some(name) = line.trim().strip_prefix("- alert: ")
            && !text(PAGE).contains(&format!("`{name}`"))
        {
            let what = format!("{PAGE} does not say what to do about {name}: add a row");
            violations.push(Violation::new(RULES, index + 1, what));
        }
    }
    violations
}

/// A metric and the labels it is asked by.
#[derive(Debug, PartialEq, Eq)]
struct Selector<'a> {
    name: &'a str,
    labels: Vec<&'a str>,
}

impl Selector<'_> {
    fn wrong(&self, metrics: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
        let Some(known) = metrics.get(self.name) else {
            return Some(format!("{} is not in {METRICS}: name a metric that there is", self.name));
        };
        let label = self.labels.iter().find(|label| !known.contains(**label) && !ADDED.contains(label))?;
        Some(format!("{} has no label {label}: {METRICS} has its labels", self.name))
    }
}

/// The metrics of the page by the names they are shown under, with their labels.
fn metrics(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut metrics = BTreeMap::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, _] = cells[..] else { continue };
        let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) else { continue };
        let labels: BTreeSet<String> =
            labels.split(',').map(|label| label.trim().to_owned()).filter(|label| !label.is_empty()).collect();
        if kind == "histogram" {
            for end in ["_bucket", "_sum", "_count"] {
                metrics.insert(format!("{name}{end}"), labels.clone());
            }
        }
        metrics.insert(name.to_owned(), labels);
    }
    metrics
}

/// The metrics that a line names, with the labels in the braces behind each.
fn selectors(line: &str) -> Vec<Selector<'_>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(begin) = rest.find(is_part) {
        rest = &rest[begin..];
        let (name, behind) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
        rest = behind;
        if OURS.iter().any(|ours| name.starts_with(ours)) {
            let braces =
                behind.strip_prefix('{').and_then(|inner| inner.split_once('}')).map_or("", |(inner, _)| inner);
            // `a="b", c=~"d|e"`: a name stands before each sign, outside of quotes.
            let outside = braces.split('"').step_by(2);
            let labels = outside.map(|text| text.trim_matches(|c| !is_part(c))).filter(|name| !name.is_empty());
            found.push(Selector { name, labels: labels.collect() });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS_PAGE: &str = "| name | type | labels | meaning |\n|---|---|---|---|\n\
        | `everturn_turn_failures_total` | counter | kind, model | Turns |\n| `everturn_ttft_seconds` | histogram |  | Time |\n";

    fn found(rules: &str, page: &str) -> Vec<String> {
        let files = BTreeMap::from([(RULES, rules), (PAGE, page), (METRICS, METRICS_PAGE)]);
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rules_may_name_what_there_is() {
        let rules = "- alert: Slow\n  expr: sum by (le) (rate(everturn_ttft_seconds_bucket[5m])) > 1\n\
            - alert: Fails\n  expr: everturn_turn_failures_total{kind=~\"a|b\", model!=\"c_d\", job=\"e\"} > 0\n";
        assert_eq!(found(rules, "| `Slow` | `everturn_ttft_seconds` |\n| `Fails` | |"), Vec::<String>::new());
    }

    #[test]
    fn unknown_names_labels_and_rules_are_found() {
        let rules = "- alert: A\n  expr: up + everturn_gone > everturn_turn_failures_total{tool=\"x\"}\n";
        let expected = [
            "docs/deploy/alerts.yaml:2: everturn_gone is not in docs/metrics.md: name a metric that there is",
            "docs/deploy/alerts.yaml:2: everturn_turn_failures_total has no label tool: docs/metrics.md has its labels",
            "docs/deploy/alerts.yaml:1: docs/alerts.md does not say what to do about A: add a row",
        ];
        assert_eq!(found(rules, ""), expected);
    }
}
