//! Exceptions, each with its reason.
//!
//! A rule without exceptions gets switched off the first time it is wrong. So a file may carry a comment line of its own,
//! `tidy: allow(term) because reason`, which excuses that term in that file. A marker without a reason, or one that
//! excuses nothing any more, is itself a violation.

use super::Violation;

/// Takes away what the file's markers excuse, and adds what is wrong with the markers.
pub fn apply(path: &str, text: &str, violations: Vec<Violation>) -> Vec<Violation> {
    let (mut markers, mut kept) = (Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        match Marker::read(line) {
            Some(Ok(term)) => markers.push(Marker { term, line: index + 1, used: false }),
            Some(Err(what)) => kept.push(Violation::new(path, index + 1, what)),
            None => {}
        }
    }
    for violation in violations {
        match markers.iter_mut().find(|marker| violation.term.as_deref() == Some(marker.term)) {
            Some(marker) => marker.used = true,
            None => kept.push(violation),
        }
    }
    kept.extend(markers.iter().filter(|marker| !marker.used).map(|marker| {
        Violation::new(path, marker.line, format!("nothing here needs allow({}): delete the marker", marker.term))
    }));
    kept
}

struct Marker<'a> {
    term: &'a str,
    line: usize,
    used: bool,
}

impl Marker<'_> {
    fn read(line: &str) -> Option<Result<&str, &'static str>> {
        let line = line.trim();
        let rest = ["// tidy:", "# tidy:", "<!-- tidy:"].iter().find_map(|start| line.strip_prefix(start))?;
        let Some((term, reason)) = rest.trim().strip_prefix("allow(").and_then(|rest| rest.split_once(')')) else {
            return Some(Err("a marker reads `tidy: allow(term) because reason`: write it so"));
        };
        let reason = reason.trim().strip_prefix("because").map(|reason| reason.trim_end_matches("-->").trim());
        match reason {
            Some(reason) if !reason.is_empty() => Some(Ok(term)),
            Some(_) | None => Some(Err("the marker gives no reason: add `because …`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::found;

    #[test]
    fn a_marker_with_a_reason_excuses_its_term() {
        assert!(
            found("a.rs", "// tidy: allow(mock) because the crate under test is called so\nstruct Mock;").is_empty()
        );
    }

    #[test]
    fn a_marker_excuses_nothing_else() {
        let found = found("a.rs", "// tidy: allow(mock) because it is the name\nstruct MockEpisode;");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("2: `MockEpisode` says episode"), "{found:?}");
    }

    #[test]
    fn markers_need_reasons_and_uses() {
        assert_eq!(found("a.rs", "// tidy: allow(mock)\n"), ["1: the marker gives no reason: add `because …`"]);
        assert_eq!(found("a.rs", "// tidy: allow(mock) because\n"), ["1: the marker gives no reason: add `because …`"]);
        assert_eq!(
            found("a.rs", "// tidy: allow(mock) because of old times\n"),
            ["1: nothing here needs allow(mock): delete the marker"]
        );
        assert_eq!(
            found("a.rs", "// tidy: ignore this\n"),
            ["1: a marker reads `tidy: allow(term) because reason`: write it so"]
        );
    }
}
