//! Skills: directories with a `SKILL.md`, which a model reads when it needs them.
//!
//! A skill has a name and a description, which are offered with every request, and a body with the instructions, which is
//! sent when the model asks for it. Other files of its directory are read one by one. Skills are read from directories
//! that the operator names, once, when the tool is made: what is offered stays the same while the program runs, and
//! nothing in a workspace adds to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use everturn::core::chat::Effect;
use everturn::core::prompt::ToolSpec;
use everturn::{Policy, Tool, ToolContext, ToolError, ToolReturn};
use serde::Deserialize;
use serde_json::{Value, json};

/// The file with the name, the description and the instructions of a skill.
const FILE: &str = "SKILL.md";
/// Skills that are offered. Further ones are left out, in the order of their names.
const SKILLS_LEN_MAX: usize = 500;
/// Characters of a name.
const NAME_LEN_MAX: usize = 64;
/// Bytes of a description. Of a longer one, the beginning is offered.
const DESCRIPTION_BYTES_MAX: usize = 1_024;
/// Bytes that all names and descriptions have together. Above that, descriptions are cut alike.
const CATALOGUE_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a file of a skill that are sent. It is also what the engine shows of a result by default.
const FILE_BYTES_MAX: u64 = 40 * 1024;
/// Files of a skill that are listed.
const FILES_LEN_MAX: usize = 100;
/// How deep the directory of a skill is looked through.
const DEPTH_MAX: usize = 4;

/// The skills of some directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skills {
    skills: BTreeMap<String, Skill>,
    left_out: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Skill {
    description: String,
    directory: PathBuf,
}

impl Skills {
    /// Reads the skills of these directories: each directory in one of them that has a `SKILL.md`. Of two skills with one name,
    /// that of the earlier directory counts. One that cannot be used is left out; see [`Skills::left_out`].
    ///
    /// # Errors
    /// One of the directories cannot be read.
    pub fn read<Directory: AsRef<Path>>(directories: impl IntoIterator<Item = Directory>) -> io::Result<Self> {
        let mut found = Self::default();
        for directory in directories {
            let directory = directory.as_ref();
            let entries = fs::read_dir(directory)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", directory.display())))?;
            let mut places: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            places.sort_unstable();
            for place in places.into_iter().filter(|place| place.join(FILE).is_file()) {
                if let Err(cause) = found.add(&place) {
                    found.left_out.push(format!("{}: {cause}", place.join(FILE).display()));
                }
            }
        }
        Ok(found)
    }

    fn add(&mut self, place: &Path) -> Result<(), String> {
        let text = text_of(&place.join(FILE))?;
        let (fields, _) = front_matter(&text)?;
        let field = |name: &str| fields.get(name).filter(|value| !value.is_empty());
        let name = field("name").ok_or("it has no `name`")?;
        let description = field("description").ok_or("it has no `description`")?;
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.len() > NAME_LEN_MAX || !name.bytes().all(is_letter) {
            return Err(format!("`name` may have {NAME_LEN_MAX} letters a to z, digits and `-`: {name:?}"));
        }
        if place.file_name().is_none_or(|directory| directory.to_str() != Some(name)) {
            return Err(format!("`name` must be the name of its directory: {name:?}"));
        }
        if let Some(earlier) = self.skills.get(name) {
            return Err(format!("{} has the same name and comes first", earlier.directory.display()));
        }
        if self.skills.len() >= SKILLS_LEN_MAX {
            return Err(format!("{SKILLS_LEN_MAX} skills are offered already"));
        }
        let directory = place.canonicalize().map_err(|error| error.to_string())?;
        let description = cut(description, DESCRIPTION_BYTES_MAX);
        self.skills.insert(name.clone(), Skill { description, directory });
        Ok(())
    }

    /// Skills that cannot be used, each with its file and the reason.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// The names of the skills, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.skills.keys().map(String::as_str)
    }

    /// The tool with which a model reads skills; `None` if there are none.
    #[must_use]
    pub fn tool(self) -> Option<impl Tool + use<>> {
        (!self.skills.is_empty()).then_some(SkillTool { skills: self })
    }

    /// Names and descriptions, each skill on a line.
    fn catalogue(&self) -> String {
        let names: usize = self.skills.keys().map(|name| name.len() + "- : \n".len()).sum();
        let each = CATALOGUE_BYTES_MAX.saturating_sub(names) / self.skills.len().max(1);
        let line = |(name, skill): (&String, &Skill)| format!("- {name}: {}\n", cut(&skill.description, each));
        self.skills.iter().map(line).collect()
    }
}

/// The tool `skill`.
struct SkillTool {
    skills: Skills,
}

#[derive(Deserialize)]
struct Input {
    name: String,
    file: Option<String>,
}

#[async_trait]
impl Tool for SkillTool {
    fn spec(&self) -> ToolSpec {
        let names: Vec<&str> = self.skills.names().collect();
        let description = format!(
            "Shows the instructions of a skill. Read a skill before you begin a task that its description fits.\n\n{}",
            self.skills.catalogue()
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "enum": names},
                "file": {"type": "string", "description": "Another file of the skill, as its instructions name it."},
            },
            "required": ["name"],
            "additionalProperties": false,
        });
        ToolSpec::new("skill", description.trim_end(), schema)
    }

    fn policy(&self) -> Policy {
        Policy { effect: Effect::Read, ..Policy::default() }
    }

    async fn run(&self, _context: ToolContext, input: Value) -> Result<ToolReturn, ToolError> {
        let Input { name, file } = serde_json::from_value(input)?;
        let skill = self.skills.skills.get(&name).ok_or_else(|| format!("there is no skill {name:?}"))?.clone();
        let shown = tokio::task::spawn_blocking(move || skill.show(file.as_deref())).await?;
        shown.map(Into::into).map_err(ToolError::new)
    }
}

impl Skill {
    fn show(&self, file: Option<&str>) -> Result<String, String> {
        let Some(file) = file else { return self.instructions() };
        let path = self.directory.join(file).canonicalize().map_err(|error| format!("{file}: {error}"))?;
        if !path.starts_with(&self.directory) {
            return Err(format!("{file} is not in the directory of the skill"));
        }
        text_of(&path)
    }

    fn instructions(&self) -> Result<String, String> {
        let text = text_of(&self.directory.join(FILE))?;
        let (_, body) = front_matter(&text)?;
        let mut files = BTreeSet::new();
        list(&self.directory, &self.directory, DEPTH_MAX, &mut files);
        let mut shown = body.trim().to_owned();
        if !files.is_empty() {
            shown.push_str("\n\n[Other files of the skill, to be read with `file`:]\n");
            shown.push_str(&files.into_iter().collect::<Vec<_>>().join("\n"));
        }
        Ok(shown)
    }
}

/// Adds the files below a directory, but for the skill's own. Links are not followed.
fn list(root: &Path, directory: &Path, depth: usize, files: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && depth > 0 {
            list(root, &path, depth - 1, files);
        } else if kind.is_file()
            && path != root.join(FILE)
            && files.len() < FILES_LEN_MAX
            && let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str)
        {
            files.insert(name.to_owned());
        }
    }
}

/// The text of a file, as far as it is sent.
fn text_of(path: &Path) -> Result<String, String> {
    let says = |error: io::Error| format!("{error}");
    let found = fs::metadata(path).map_err(says)?;
    if !found.is_file() {
        return Err("it is not a regular file".into());
    }
    let mut bytes = Vec::new();
    fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)).map_err(says)?;
    let more = found.len().saturating_sub(FILE_BYTES_MAX);
    let mut text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // The bound may lie within a character.
        Err(error) if more > 0 && error.utf8_error().error_len().is_none() => {
            let end = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(&error.as_bytes()[..end]).into_owned()
        }
        Err(_) => return Err("it is not UTF-8 text".into()),
    };
    if more > 0 {
        text.push_str(&format!("\n[{more} more bytes are left out]"));
    }
    Ok(text)
}

/// The fields between the two lines `---` at the beginning of a text, and what comes behind them.
///
/// This reads what skills have there and no more of YAML: `key: value` lines, values in quotes, and values that go on in
/// indented lines. A value may have colons.
fn front_matter(text: &str) -> Result<(BTreeMap<String, String>, &str), String> {
    let rest = text.trim_start_matches('\u{feff}').strip_prefix("---").ok_or("it does not begin with `---`")?;
    let rest =
        rest.split_once('\n').filter(|(line, _)| line.trim().is_empty()).ok_or("it does not begin with `---`")?.1;
    let mut fields = BTreeMap::new();
    let mut newest: Option<String> = None;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        at += line.len();
        let line = line.trim_end();
        if line == "---" {
            return Ok((fields, &rest[at..]));
        }
        if line.starts_with([' ', '\t']) {
            if let Some(value) = newest.as_ref().and_then(|key| fields.get_mut(key)) {
                append(value, line.trim());
            }
            continue;
        }
        newest = None;
        if let Some((key, value)) = line.split_once(':')
            && !line.starts_with('#')
        {
            let value = match value.trim() {
                "|" | ">" | "|-" | ">-" | "|+" | ">+" => "", // What follows is the value.
                value => unquoted(value),
            };
            fields.insert(key.trim().to_owned(), value.to_owned());
            newest = Some(key.trim().to_owned());
        }
    }
    Err("its first part does not end with `---`".into())
}

fn append(value: &mut String, more: &str) {
    if !value.is_empty() {
        value.push(' ');
    }
    value.push_str(more);
}

fn unquoted(value: &str) -> &str {
    ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote)).unwrap_or(value)
}

/// The beginning of a text on one line.
fn cut(text: &str, bytes_max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.len() <= bytes_max {
        true => line,
        false => format!("{}…", &line[..line.floor_char_boundary(bytes_max.saturating_sub('…'.len_utf8()))]),
    }
}
