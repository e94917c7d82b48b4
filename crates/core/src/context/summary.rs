//! The words of a compaction.
//!
//! A summary forgets, and what it must not forget are the things a person demanded. So it has a section for those, and
//! once something stands there it is carried over line by line, whatever later summaries make of it.

/// What a model is told when the transcript has to become shorter.
pub const INSTRUCTIONS: &str = "Summarise this conversation so that it can go on from your summary alone. \
    Write down the goals, what was decided and why, what was done and found (files, commands, names, numbers), \
    what failed, and what is still to do. End with a section headed `## Constraints` that lists, one a line and in \
    the user's own words, everything the user demanded, forbade or preferred. Call no tools. Write only the summary.";

/// The instruction for a summary after one that was still too long.
pub const SHORTER: &str = "Summarise this conversation in at most 300 words so that it can go on from your summary \
    alone: the goal, where things stand, what is to be done next. End with a section headed `## Constraints` that \
    lists, one a line and in the user's own words, everything the user demanded, forbade or preferred. Call no tools. \
    Write only the summary.";

const HEADING: &str = "## Constraints";

/// A new summary with every constraint of the earlier one that it left out.
#[must_use]
pub fn keep_constraints(earlier: &str, new: &str) -> String {
    let present: Vec<&str> = new.lines().map(str::trim).collect();
    let lost: Vec<&str> = constraints(earlier).filter(|line| !present.contains(line)).collect();
    let new = new.trim();
    match (lost.is_empty(), constraints_begin(new).is_some()) {
        (true, _) => new.into(),
        (false, true) => format!("{new}\n{}", lost.join("\n")),
        (false, false) => format!("{new}\n\n{HEADING}\n{}", lost.join("\n")),
    }
}

fn constraints_begin(text: &str) -> Option<usize> {
    text.rfind(HEADING)
}

fn constraints(text: &str) -> impl Iterator<Item = &str> {
    let section = constraints_begin(text).map_or("", |at| &text[at + HEADING.len()..]);
    section.lines().map(str::trim).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_are_carried_over_line_by_line() {
        let earlier = "We build a boat.\n\n## Constraints\n- no plastic\n- under 5 m\n";
        let cases = [
            (
                "Boat half done.\n\n## Constraints\n- under 5 m",
                "Boat half done.\n\n## Constraints\n- under 5 m\n- no plastic",
            ),
            ("Boat half done.", "Boat half done.\n\n## Constraints\n- no plastic\n- under 5 m"),
            (
                "Done.\n## Constraints\n- no plastic\n- under 5 m\n- blue",
                "Done.\n## Constraints\n- no plastic\n- under 5 m\n- blue",
            ),
        ];
        for (new, expected) in cases {
            assert_eq!(keep_constraints(earlier, new), expected);
            assert_eq!(keep_constraints(earlier, expected), expected, "once is enough");
        }
        assert_eq!(keep_constraints("", " Only this. "), "Only this.");
    }
}
