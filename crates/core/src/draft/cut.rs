//! Whether a call's input ends before it is over.
//!
//! A provider may close a call with unfinished input. Repairing such an input would complete what did not
//! arrive: `{"path":"/notes/old` is a prefix of every path below it. So an input that ends inside a string,
//! an object or an array is cut, and a cut call never runs.

/// Whether some input, JSON or almost JSON, ends inside a string, an object or an array.
///
/// Every strict prefix of a JSON object is cut. What models get wrong is read as a repair would read it: other quotes,
/// comments, a bracket left out before the one around it. A quote ends a string only before what may follow a string, so
/// that a quote that was not escaped does not hide the end. In doubt an input is cut: then the model is asked to call again.
pub(super) fn is_cut(input: &str) -> bool {
    let Some(start) = input.find(['{', '[', '"', '\'']) else { return false };
    let mut rest = input[start..].chars();
    let mut closers = Vec::new(); // What closes the open objects and arrays.
    let mut string = None; // The quote that opened the string.
    let (mut before, mut token) = (' ', ' '); // The character before, and the last one that is no white space.
    while let Some(char) = rest.next() {
        match (string, char) {
            (Some(_), '\\') => drop(rest.next()),
            (Some(quote), _) if same_quote(quote, char) && may_end_string(rest.as_str()) => {
                (string, token) = (None, '"')
            }
            (Some(_), _) => {}
            (None, '/') if rest.as_str().starts_with('/') && before != ':' => skip_past(&mut rest, "\n"),
            (None, '/') if rest.as_str().starts_with('*') => skip_past(&mut rest, "*/"),
            (None, '{') => closers.push('}'),
            (None, '[') => closers.push(']'),
            (None, '}' | ']') => {
                let open = closers.iter().rposition(|closer| *closer == char);
                closers.truncate(open.unwrap_or(closers.len()));
                if closers.is_empty() {
                    return false;
                }
            }
            (None, '"') => string = Some(char),
            (None, _) if is_quote(char) && matches!(token, ' ' | '{' | '[' | ',' | ':') => string = Some(char),
            (None, _) => {}
        }
        before = char;
        if string.is_none() && !char.is_whitespace() {
            token = char;
        }
    }
    string.is_some() || !closers.is_empty()
}

const DOUBLE: [char; 3] = ['"', '“', '”'];
const SINGLE: [char; 5] = ['\'', '‘', '’', '`', '´'];

fn is_quote(char: char) -> bool {
    DOUBLE.contains(&char) || SINGLE.contains(&char)
}

fn same_quote(open: char, close: char) -> bool {
    [&DOUBLE[..], &SINGLE[..]].iter().any(|quotes| quotes.contains(&open) && quotes.contains(&close))
}

fn may_end_string(rest: &str) -> bool {
    matches!(rest.trim_start().chars().next(), None | Some(',' | ':' | '}' | ']'))
}

fn skip_past(rest: &mut std::str::Chars<'_>, end: &str) {
    *rest = rest.as_str().split_once(end).map_or("", |(_, after)| after).chars();
}
