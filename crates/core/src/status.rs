//! Where a chat stands, and what may happen there.
//!
//! Every pair of status and verb is decided here, in one table without a wildcard: a new verb does not compile until it
//! is decided for every status. One test walks all cells and writes `docs/states.md`.

use std::fmt;

use Status::{Awaiting, Failed, Idle, Interrupting, Running};
use Verb::{
    Answer, Archive, Ask, Begin, Commit, Compact, Edit, Fail, Finish, Interrupt, Promote, Rename, Resume, Send,
    SendNow, Settle, Steer, Unarchive, Unqueue,
};

/// Where a chat stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Status {
    /// Nothing to do until a message arrives.
    #[default]
    Idle,
    /// A turn is under way.
    Running,
    /// A turn is being stopped; what was shown is being kept.
    Interrupting,
    /// A turn rests until an answer arrives: a client tool's result, an approval.
    Awaiting,
    /// The last turn ended with an error.
    Failed,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Idle => "idle",
            Running => "running",
            Interrupting => "being stopped",
            Awaiting => "waiting for an answer",
            Failed => "failed",
        })
    }
}

/// What can be asked of a chat, or done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Say something; when busy, after the turn.
    Send,
    /// Say something; when busy, at the next step boundary.
    Steer,
    /// Say something now; when busy, interrupt first.
    SendNow,
    /// Make a queued message the next one, at the next step boundary.
    Promote,
    /// Delete a queued message.
    Unqueue,
    /// Stop the turn and keep what was shown. Without a turn under way it has no effect.
    Interrupt,
    /// Give the result of a client tool, or approve or deny a call.
    Answer,
    /// Replace a message and everything after it.
    Edit,
    /// Summarise the transcript.
    Compact,
    /// Put the chat away.
    Archive,
    /// Take it out again.
    Unarchive,
    /// Call the chat something else, or have it ask another model.
    Rename,
    /// The driver: promote a queued message into the transcript.
    Begin,
    /// The driver: commit a reply, a result, an attempt.
    Commit,
    /// The driver: rest until an answer arrives.
    Ask,
    /// The driver: everything asked is answered, or too late.
    Resume,
    /// The driver: keep the interrupted draft, answer open calls.
    Settle,
    /// The driver: the turn is over.
    Finish,
    /// The driver: the turn ended with an error.
    Fail,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 5] = [Idle, Running, Interrupting, Awaiting, Failed];
}

impl Status {
    /// The status that is shown while commands wait to be obeyed. A chat at rest to which one of them gives something to do
    /// looks busy from the moment that was accepted.
    #[must_use]
    pub const fn shown(self, begins_a_turn: bool) -> Self {
        match self {
            Idle | Failed if begins_a_turn => Running,
            Idle | Failed | Running | Interrupting | Awaiting => self,
        }
    }
}

impl Verb {
    /// All of them: first what others may ask, then what the driver does.
    pub const ALL: [Self; 19] = [
        Send, Steer, SendNow, Promote, Unqueue, Interrupt, Answer, Edit, Compact, Archive, Unarchive, Rename, Begin,
        Commit, Ask, Resume, Settle, Finish, Fail,
    ];
}

/// What cannot be done, behind "cannot".
impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Send | SendNow => "be sent a message",
            Steer => "be steered",
            Promote => "have a queued message moved up",
            Unqueue => "have a queued message deleted",
            Interrupt => "be stopped",
            Answer => "take an answer",
            Edit => "have a message edited",
            Compact => "be summarised",
            Archive => "be archived",
            Unarchive => "be unarchived",
            Rename => "be renamed",
            Begin => "begin a turn",
            Commit => "commit a step",
            Ask => "wait for an answer",
            Resume => "go on",
            Settle => "keep an interrupted draft",
            Finish => "finish",
            Fail => "fail",
        })
    }
}

/// The status after `verb`, or `None` if it may not happen.
#[must_use]
pub const fn next(from: Status, verb: Verb) -> Option<Status> {
    match (from, verb) {
        (Idle | Failed, Send | Steer | SendNow | Edit | Compact | Begin) => Some(Running),
        (Idle, Archive | Unarchive | Rename) => Some(Idle),
        (Idle, Interrupt) => Some(Idle), // Nothing is under way, so it is stopped already.
        (Idle, Promote | Unqueue | Answer | Commit | Ask | Resume | Settle | Finish | Fail) => None,

        (Failed, Promote) => Some(Running),
        (Failed, Unqueue | Interrupt | Archive | Unarchive | Rename) => Some(Failed),
        (Failed, Answer | Commit | Ask | Resume | Settle | Finish | Fail) => None,

        (Running, Send | Steer | Promote | Unqueue | Edit | Rename | Begin | Commit) => Some(Running),
        (Running, SendNow | Interrupt) => Some(Interrupting),
        (Running, Ask) => Some(Awaiting),
        (Running, Finish) => Some(Idle),
        (Running, Fail) => Some(Failed),
        (Running, Answer | Compact | Archive | Unarchive | Resume | Settle) => None,

        (Interrupting, Send | Steer | SendNow | Promote | Unqueue | Interrupt | Rename | Commit) => Some(Interrupting),
        (Interrupting, Edit) => Some(Running), // What would be kept is rewound anyway.
        (Interrupting, Settle) => Some(Idle),
        (Interrupting, Answer | Compact | Archive | Unarchive | Begin | Ask | Resume | Finish | Fail) => None,

        (Awaiting, Send | Steer | Promote | Unqueue | Answer | Rename | Commit) => Some(Awaiting),
        (Awaiting, SendNow | Interrupt) => Some(Interrupting),
        (Awaiting, Edit | Resume) => Some(Running),
        (Awaiting, Compact | Archive | Unarchive | Begin | Ask | Settle | Finish | Fail) => None,
    }
}

/// Whether an archived chat takes `verb`: it rests, whatever its status.
#[must_use]
pub const fn archived_takes(verb: Verb) -> bool {
    match verb {
        Archive | Unarchive | Rename | Interrupt => true,
        Send | Steer | SendNow | Promote | Unqueue | Answer | Edit | Compact => false,
        Begin | Commit | Ask | Resume | Settle | Finish | Fail => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn table() -> String {
        let mut page = String::from(
            "# Status and verb\n\nWritten by the test in `crates/core/src/status.rs` from the table itself; run it with \
             `UPDATE_EXPECT=1` to write it anew.\nAn empty cell is refused. An archived chat takes only what its column \
             says, whatever its status.\n\n| verb |",
        );
        for status in Status::ALL {
            write!(page, " {status:?} |").unwrap();
        }
        page.push_str(" archived |\n|---|---|---|---|---|---|---|\n");
        for verb in Verb::ALL {
            write!(page, "| {verb:?} |").unwrap();
            for status in Status::ALL {
                match next(status, verb) {
                    Some(next) => write!(page, " {next:?} |").unwrap(),
                    None => page.push_str("  |"),
                }
            }
            page.push_str(if archived_takes(verb) { " yes |\n" } else { "  |\n" });
        }
        page
    }

    /// CS09, CS10: every cell is decided, and the page shows what the code does.
    #[test]
    fn every_cell_is_decided_and_the_page_says_how() {
        expect_test::expect_file!["../../../docs/states.md"].assert_eq(&table());
    }

    #[test]
    fn all_lists_name_each_once() {
        let verbs: std::collections::HashSet<_> = Verb::ALL.into_iter().collect();
        assert_eq!(verbs.len(), Verb::ALL.len());
        let statuses: std::collections::HashSet<_> = Status::ALL.into_iter().collect();
        assert_eq!(statuses.len(), Status::ALL.len());
    }

    #[test]
    fn from_everywhere_there_is_a_way_to_rest() {
        for start in Status::ALL {
            let mut reached = vec![start];
            let mut i = 0;
            while i < reached.len() {
                let found: Vec<_> = Verb::ALL.iter().filter_map(|verb| next(reached[i], *verb)).collect();
                reached.extend(found.into_iter().filter(|s| !reached.contains(s)).collect::<Vec<_>>());
                i += 1;
            }
            assert!(reached.contains(&Idle), "{start:?} never comes to rest");
        }
    }
}
