//! Ids in running text: `CR25`, and ranges such as `CL38–CL45` or `CR17-20`.

/// Every id a text names, ranges spread out, in order and without repetition.
pub fn ids(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut found: Vec<String> = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let begins = at == 0 || !is_word(chars[at - 1]);
        let Some((prefix, first, mut end)) = begins.then(|| id(&chars, at)).flatten() else {
            at += 1;
            continue;
        };
        let last = range_end(&chars, end, &prefix).map_or(first, |(last, after)| {
            end = after;
            last
        });
        for number in first..=last {
            let id = format!("{prefix}{number:02}");
            if !found.contains(&id) {
                found.push(id);
            }
        }
        at = end;
    }
    found
}

/// Whether the text is one id and nothing else.
pub fn is_id(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    id(&chars, 0).is_some_and(|(_, _, end)| end == chars.len())
}

/// Two capitals and two digits, and the index after them.
fn id(chars: &[char], at: usize) -> Option<(String, u32, usize)> {
    let prefix = chars.get(at..at + 2)?;
    let (number, end) = number(chars, at + 2)?;
    prefix.iter().all(char::is_ascii_uppercase).then(|| (prefix.iter().collect(), number, end))
}

fn number(chars: &[char], at: usize) -> Option<(u32, usize)> {
    let (&tens, &ones) = (chars.get(at)?, chars.get(at + 1)?);
    let end = at + 2;
    if chars.get(end).is_some_and(|&next| is_word(next)) {
        return None;
    }
    Some((tens.to_digit(10)? * 10 + ones.to_digit(10)?, end))
}

/// What follows a dash: `CL45` or just `45`.
fn range_end(chars: &[char], at: usize, prefix: &str) -> Option<(u32, usize)> {
    if !matches!(chars.get(at)?, '-' | '–' | '—') {
        return None;
    }
    match id(chars, at + 1) {
        Some((other, last, end)) => (other == prefix).then_some((last, end)),
        None => number(chars, at + 1),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_whole_words_anywhere() {
        assert_eq!(ids(" CR25, AW24: an interrupt (see also CL01)."), ["CR25", "AW24", "CL01"]);
        assert_eq!(ids("UTF16 XCR25 CR25x CR2 CR255 cr25 CR_25"), Vec::<String>::new());
        assert_eq!(ids("CR25 and again CR25"), ["CR25"]);
    }

    #[test]
    fn ranges_are_spread_out() {
        for range in ["CL38–CL41", "CL38-CL41", "CL38—CL41", "CL38–41", "CL38-41"] {
            assert_eq!(ids(range), ["CL38", "CL39", "CL40", "CL41"], "{range}");
        }
        assert_eq!(ids("CL38-CR02"), ["CL38", "CR02"]);
        assert_eq!(ids("CL38-based, CL40–"), ["CL38", "CL40"]);
        assert_eq!(ids("CL41–CL40"), Vec::<String>::new());
    }

    #[test]
    fn one_id_is_one_id() {
        assert!(is_id("PR01"));
        assert!(!is_id("PR01 ") && !is_id("area") && !is_id("PR1"));
    }
}
