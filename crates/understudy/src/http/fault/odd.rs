//! Events in every form that the event-stream format allows, common or not.

use bytes::Bytes;

use super::super::act::Act;

/// Every event in another way than the one before it.
pub(super) fn stream(acts: Vec<Act>) -> Vec<Act> {
    let mut number = 0;
    acts.into_iter().map(|act| rewritten(act, &mut number)).collect()
}

fn rewritten(act: Act, number: &mut usize) -> Act {
    match act {
        Act::Frame(bytes) => {
            *number += 1;
            match str::from_utf8(&bytes) {
                Ok(text) => Act::Frame(written(text, *number)),
                Err(_) => Act::Frame(bytes),
            }
        }
        Act::Once(acts) => Act::Once(acts.into_iter().map(|act| rewritten(act, number)).collect()),
        other => other,
    }
}

/// An event, in the way of its number.
fn written(event: &str, number: usize) -> Bytes {
    let mark = if number == 1 { "\u{feff}" } else { "" };
    let lines = event.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let told = match number % 4 {
        0 => format!("{}\r\r", lines.join("\r")),
        1 => format!(": a comment\nretry: 5\nid: {number}\nwhatever: {number}\nwhatever\n{}\n\n", lines.join("\n")),
        2 => {
            format!("{}\r\n\r\n", lines.iter().map(|line| line.replacen(": ", ":", 1)).collect::<Vec<_>>().join("\r\n"))
        }
        // Between two members of an object a line may end.
        _ => format!(
            "{}\n\n",
            lines.iter().map(|line| line.replacen("data: {", "data: {\ndata: ", 1)).collect::<Vec<_>>().join("\n")
        ),
    };
    format!("{mark}{told}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_written_in_another_way() {
        let event = "event: x\ndata: {\"a\": 1}\n\n";
        let told = (1..=4).map(|number| String::from_utf8(written(event, number).to_vec()).unwrap());
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                "\u{feff}: a comment\nretry: 5\nid: 1\nwhatever: 1\nwhatever\nevent: x\ndata: {\"a\": 1}\n\n",
                "event:x\r\ndata:{\"a\": 1}\r\n\r\n",
                "event: x\ndata: {\ndata: \"a\": 1}\n\n",
                "event: x\rdata: {\"a\": 1}\r\r",
            ]
        );
    }
}
