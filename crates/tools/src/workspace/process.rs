//! The confined process of the file tools: one request on standard input, one reply on standard output.

use std::io::{Read as _, Write as _};

use super::files::FileContext;
use super::state::ChatState;
use crate::wire::{FileJob, FileReply};

/// Answers one request for the directory it was started in.
pub(crate) fn main() -> i32 {
    let mut request = Vec::new();
    let read = std::io::stdin().read_to_end(&mut request).map_err(|error| error.to_string());
    let job = read.and_then(|_| serde_json::from_slice(&request).map_err(|error| error.to_string()));
    let reply = match (job, std::env::current_dir()) {
        (Ok(FileJob { state, lock, nested, request }), Ok(root)) => {
            FileContext { root, state: ChatState::new(state), lock }.answer_with_notes(request, nested.as_ref())
        }
        (Err(error), _) => FileReply::Refused(error),
        (_, Err(error)) => FileReply::Refused(format!("the workspace is not there: {error}")),
    };
    let written = serde_json::to_vec(&reply).map(|reply| std::io::stdout().write_all(&reply));
    i32::from(!matches!(written, Ok(Ok(()))))
}
