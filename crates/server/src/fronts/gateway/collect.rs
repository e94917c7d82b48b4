//! A whole answer, for requests without a stream.

use everturn::stores::StoreError;

use super::answer::{AnswerEnd, AnswerPiece, AnswerReader, ClientCall, SealedBy};

/// A block of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AnswerBlock {
    Text(String),
    Reasoning(String, Option<SealedBy>),
    Call(ClientCall),
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WholeAnswer {
    pub blocks: Vec<AnswerBlock>,
    pub end: AnswerEnd,
}

/// Reads an answer to its end.
pub(crate) async fn collect(reader: &mut AnswerReader) -> Result<WholeAnswer, StoreError> {
    let mut blocks = Vec::new();
    loop {
        let news = reader.next().await?;
        news.pieces.into_iter().for_each(|piece| add(piece, &mut blocks));
        if let Some(end) = news.end {
            return Ok(WholeAnswer { blocks, end });
        }
    }
}

fn add(piece: AnswerPiece, blocks: &mut Vec<AnswerBlock>) {
    match (piece, blocks.last_mut()) {
        (AnswerPiece::TextBegan, _) => blocks.push(AnswerBlock::Text(String::new())),
        (AnswerPiece::ReasoningBegan, _) => blocks.push(AnswerBlock::Reasoning(String::new(), None)),
        (AnswerPiece::Call(call), _) => blocks.push(AnswerBlock::Call(call)),
        (AnswerPiece::Text(more), Some(AnswerBlock::Text(text))) => text.push_str(&more),
        (AnswerPiece::Reasoning(more), Some(AnswerBlock::Reasoning(text, _))) => text.push_str(&more),
        (AnswerPiece::ReasoningEnded(seal), Some(AnswerBlock::Reasoning(_, sealed))) => *sealed = seal,
        _ => {} // An end says nothing here, and nothing grows before it began.
    }
}

impl WholeAnswer {
    /// Its text.
    pub(crate) fn text(&self) -> Option<String> {
        let texts: Vec<&str> = self.blocks.iter().filter_map(AnswerBlock::text).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// Its calls.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &ClientCall> {
        self.blocks.iter().filter_map(|block| match block {
            AnswerBlock::Call(call) => Some(call),
            AnswerBlock::Text(_) | AnswerBlock::Reasoning(..) => None,
        })
    }
}

impl AnswerBlock {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Reasoning(..) | Self::Call(_) => None,
        }
    }
}
