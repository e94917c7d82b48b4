//! What differs between the generations of Gemini.
//!
//! The wire is one, the models behind it are not: the second generation is told how long to think in tokens, the third
//! in words, older ones not at all, and each refuses the other's manner. The third also refuses a tool call of its own
//! turn that lacks a thought signature. All of that hangs on the model's name, and only here.

use everturn_core::prompt::Effort;
use serde_json::{Value, json};

/// A generation of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GeminiFamily {
    /// Does not think, or must not be told how: Gemini 1 and 2.0, image models of the second generation, Gemma.
    Plain,
    /// Thinks within so many tokens: Gemini 2.5.
    Budgeted {
        /// Which of the two sizes it is.
        size: GeminiSize,
    },
    /// Thinks as hard as a word says: Gemini 3 and whatever comes after it.
    Levelled {
        /// Which of the two sizes it is.
        size: GeminiSize,
        /// Whether it knows a middle way. The first of the large ones did not.
        has_medium: bool,
        /// Whether it knows `minimal`. Some of the small ones do; from 3.7 on they begin with `low`.
        has_minimal: bool,
    },
}

/// Large models cannot stop thinking, small ones can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GeminiSize {
    Flash,
    Pro,
}

impl GeminiFamily {
    /// The family of a model, by what its card says of its efforts (`none`, `budget`, `level`), else by its name. An
    /// unknown generation counts as the newest.
    pub(super) fn of(model: &str, effort: Option<&str>) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model);
        let size = if name.split('-').any(|word| word == "pro") { GeminiSize::Pro } else { GeminiSize::Flash };
        let rest = name.strip_prefix("gemini-");
        let version = rest.and_then(|rest| rest.split('-').next());
        let version = version.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        let levelled = Self::Levelled {
            size,
            has_medium: version != Some("3") || size == GeminiSize::Flash,
            has_minimal: size == GeminiSize::Flash && matches!(version, Some("3" | "3.1" | "3.5" | "3.6")),
        };
        match effort {
            Some("none") => return Self::Plain,
            Some("budget") => return Self::Budgeted { size },
            Some("level") => return levelled,
            Some(_) | None => {}
        }
        let Some(rest) = rest else { return Self::Plain };
        match version {
            Some("2.5") if rest.contains("-image") => Self::Plain,
            Some("2.5") => Self::Budgeted { size },
            Some(old) if old.starts_with("1.") || old.starts_with("2.") => Self::Plain,
            Some(_) | None => levelled,
        }
    }

    /// Whether it thinks at all.
    pub(super) const fn thinks(self) -> bool {
        !matches!(self, Self::Plain)
    }

    /// Whether the first call of each of its replies must carry a thought signature.
    pub(super) const fn wants_signatures(self) -> bool {
        matches!(self, Self::Levelled { .. })
    }

    /// Whether the provider's own tools and ours can be offered together.
    pub(super) const fn mixes_tools(self) -> bool {
        matches!(self, Self::Levelled { .. })
    }

    /// `thinkingConfig` of `generateContent`. Thoughts are asked for wherever there are any: they are progress, and
    /// without them a long thought cannot be told from a dead line.
    pub(super) fn thinking_config(self, effort: Option<Effort>) -> Option<Value> {
        let config = match (self, effort) {
            (Self::Plain, _) => return None,
            (Self::Budgeted { .. } | Self::Levelled { .. }, None) => json!({ "includeThoughts": true }),
            (Self::Budgeted { size }, Some(Effort::None)) => json!({ "thinkingBudget": least(size) }),
            (Self::Budgeted { size }, Some(effort)) => {
                json!({ "includeThoughts": true, "thinkingBudget": budget(effort, size) })
            }
            (Self::Levelled { .. }, Some(effort)) => {
                let level = self.level(effort).unwrap_or("low").to_ascii_uppercase();
                match effort {
                    Effort::None => json!({ "thinkingLevel": level }),
                    _ => json!({ "includeThoughts": true, "thinkingLevel": level }),
                }
            }
        };
        Some(config)
    }

    /// The word for an effort, for families that take words.
    pub(super) const fn level(self, effort: Effort) -> Option<&'static str> {
        let Self::Levelled { has_medium, has_minimal, .. } = self else { return None };
        Some(match effort {
            Effort::None | Effort::Minimal if has_minimal => "minimal",
            Effort::None | Effort::Minimal | Effort::Low => "low",
            Effort::Medium if has_medium => "medium",
            Effort::Medium | Effort::High | Effort::XHigh | Effort::Max => "high",
        })
    }
}

/// As little thinking as a size allows, in tokens.
const fn least(size: GeminiSize) -> u32 {
    match size {
        GeminiSize::Flash => 0,
        GeminiSize::Pro => 128,
    }
}

/// The budgets that Google itself translates efforts into, and above them the most a size allows.
const fn budget(effort: Effort, size: GeminiSize) -> u32 {
    match (effort, size) {
        (Effort::None, size) => least(size),
        (Effort::Minimal | Effort::Low, _) => 1_024,
        (Effort::Medium, _) => 8_192,
        (Effort::High, _) | (Effort::XHigh | Effort::Max, GeminiSize::Flash) => 24_576,
        (Effort::XHigh | Effort::Max, GeminiSize::Pro) => 32_768,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levelled(size: GeminiSize, words: &str) -> GeminiFamily {
        let knows = |word| words.split(' ').any(|known| known == word);
        GeminiFamily::Levelled { size, has_medium: knows("medium"), has_minimal: knows("minimal") }
    }

    #[test]
    fn a_model_is_known_by_its_name() {
        let cases = [
            ("gemini-1.5-pro", GeminiFamily::Plain),
            ("gemini-2.0-flash", GeminiFamily::Plain),
            ("gemini-2.5-flash-image", GeminiFamily::Plain),
            ("gemma-3-27b-it", GeminiFamily::Plain),
            ("gemini-2.5-pro", GeminiFamily::Budgeted { size: GeminiSize::Pro }),
            ("models/gemini-2.5-flash-lite", GeminiFamily::Budgeted { size: GeminiSize::Flash }),
            ("gemini-3-pro-preview", levelled(GeminiSize::Pro, "low high")),
            ("gemini-3.1-pro-preview", levelled(GeminiSize::Pro, "low medium high")),
            ("publishers/google/models/gemini-3-flash", levelled(GeminiSize::Flash, "minimal low medium high")),
            ("gemini-3.6-flash", levelled(GeminiSize::Flash, "minimal low medium high")),
            ("gemini-3.8-flash", levelled(GeminiSize::Flash, "low medium high")),
            ("gemini-4-argon", levelled(GeminiSize::Flash, "low medium high")),
            ("gemini-pro-latest", levelled(GeminiSize::Pro, "low medium high")),
        ];
        for (model, family) in cases {
            assert_eq!(GeminiFamily::of(model, None), family, "{model}");
        }
    }

    /// A card knows better than a name.
    #[test]
    fn a_card_overrules_the_name() {
        assert_eq!(GeminiFamily::of("gemini-9-pro", Some("none")), GeminiFamily::Plain);
        assert_eq!(GeminiFamily::of("tuned/my-pro", Some("budget")), GeminiFamily::Budgeted { size: GeminiSize::Pro });
        assert_eq!(GeminiFamily::of("mine", Some("level")), levelled(GeminiSize::Flash, "low medium high"));
        assert_eq!(GeminiFamily::of("gemini-2.5-pro", Some("?")), GeminiFamily::of("gemini-2.5-pro", None));
    }

    /// One row an effort, one column a kind of model.
    #[test]
    fn every_effort_has_its_setting() {
        let models = ["gemini-2.0-flash", "gemini-2.5-flash", "gemini-2.5-pro", "gemini-3-pro", "gemini-3-flash"];
        let setting = |model: &str, effort| match GeminiFamily::of(model, None).thinking_config(effort) {
            None => "-".to_owned(),
            Some(config) => {
                let how = config.get("thinkingBudget").or(config.get("thinkingLevel"));
                let shown = if config.get("includeThoughts").is_some() { "+" } else { "" };
                format!("{}{shown}", how.map_or(String::new(), ToString::to_string))
            }
        };
        let efforts = [None].into_iter().chain(Effort::ALL.map(Some));
        let table: Vec<String> = efforts
            .map(|effort| {
                let row: Vec<String> = models.iter().map(|model| setting(model, effort)).collect();
                format!("{effort:?}: {}\n", row.join(" "))
            })
            .collect();
        expect_test::expect![[r#"
            None: - + + + +
            Some(None): - 0 128 "LOW" "MINIMAL"
            Some(Minimal): - 1024+ 1024+ "LOW"+ "MINIMAL"+
            Some(Low): - 1024+ 1024+ "LOW"+ "LOW"+
            Some(Medium): - 8192+ 8192+ "HIGH"+ "MEDIUM"+
            Some(High): - 24576+ 24576+ "HIGH"+ "HIGH"+
            Some(XHigh): - 24576+ 32768+ "HIGH"+ "HIGH"+
            Some(Max): - 24576+ 32768+ "HIGH"+ "HIGH"+
        "#]]
        .assert_eq(&table.concat());
    }
}
