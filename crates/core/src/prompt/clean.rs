//! The small cleanings that everything sent goes through.

use super::entry::PromptPart;
use super::target::{Rules, Target};
use crate::message::{Meta, Text};

/// The longest tool name that every wire takes.
const NAME_LEN_MAX: usize = 64;

/// Words as a part; none if they are blank, which providers refuse.
pub(super) fn words(text: &str, meta: Meta) -> Option<PromptPart> {
    (!text.trim().is_empty()).then(|| PromptPart::Text(Text { text: without_nul(text), meta }))
}

/// Text with U+0000 made visible: servers in C end a text there.
pub(super) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{2400}")
}

/// What the target's own provider attached; what others attached is none of its business.
pub(super) fn own_meta(meta: &Meta, target: &Target) -> Meta {
    meta.get_key_value(&target.provider).map(|(key, value)| (key.clone(), value.clone())).into_iter().collect()
}

/// Whether a part's metadata names another provider. A reply names only the last of its models; a part knows
/// its own.
pub(super) fn is_foreign(meta: &Meta, target: &Target) -> bool {
    !meta.is_empty() && !meta.contains_key(&target.provider)
}

/// A tool's name in characters the wire takes. Models invent names, and a past call cannot be asked to try again.
pub(super) fn tool_name(name: &str, rules: &Rules) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let mut clean: String = name.trim().chars().map(allowed).take(NAME_LEN_MAX).collect();
    if clean.is_empty() {
        return "unnamed_tool".into();
    }
    if rules.name_begins_with_letter && !clean.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        clean.insert(0, '_');
        clean.truncate(NAME_LEN_MAX);
    }
    clean
}
