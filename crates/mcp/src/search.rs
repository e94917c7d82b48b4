//! Two tools in place of many: `find_tools` searches, and `use_tool` calls what was found.
//!
//! The descriptions of hundreds of tools would fill the window before the first word. What is found stays in the
//! transcript, and the list of offered tools never moves: no provider's cache breaks, and nothing has to be remembered over
//! a restart.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use everturn::core::chat::Effect;
use everturn::core::prompt::ToolSpec;
use everturn::{InnerCall, Policy, Tool, ToolContext, ToolError, ToolReturn};
use serde_json::{Value, json};

/// Tools that one search returns.
const HITS_MAX: usize = 5;
/// How quickly more occurrences of a word count for less, and how much long descriptions count for less: the usual
/// values of BM25.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;
/// The names of the two tools.
const FIND: &str = "find_tools";
const USE: &str = "use_tool";

/// A tool that can be found.
pub(crate) struct FoundTool {
    pub(crate) spec: ToolSpec,
    pub(crate) title: Option<String>,
}

/// `find_tools`: searches tools that are not offered.
pub(crate) struct FindTools {
    servers: Vec<String>,
    tools: Vec<Indexed>,
    /// Words of a description, on average.
    length: f64,
}

struct Indexed {
    spec: ToolSpec,
    /// How often each word occurs.
    words: BTreeMap<String, f64>,
    length: f64,
}

impl FindTools {
    pub(crate) fn new(servers: Vec<String>, tools: Vec<FoundTool>) -> Self {
        let tools: Vec<Indexed> = tools.into_iter().map(Indexed::new).collect();
        let sum: f64 = tools.iter().map(|tool| tool.length).sum();
        let length = if tools.is_empty() { 1.0 } else { sum / count(tools.len()) };
        Self { servers, tools, length }
    }

    /// The tools that fit a query best, best first. Equal ones are ordered by name.
    fn found(&self, query: &str) -> Vec<&ToolSpec> {
        let wanted: BTreeSet<String> = words(query).collect();
        let rarity: Vec<(&String, f64)> = wanted.iter().map(|word| (word, self.rarity(word))).collect();
        let score = |tool: &Indexed| -> f64 {
            let brevity = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * tool.length / self.length;
            let of_word = |(word, rarity): &(&String, f64)| {
                let times = tool.words.get(*word).copied().unwrap_or(0.0);
                rarity * times * (SATURATION + 1.0) / (times + SATURATION * brevity)
            };
            rarity.iter().map(of_word).sum()
        };
        let mut scored: Vec<(f64, &ToolSpec)> = self.tools.iter().map(|tool| (score(tool), &tool.spec)).collect();
        scored.retain(|(score, _)| *score > 0.0);
        scored.sort_by(|(one, a), (other, b)| other.total_cmp(one).then_with(|| a.name.cmp(&b.name)));
        scored.into_iter().take(HITS_MAX).map(|(_, spec)| spec).collect()
    }

    /// How much a word tells: the fewer tools have it, the more.
    fn rarity(&self, word: &str) -> f64 {
        let having = count(self.tools.iter().filter(|tool| tool.words.contains_key(word)).count());
        (1.0 + (count(self.tools.len()) - having + 0.5) / (having + 0.5)).ln()
    }
}

impl Indexed {
    fn new(FoundTool { spec, title }: FoundTool) -> Self {
        let properties = spec.input_schema["properties"].as_object();
        let parameters = properties.into_iter().flat_map(|properties| properties.keys());
        let texts = [spec.name.as_str(), &spec.description, title.as_deref().unwrap_or_default()];
        let mut counts = BTreeMap::new();
        for word in texts.into_iter().chain(parameters.map(String::as_str)).flat_map(words) {
            *counts.entry(word).or_insert(0.0) += 1.0;
        }
        let length = counts.values().sum::<f64>().max(1.0);
        Self { spec, words: counts, length }
    }
}

#[allow(clippy::cast_precision_loss, reason = "there are never that many tools")]
const fn count(number: usize) -> f64 {
    number as f64
}

/// The words of a text in lower case. `createIssue` and `create_issue` are two words each.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut all = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    for char in text.chars() {
        let begins = char.is_uppercase() && before.is_lowercase();
        if !char.is_alphanumeric() || begins {
            all.push(std::mem::take(&mut word));
        }
        if char.is_alphanumeric() {
            word.extend(char.to_lowercase());
        }
        before = char;
    }
    all.push(word);
    all.into_iter().filter(|word| !word.is_empty())
}

#[async_trait]
impl Tool for FindTools {
    fn spec(&self) -> ToolSpec {
        let servers = self.servers.join(", ");
        let description = format!(
            "Searches tools that are not listed here, of: {servers}. Returns the best {HITS_MAX} with their input schemas. Call a \
             found one with {USE}. Describe the task in a few words; search again with other words if nothing fits."
        );
        let query = json!({"type": "string", "description": "What the tool should do."});
        let schema = json!({"type": "object", "properties": {"query": query}, "required": ["query"]});
        ToolSpec::new(FIND, description, schema)
    }

    fn policy(&self) -> Policy {
        Policy { effect: Effect::Read, ..Policy::default() }
    }

    async fn run(&self, _: ToolContext, input: Value) -> Result<ToolReturn, ToolError> {
        let found = self.found(input["query"].as_str().unwrap_or_default());
        if found.is_empty() {
            return Err(ToolError::new("No tool has any of these words. Search with others."));
        }
        let told = found.into_iter().map(|spec| {
            let ToolSpec { name, description, input_schema, .. } = spec;
            format!("{name}\n{description}\nInput: {input_schema}")
        });
        Ok(told.collect::<Vec<_>>().join("\n\n").into())
    }
}

/// `use_tool`: calls a tool that is not offered. The engine runs the tool inside, by the rules of that tool.
pub(crate) struct UseTool;

#[async_trait]
impl Tool for UseTool {
    fn spec(&self) -> ToolSpec {
        let tool = json!({"type": "string", "description": "Its name, as found."});
        let input = json!({"type": "object", "description": "Its input, by its own schema."});
        let schema = json!({
            "type": "object",
            "properties": {"tool": tool, "input": input},
            "required": ["tool", "input"],
        });
        ToolSpec::new(USE, format!("Calls a tool that {FIND} found."), schema)
    }

    fn stands_for(&self, input: &Value) -> Option<InnerCall> {
        Some(InnerCall { tool: input["tool"].as_str()?.into(), input: input["input"].clone() })
    }

    async fn run(&self, _: ToolContext, _: Value) -> Result<ToolReturn, ToolError> {
        Err(ToolError::new(format!("Name a tool that {FIND} found.")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finder() -> FindTools {
        let tool = |name: &str, description: &str, parameters: Value| FoundTool {
            spec: ToolSpec::new(name, description, json!({"type": "object", "properties": parameters})),
            title: None,
        };
        let mut tools = vec![
            tool("mcp__git__createIssue", "Opens a ticket.", json!({"title": {}, "labels": {}})),
            tool("mcp__git__close_issue", "Closes a ticket.", json!({"number": {}})),
            tool("mcp__web__fetch", "Fetches a page of the web. Pages may be long.", json!({"url": {}})),
        ];
        tools.extend((0..400).map(|n| tool(&format!("mcp__many__t{n:03}"), "Does another thing.", json!({}))));
        FindTools::new(vec!["git".into(), "web".into()], tools)
    }

    fn names<'a>(finder: &'a FindTools, query: &str) -> Vec<&'a str> {
        finder.found(query).into_iter().map(|spec| spec.name.as_str()).collect()
    }

    /// Names, descriptions and parameters count, rare words more than common ones, and equal tools come in the order of names.
    #[test]
    fn the_best_fitting_tools_are_found() {
        let finder = finder();
        assert_eq!(
            names(&finder, "create an issue with labels")[..2],
            ["mcp__git__createIssue", "mcp__git__close_issue"]
        );
        assert_eq!(names(&finder, "URL"), ["mcp__web__fetch"]);
        assert_eq!(names(&finder, "thing")[..2], ["mcp__many__t000", "mcp__many__t001"]);
        assert_eq!(names(&finder, "thing").len(), HITS_MAX);
        assert_eq!(names(&finder, "größe ?!"), Vec::<&str>::new());
    }
}
