//! Calls, put together from their pieces.
//!
//! A piece says by its index which call it belongs to, by its id, by both, or by nothing but its place. A call is told of
//! when its input begins, because its name may come in pieces too, and it is over when the JSON of its input is. What is
//! ambiguous is refused: two calls that cannot be told apart must not become one.

use everturn_core::delta::{CallBegan, Delta};
use everturn_core::message::{Meta, RunBy};

use super::chunk::{CallPiece, Function};
use super::closing::Closing;
use super::finish::Finish;
use crate::provider::Frame;
use crate::wire::halves::beyond;

/// The calls of one answer. The slot of each is its place here.
#[derive(Debug, Default)]
pub(super) struct CallList {
    list: Vec<Call>,
    cut: bool,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u32>,
    id: String,
    name: String,
    input: String,
    /// How many bytes of the input were handed on.
    given: usize,
    json: Closing,
    told: Told,
}

/// How much of a call was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Told {
    #[default]
    Nothing,
    /// The beginning was sent.
    Begun,
    /// The end was sent.
    Over,
}

/// What some send before the real input.
const PLACEHOLDER: &str = "{}";

/// Calls an answer may have.
const CALLS_MAX: usize = 1024;

type Taken<T = ()> = Result<T, &'static str>;

impl CallList {
    /// Takes the pieces of one chunk.
    pub fn take(
        &mut self,
        pieces: Option<Vec<CallPiece<'_>>>,
        legacy: Option<Function<'_>>,
        out: &mut Vec<Frame>,
    ) -> Taken {
        let mut touched = Vec::new();
        let legacy = legacy.map(|function| CallPiece { function: Some(function), ..CallPiece::default() });
        for piece in pieces.unwrap_or_default().into_iter().chain(legacy) {
            self.piece(piece, &mut touched, out)?;
        }
        Ok(())
    }

    fn piece(&mut self, piece: CallPiece<'_>, touched: &mut Vec<usize>, out: &mut Vec<Frame>) -> Taken {
        let CallPiece { index, id, function } = piece;
        let Function { name, arguments } = function.unwrap_or_default();
        let (index, id, name) = (index.index(), id.text(), name.text());
        let input = arguments.written(); // Some send an object instead of the text that says it.
        let slot = match self.continued(index, id, name, &input, touched)? {
            Some(slot) => slot,
            None if self.list.len() >= CALLS_MAX => return Err("more calls than an answer can have"),
            None => {
                self.list.push(Call { index, ..Call::default() });
                self.list.len() - 1
            }
        };
        touched.push(slot);
        if !input.is_empty() {
            self.begin_before(slot, out);
        }
        let call = &mut self.list[slot];
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        call.name(name)?;
        call.input(slot, &input, out)
    }

    /// Calls are sent in the order of their slots, also those with late input, or none.
    fn begin_before(&mut self, slot: usize, out: &mut Vec<Frame>) {
        let earlier = self.list[..slot].iter_mut().enumerate();
        earlier.filter(|(_, call)| !call.name.is_empty()).for_each(|(slot, call)| call.begin(slot, out));
    }

    /// The call that a piece goes on with; none if it begins one.
    fn continued(
        &self,
        index: Option<u32>,
        id: &str,
        name: &str,
        input: &str,
        touched: &[usize],
    ) -> Taken<Option<usize>> {
        let same = |call: &Call| match (index, id) {
            (Some(index), _) => call.index == Some(index),
            (None, "") => true,
            (None, id) => call.id == id,
        };
        let Some(slot) = self.list.iter().rposition(same) else { return Ok(None) };
        let call = &self.list[slot];
        if index.is_none() && touched.contains(&slot) {
            return Ok(None); // Two pieces of one chunk are two calls, unless they say otherwise.
        }
        let whole = call.json == Closing::Over;
        let another = !id.is_empty() && !call.id.is_empty() && call.id != id && !name.is_empty();
        let next = id.is_empty() && !name.is_empty() && whole && (name != call.name || !input.is_empty());
        match (another || next, whole) {
            (false, _) => Ok(Some(slot)),
            (true, true) => Ok(None),
            (true, false) => Err("two calls in one place, and the first of them is not over"),
        }
    }

    /// The answer is over: what was held back is told, and what evidently is whole is over too.
    pub fn settle(&mut self, finish: &Finish, out: &mut Vec<Frame>) -> Taken {
        for (slot, call) in self.list.iter_mut().enumerate().filter(|(_, call)| call.is_open()) {
            if call.name.is_empty() {
                return Err("a call without a name");
            }
            call.begin(slot, out);
            call.give(slot, out);
            let whole = match call.json {
                Closing::Over => true,
                Closing::Within { .. } => false,
                // Nothing, which means no input, or nonsense, which is for the tool to refuse.
                Closing::Before | Closing::Other => *finish != Finish::Length,
            };
            if whole {
                call.end(slot, out);
            }
            self.cut |= !whole;
        }
        Ok(())
    }

    /// Whether a call was cut off, whatever the finish reason says.
    pub const fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether there is a call that is not over.
    pub fn is_open(&self) -> bool {
        self.list.iter().any(Call::is_open)
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.list.iter().any(|call| call.told != Told::Nothing)
    }

    /// Whether there are calls, and all of them are over.
    pub fn are_whole(&self) -> bool {
        self.any() && !self.is_open()
    }
}

impl Call {
    /// A name, or a piece of one, or the same once more.
    fn name(&mut self, name: &str) -> Taken {
        if name.is_empty() || name == self.name {
            return Ok(());
        }
        if self.told != Told::Nothing {
            return Err("a call that changes its name");
        }
        if name.starts_with(&self.name) {
            name.clone_into(&mut self.name);
        } else {
            self.name.push_str(name);
        }
        Ok(())
    }

    fn input(&mut self, slot: usize, piece: &str, out: &mut Vec<Frame>) -> Taken {
        if piece.is_empty() {
            return Ok(());
        }
        let begins = piece.trim_start().starts_with('{');
        if begins && self.is_held() {
            self.input.clear();
            self.json = Closing::default();
        }
        if self.json == Closing::Over {
            // Some repeat the whole at the end, or add a tag of their own. A second object would be another call's.
            return if begins && beyond(piece, &self.input) != Some("") {
                Err("two inputs for one call")
            } else {
                Ok(())
            };
        }
        let (piece, rest) = piece.split_at(self.json.push(piece));
        self.input.push_str(piece);
        if self.name.is_empty() || self.is_held() {
            return Ok(()); // The name, or the input, may still come.
        }
        self.begin(slot, out);
        self.give(slot, out);
        if self.json == Closing::Over {
            self.end(slot, out);
        }
        self.input(slot, rest, out)
    }

    fn begin(&mut self, slot: usize, out: &mut Vec<Frame>) {
        if self.told == Told::Nothing {
            self.told = Told::Begun;
            let (slot, provider_id, tool) = (number(slot), self.id.clone(), self.name.clone());
            let call = CallBegan { slot, provider_id, tool, run_by: RunBy::Us, meta: Meta::new() };
            out.push(Frame::Delta(Delta::CallBegan(Box::new(call))));
        }
    }

    /// Hands on the input so far.
    fn give(&mut self, slot: usize, out: &mut Vec<Frame>) {
        if self.given < self.input.len() {
            let json = self.input[self.given..].to_owned();
            self.given = self.input.len();
            out.push(Frame::Delta(Delta::CallInput { slot: number(slot), json }));
        }
    }

    fn end(&mut self, slot: usize, out: &mut Vec<Frame>) {
        self.told = Told::Over;
        out.push(Frame::Delta(Delta::CallEnded { slot: number(slot) }));
    }

    fn is_open(&self) -> bool {
        self.told != Told::Over && !(self.name.is_empty() && self.input.is_empty())
    }

    /// Whether all there is may be a placeholder.
    fn is_held(&self) -> bool {
        self.given == 0 && self.input.trim() == PLACEHOLDER
    }
}

fn number(slot: usize) -> u32 {
    u32::try_from(slot).expect("there are no more than CALLS_MAX calls")
}
