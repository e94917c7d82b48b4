//! Suggestions for misspelt names.

/// A suggestion for a parser's error about an unknown field, if a known field is near.
pub fn with_hint(message: &str) -> Option<String> {
    let (_, said) = message.split_once("unknown field ")?;
    let mut quoted = said.split('`').skip(1).step_by(2);
    nearest(quoted.next()?, quoted).map(|known| format!("did you mean `{known}`?"))
}

/// The known name with the least distance, if one is near.
pub fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let nearest = known.map(|known| (distance(unknown, known), known)).min()?;
    let is_near = nearest.0 * 3 <= unknown.chars().count().max(3);
    is_near.then_some(nearest.1)
}

/// Edit distance: letters changed, added, removed or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![(0..=other.len()).collect::<Vec<usize>>()];
    for (i, letter) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, wanted) in other.iter().enumerate() {
            let change = rows[i][j] + usize::from(letter != wanted);
            let mut least = change.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *letter == other[j - 1] && one[i - 1] == *wanted {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let message = |unknown: &str| format!("unknown field `{unknown}`, expected one of `listen`, `hosts`, `model`");
        for (unknown, hint) in
            [("modle", Some("model")), ("host", Some("hosts")), ("Listen", Some("listen")), ("lsiten", Some("listen"))]
        {
            let expected = hint.map(|known| format!("did you mean `{known}`?"));
            assert_eq!(with_hint(&message(unknown)), expected, "{unknown}");
        }
        assert_eq!(with_hint(&message("colour")), None);
        assert_eq!(with_hint("expected a string"), None);
        assert_eq!(with_hint("unknown field `x`, there are no fields"), None);
    }
}
