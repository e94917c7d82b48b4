//! What was said in one answer, word by word.

use everturn_core::delta::Delta;

/// The most bytes of an answer that are written down.
const SAID_BYTES_MAX: usize = 4 << 20;

/// What went out in one answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SentAnswer {
    /// Its words.
    pub text: String,
    /// Its thoughts.
    pub thoughts: String,
    /// Its calls: the tool, and as much of the input.
    pub calls: Vec<(String, String)>,
}

impl SentAnswer {
    pub(crate) fn push(&mut self, delta: &Delta) {
        let inputs = self.calls.iter().map(|(_, input)| input.len()).sum::<usize>();
        if self.text.len() + self.thoughts.len() + inputs > SAID_BYTES_MAX {
            return;
        }
        match delta {
            Delta::Text(text) => self.text.push_str(text),
            Delta::Reasoning(text) => self.thoughts.push_str(text),
            Delta::CallBegan(call) => self.calls.push((call.tool.clone(), String::new())),
            Delta::CallInput { json, .. } => {
                if let Some((_, input)) = self.calls.last_mut() {
                    input.push_str(json);
                }
            }
            _ => {}
        }
    }
}
