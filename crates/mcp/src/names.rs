//! The names under which a server's tools are offered.
//!
//! `mcp__server__tool`, as other clients have it. A name depends on nothing but the server and the tool: another server, or
//! another tool with nearly the same name, never changes it. Models and transcripts remember names.

use sha2::{Digest as _, Sha256};

/// Longest name that every provider takes.
const CHARS_MAX: usize = 64;
const HASH_CHARS: usize = 8;

/// The name of a server's tool. Where it has to be changed to fit, it ends in a hash of the server and the raw name.
#[must_use]
pub fn offered_name(server: &str, tool: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let fitted: String = tool.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    let mut name = format!("mcp__{server}__{fitted}");
    if !tool.is_empty() && fitted == tool && name.len() <= CHARS_MAX {
        return name;
    }
    let hash = hex(&Sha256::digest(format!("{server}\0{tool}")));
    name.truncate(CHARS_MAX - HASH_CHARS - 1); // All of it is ASCII.
    name.push('_');
    name.push_str(&hash[..HASH_CHARS]);
    name
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use everturn::core::prompt::{ToolSpec, offerable};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_that_fits_is_kept() {
        assert_eq!(offered_name("docs", "search"), "mcp__docs__search");
        assert_eq!(offered_name("my-files", "read_file-2"), "mcp__my-files__read_file-2");
    }

    /// Names of 128 characters, with dots or other letters are distinct, stable and taken by every provider.
    #[test]
    fn a_name_that_does_not_fit_ends_in_a_hash() {
        let (long, longer) = ("x".repeat(128), "x".repeat(127) + "y");
        let raw = ["a.b", "a:b", "a_b", "größe", "grösse", "", &long, &longer];
        let names: Vec<_> = raw.iter().map(|tool| offered_name("a-server-of-20-chars", tool)).collect();
        for (tool, name) in raw.iter().zip(&names) {
            let spec = ToolSpec::new(name.clone(), "does it", json!({"type": "object"}));
            assert_eq!(offerable(&spec), Ok(()), "{tool}");
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{tool}");
        }
        assert_eq!(names[0], "mcp__a-server-of-20-chars__a_b_92011f76");
        assert_eq!(names[2], "mcp__a-server-of-20-chars__a_b");
    }
}
