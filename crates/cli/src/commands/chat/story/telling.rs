//! How much of an answer was printed.

use everturn_server::wire::Part;

/// An answer that is being printed.
#[derive(Debug)]
pub struct Telling {
    pub step: u64,
    /// Index of the part that comes next.
    pub at: usize,
    /// How many of its bytes were printed.
    pub fed: usize,
    /// All text printed, to compare a later version of the answer with.
    said: String,
    /// The calls printed: index, id and tool.
    pub calls: Vec<(usize, String, String)>,
    pub attempts: u32,
}

impl Telling {
    pub const fn new(step: u64) -> Self {
        Self { step, at: 0, fed: 0, said: String::new(), calls: Vec::new(), attempts: 0 }
    }

    /// Sets the number of attempts.
    #[must_use]
    pub fn attempted(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }

    /// Notes that this text was printed.
    pub fn feed(&mut self, more: &str) {
        self.fed += more.len();
        self.said.push_str(more);
    }

    /// Whether these parts begin with everything that was printed.
    pub fn fits(&self, parts: &[Part]) -> bool {
        let words = parts.iter().take(self.at + 1).filter_map(|part| match part {
            Part::Text(text) => Some(text.text.as_str()),
            Part::Reasoning(reasoning) => Some(reasoning.text.as_str()),
            _ => None,
        });
        let is_long_enough = parts.len() >= self.at;
        is_long_enough && words.collect::<String>().starts_with(&self.said)
    }

    /// Removes a retracted call; every part after it moves. Returns its tool if the call was printed.
    pub fn retract_call(&mut self, ordinal: u16) -> Option<String> {
        let id = format!("{}.{ordinal}", self.step);
        let place = self.calls.iter().position(|(_, known, _)| *known == id)?;
        let (at, _, tool) = self.calls.remove(place);
        for (place, ..) in self.calls.iter_mut().filter(|(place, ..)| *place > at) {
            *place -= 1;
        }
        self.at -= 1;
        Some(tool)
    }
}
