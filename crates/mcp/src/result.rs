//! A tool's result, as a model reads it.
//!
//! Text is joined; images and sounds become media; links and files are named. Structured content is shown only where there
//! is no text, because servers repeat it as text, and is kept for clients in any case. Parts that are for people alone are
//! kept and not shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everturn::core::message::{Media, Meta};
use everturn::{ToolError, ToolOutput};
use rmcp::model::{Annotations, CallToolResult, ContentBlock, ResourceContents, Role};
use serde_json::{Value, json};

/// The key of what is kept beside a result.
const META_KEY: &str = "mcp";
/// The type of bytes that have none.
const ANY_TYPE: &str = "application/octet-stream";

/// What a model and clients get of a result.
#[derive(Default)]
struct Collected {
    texts: Vec<String>,
    media: Vec<Media>,
    for_people: Vec<Value>,
}

/// The output of a call, or the error that the tool reports. `schema` is of its structured content.
pub(crate) fn output(result: CallToolResult, schema: Option<&Value>) -> Result<ToolOutput, ToolError> {
    let mut collected = Collected::default();
    for part in result.content {
        match is_for_people(&part) {
            true => collected.for_people.extend(serde_json::to_value(&part).ok()),
            false => collected.push(part),
        }
    }
    let Collected { mut texts, media, for_people } = collected;
    let structured = result.structured_content;
    if let Some(content) = structured.as_ref().filter(|_| texts.is_empty() && media.is_empty()) {
        texts.push(content.to_string());
    }
    if let Some(note) = schema.zip(structured.as_ref()).and_then(|(schema, content)| misfit(schema, content)) {
        texts.push(note);
    }
    let bytes = texts.join("\n\n").into_bytes();
    let mut kept = serde_json::Map::new();
    kept.extend(structured.map(|content| ("structured_content".to_owned(), content)));
    kept.extend(result.meta.map(|meta| ("_meta".to_owned(), Value::Object(meta.0))));
    if !for_people.is_empty() {
        kept.insert("for_people".into(), json!(for_people));
    }
    let mut meta = Meta::new();
    if !kept.is_empty() {
        meta.insert(META_KEY.into(), Value::Object(kept));
    }
    if result.is_error == Some(true) {
        let mut message = String::from_utf8_lossy(&bytes).into_owned();
        if message.trim().is_empty() {
            message = "The tool failed and did not say why.".into();
        }
        return Err(ToolError { meta, ..ToolError::new(message) });
    }
    Ok(ToolOutput { bytes, media, meta })
}

/// A note that structured content does not fit the tool's own schema. A schema that cannot be used says nothing.
fn misfit(schema: &Value, content: &Value) -> Option<String> {
    let validator = jsonschema::validator_for(schema).ok()?;
    let error = validator.validate(content).err()?;
    Some(format!("[This result does not fit the tool's own output schema: {error}]"))
}

fn is_for_people(part: &ContentBlock) -> bool {
    let annotations: Option<&Annotations> = match part {
        ContentBlock::Text(text) => text.annotations.as_ref(),
        ContentBlock::Image(image) => image.annotations.as_ref(),
        ContentBlock::Audio(audio) => audio.annotations.as_ref(),
        ContentBlock::Resource(resource) => resource.annotations.as_ref(),
        ContentBlock::ResourceLink(link) => link.annotations.as_ref(),
        _ => None,
    };
    let audience = annotations.and_then(|annotations| annotations.audience.as_ref());
    audience.is_some_and(|audience| !audience.is_empty() && audience.iter().all(|role| *role == Role::User))
}

impl Collected {
    fn push(&mut self, part: ContentBlock) {
        match part {
            ContentBlock::Text(text) => self.texts.push(text.text),
            ContentBlock::Image(image) => self.bytes(&image.mime_type, &image.data, "an image"),
            ContentBlock::Audio(audio) => self.bytes(&audio.mime_type, &audio.data, "a sound"),
            ContentBlock::ResourceLink(link) => {
                let kind = link.mime_type.map(|kind| format!(" ({kind})")).unwrap_or_default();
                self.texts.push(format!("{} <{}>{kind}", link.name, link.uri));
            }
            ContentBlock::Resource(resource) => match resource.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    self.texts.push(format!("<{uri}>\n{text}"));
                }
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    let kind = mime_type.unwrap_or_else(|| ANY_TYPE.into());
                    self.texts.push(format!("<{uri}> ({kind})"));
                    self.bytes(&kind, &blob, "a file");
                }
                _ => self.texts.push("[a resource of an unknown kind]".into()),
            },
            _ => self.texts.push("[content of an unknown kind]".into()),
        }
    }

    fn bytes(&mut self, kind: &str, encoded: &str, what: &str) {
        match STANDARD.decode(encoded.trim()) {
            Ok(bytes) => self.media.push(Media::new(kind, bytes)),
            Err(_) => self.texts.push(format!("[{what} of type {kind} that cannot be decoded]")),
        }
    }
}
