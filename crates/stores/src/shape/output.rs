//! What a tool gave back.

use std::borrow::Cow;

use everturn_core::message;
use serde::{Deserialize, Serialize};

use super::BadShape;
use super::blob::{BlobId, Blobs, Bytes, required};
use super::value::unset;

#[derive(Serialize, Deserialize)]
pub(super) struct Output<'a> {
    text: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    media: Vec<Media<'a>>,
    #[serde(default, skip_serializing_if = "unset")]
    full: Option<BlobId>,
}

#[derive(Serialize, Deserialize)]
struct Media<'a> {
    #[serde(rename = "type")]
    media_type: Cow<'a, str>,
    bytes: BlobId,
}

impl<'a> Output<'a> {
    pub(super) fn of(message::Output { text, media, full }: &'a message::Output, blobs: &mut Blobs) -> Self {
        let mut medium = |message::Media { media_type, bytes }: &'a message::Media| {
            Some(Media { media_type: media_type.into(), bytes: blobs.put(bytes)? })
        };
        let media = media.iter().filter_map(&mut medium).collect();
        Self { text: text.into(), media, full: full.as_ref().and_then(|full| blobs.put(full)) }
    }

    pub(super) fn wants(&self, wanted: &mut Vec<BlobId>) {
        wanted.extend(self.media.iter().map(|media| media.bytes).chain(self.full));
    }

    pub(super) fn build(self, bytes: &Bytes) -> Result<message::Output, BadShape> {
        let medium = |Media { media_type, bytes: id }: Media<'_>| {
            Ok(message::Media { media_type: media_type.into_owned(), bytes: required(bytes, id)? })
        };
        let media = self.media.into_iter().map(medium).collect::<Result<_, BadShape>>()?;
        let full = self.full.map(|id| required(bytes, id)).transpose()?;
        Ok(message::Output { text: self.text.into_owned(), media, full })
    }
}
