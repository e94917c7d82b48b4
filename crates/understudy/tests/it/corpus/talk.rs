//! A conversation before it has a format, and chance that can be had again.

/// Numbers from a seed (SplitMix64).
pub struct Dice(u64);

impl Dice {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A place below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// What was said.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    User(String),
    Reply { thoughts: Vec<Thought>, text: String, calls: Vec<Called> },
    Result { id: String, text: String },
    Summary(String),
}

/// Thinking with its signature.
#[derive(Debug, Clone, PartialEq)]
pub struct Thought {
    pub text: String,
    pub signature: String,
}

/// A call; its input as text, which may be anything.
#[derive(Debug, Clone, PartialEq)]
pub struct Called {
    pub id: String,
    pub input: String,
}

/// A conversation.
#[derive(Debug, Clone)]
pub struct Talk(pub Vec<Said>);

impl Talk {
    /// Some turns with calls, every one answered, and a last answer.
    pub fn healthy(dice: &mut Dice) -> Self {
        let (mut talk, mut calls) = (Self(Vec::new()), 0);
        for turn in 0..2 + dice.below(3) {
            talk.say(&format!("Question {turn}, please."));
            for step in 0..1 + dice.below(3) {
                let ids: Vec<String> = (0..1 + dice.below(3)).map(|n| format!("toolu_{}", calls + n)).collect();
                calls += ids.len();
                let called = ids.iter().map(|id| Called { id: id.clone(), input: format!("{{\"n\":{step}}}") });
                let thoughts = vec![Thought { text: format!("Hm {turn}.{step}."), signature: signature(dice) }];
                talk.0.push(Said::Reply { thoughts, text: "Let me look.".into(), calls: called.collect() });
                talk.0.extend(ids.into_iter().map(|id| Said::Result { text: format!("seen by {id}"), id }));
            }
            let text = format!("Answer {turn}.");
            talk.0.push(Said::Reply { thoughts: Vec::new(), text, calls: Vec::new() });
        }
        talk
    }

    pub fn say(&mut self, text: &str) {
        self.0.push(Said::User(text.into()));
    }

    /// The place of one of those that are meant.
    pub fn one(&self, dice: &mut Dice, is_meant: impl Fn(&Said) -> bool) -> usize {
        let places: Vec<usize> = (0..self.0.len()).filter(|at| is_meant(&self.0[*at])).collect();
        places[dice.below(places.len())]
    }

    pub fn a_result(&self, dice: &mut Dice) -> usize {
        self.one(dice, |said| matches!(said, Said::Result { .. }))
    }

    /// A reply with calls.
    pub fn a_step(&self, dice: &mut Dice) -> usize {
        self.one(dice, |said| matches!(said, Said::Reply { calls, .. } if !calls.is_empty()))
    }
}

/// A signature as long and as shaped as real ones.
fn signature(dice: &mut Dice) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    (0..64).map(|_| char::from(LETTERS[dice.below(64)])).collect()
}
