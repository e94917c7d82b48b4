//! The tools of an agent, and what may be called.
//!
//! A [`Toolbox`] is a value: a copy of it is another toolbox. A [`LiveToolbox`] is shared by its copies and may change while
//! turns run: a tool added between two steps is offered at the next one. A call is looked up and its input repaired and
//! validated here, so that only valid calls reach a tool.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use everturn_core::chat::{Chat, Effect};
use everturn_core::ids::{ChatId, MessageId, Timestamp};
use everturn_core::message::{Call, RunBy};
use everturn_core::permission::{PatternKind, Permissions};
use everturn_core::prompt::{NotOfferable, ToolSpec, offerable};
use everturn_core::setup::{BadSetup, Setup};
use everturn_core::surrogates;
use everturn_core::turn_settings::TurnSettings;
use serde_json::Value;

use crate::tool::{Beside, InnerCall, Policy, SharedTool, Tool};

/// The tools of an agent. A value: adding a tool to a clone leaves the original as it was.
#[derive(Clone, Default)]
pub struct Toolbox {
    shelf: Arc<Shelf>,
}

/// Tools that may change while turns run. Clones share them, and so do clones of an agent that has them: a change applies to
/// all of them from their next step on.
///
/// ```
/// # use everturn::{Agent, LiveToolbox, tool};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let live = LiveToolbox::default();
/// let agent = Agent::new("anthropic/claude-sonnet-4-5".parse()?).live_tools(live.clone());
/// // Later, perhaps while a turn runs:
/// live.change(|tools| tools.add(tool("now", "Tells the time.", |_, _: ()| async { Ok("noon") })))?;
/// # drop(agent);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct LiveToolbox {
    current: Arc<RwLock<Toolbox>>,
    turns: Option<Arc<Mutex<TurnTools>>>,
}

/// The tools that turns began with, by chat.
type TurnTools = HashMap<ChatId, (TurnMark, Toolbox)>;
/// Tells the turns of a chat apart: when it began, and after which message.
type TurnMark = (Timestamp, MessageId);

/// Turns whose tools are remembered. Each is let go when it ends here; those that ended in another process add up.
const TURNS_MAX: usize = 10_000;

impl LiveToolbox {
    /// A live toolbox with these tools.
    #[must_use]
    pub fn new(tools: Toolbox) -> Self {
        Self { current: Arc::new(RwLock::new(tools)), turns: None }
    }

    /// A live toolbox whose changes count from the next turn on: within a turn the model is offered the same tools, so the
    /// provider's cache holds. A turn that goes on in another process goes on with the tools there.
    #[must_use]
    pub fn by_turn(tools: Toolbox) -> Self {
        Self { turns: Some(Arc::default()), ..Self::new(tools) }
    }

    /// Changes the tools. Steps see all of the change or none of it.
    pub fn change<T>(&self, change: impl FnOnce(&mut Toolbox) -> T) -> T {
        change(&mut self.current.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// The tools as they are now.
    #[must_use]
    pub fn current(&self) -> Toolbox {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tools for the turn of a chat.
    pub(crate) fn for_turn(&self, chat: &Chat) -> Toolbox {
        let (Some(turns), Some(turn)) = (&self.turns, &chat.turn) else { return self.current() };
        let mark = (turn.began, turn.after);
        let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tools)) = turns.get(&chat.id).filter(|(known, _)| *known == mark) {
            return tools.clone();
        }
        if turns.len() >= TURNS_MAX {
            turns.clear();
        }
        let tools = self.current();
        turns.insert(chat.id, (mark, tools.clone()));
        tools
    }

    /// Forgets with which tools a chat's turn began: it is over, or the provider's cache is.
    pub(crate) fn forget_turn(&self, chat: ChatId) {
        if let Some(turns) = &self.turns {
            turns.lock().unwrap_or_else(PoisonError::into_inner).remove(&chat);
        }
    }
}

/// The content of a toolbox at one moment.
#[derive(Clone, Default)]
pub(crate) struct Shelf {
    tools: BTreeMap<String, ToolEntry>,
    clients: BTreeMap<String, ClientTool>,
    /// Tools that the provider defines and runs.
    hosted: BTreeMap<String, ToolSpec>,
    aliases: BTreeMap<String, String>,
    active: Option<BTreeSet<String>>,
    offered: Arc<[ToolSpec]>,
}

/// A tool with its policy, specification and validator.
#[derive(Clone)]
pub(crate) struct ToolEntry {
    pub(crate) tool: SharedTool,
    pub(crate) policy: Policy,
    spec: ToolSpec,
    fits: Arc<jsonschema::Validator>,
    offered: bool,
}

/// A tool that clients run.
#[derive(Clone)]
struct ClientTool {
    spec: ToolSpec,
    /// `None` if its schema is invalid: then the client validates the input.
    fits: Option<Arc<jsonschema::Validator>>,
}

/// The tools that a chat brought, with their validators.
#[derive(Default)]
pub(crate) struct ChatTools(BTreeMap<String, ClientTool>);

impl ChatTools {
    /// Those of the chat, and those of the request that its turn answers.
    pub(crate) fn of(setup: Option<&Setup>, turn: Option<&TurnSettings>) -> Self {
        let of_chat = setup.into_iter().flat_map(|setup| &setup.tools);
        let tools = of_chat.chain(turn.into_iter().flat_map(|turn| &turn.tools));
        Self(tools.map(|spec| (spec.name.clone(), ClientTool::new(spec.clone()))).collect())
    }
}

/// What runs a call.
pub(crate) enum Runner<'a> {
    /// The engine, with this input.
    Engine(&'a ToolEntry, Value),
    /// A client.
    Client,
}

/// Why a tool cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTool {
    /// Its input schema is invalid.
    #[error("the input schema of tool `{0}` is not a JSON schema: {1}")]
    Schema(String, String),
    /// A provider would refuse every request that offers it.
    #[error("tool `{0}` cannot be offered: {1}")]
    NotOfferable(String, NotOfferable),
}

impl Toolbox {
    /// An empty toolbox.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool, or replaces the one of that name. It is offered from the next step on, also past a filter.
    pub fn add(&mut self, tool: impl Tool) -> Result<(), BadTool> {
        self.put(Arc::new(tool), true)
    }

    /// Adds a tool that is shared with other toolboxes.
    pub fn add_shared(&mut self, tool: SharedTool) -> Result<(), BadTool> {
        self.put(tool, true)
    }

    /// Adds a tool that is not offered to the model, but runs when it is called. For toolboxes too large to describe.
    pub fn add_unoffered(&mut self, tool: impl Tool) -> Result<(), BadTool> {
        self.add_unoffered_shared(Arc::new(tool))
    }

    /// Adds a tool that is shared with other toolboxes and not offered to the model.
    pub fn add_unoffered_shared(&mut self, tool: SharedTool) -> Result<(), BadTool> {
        self.put(tool, false)
    }

    fn put(&mut self, tool: SharedTool, offered: bool) -> Result<(), BadTool> {
        let (spec, policy) = (tool.spec(), tool.policy());
        let fits = Arc::new(fits(&spec)?);
        self.change(|shelf| {
            if let Some(active) = &mut shelf.active {
                active.insert(spec.name.clone());
            }
            shelf.tools.insert(spec.name.clone(), ToolEntry { tool, policy, spec, fits, offered });
        });
        Ok(())
    }

    /// Checks that every provider takes a tool, and that its input can be validated.
    ///
    /// # Errors
    /// The tool cannot be added, for the reason given.
    pub fn check(spec: &ToolSpec) -> Result<(), BadTool> {
        fits(spec).map(drop)
    }

    /// Declares a tool that clients run: a turn that calls it rests until one answers. A tool that the engine runs takes
    /// precedence over one of the same name.
    pub fn add_client(&mut self, spec: ToolSpec) -> Result<(), BadTool> {
        offerable(&spec).map_err(|why| BadTool::NotOfferable(spec.name.clone(), why))?;
        self.change(|shelf| {
            shelf.clients.insert(spec.name.clone(), ClientTool::new(spec));
        });
        Ok(())
    }

    /// Makes an old name call a tool. The result keeps the name that the model used.
    pub fn alias(&mut self, old: impl Into<String>, new: impl Into<String>) {
        let (old, new) = (old.into(), new.into());
        self.change(|shelf| {
            shelf.aliases.insert(old, new);
        });
    }

    /// Offers only these from now on, and runs no others; provider-defined tools stay. An empty list lifts the filter.
    pub fn activate<Name: Into<String>>(&mut self, names: impl IntoIterator<Item = Name>) {
        let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
        self.change(|shelf| shelf.active = Some(names).filter(|names| !names.is_empty()));
    }

    /// Offers a tool that the provider defines and runs itself, such as a web search, by the definition its API documents.
    /// Nothing runs here: calls and outcomes arrive as parts of the reply.
    pub fn add_hosted(&mut self, name: impl Into<String>, definition: Value) -> Result<(), BadTool> {
        let spec = ToolSpec::provider_defined(name, definition);
        offerable(&spec).map_err(|why| BadTool::NotOfferable(spec.name.clone(), why))?;
        self.change(|shelf| {
            shelf.hosted.insert(spec.name.clone(), spec);
        });
        Ok(())
    }

    fn change(&mut self, change: impl FnOnce(&mut Shelf)) {
        let shelf = Arc::make_mut(&mut self.shelf);
        change(shelf);
        shelf.offered = shelf.offer();
    }

    pub(crate) fn shelf(&self) -> Arc<Shelf> {
        self.shelf.clone()
    }

    /// These tools and others beside them. Of two with one name, the one of this toolbox counts.
    pub(crate) fn beside(&self, others: &Self) -> Arc<Shelf> {
        let (own, others) = (&self.shelf, Shelf::clone(&others.shelf));
        let active = match (&own.active, &others.active) {
            (None, None) => None,
            _ => Some(own.active_names().chain(others.active_names()).collect()),
        };
        let mut both = others;
        both.tools.extend(own.tools.clone());
        both.clients.extend(own.clients.clone());
        both.hosted.extend(own.hosted.clone());
        both.aliases.extend(own.aliases.clone());
        both.active = active;
        both.offered = both.offer();
        Arc::new(both)
    }
}

fn fits(spec: &ToolSpec) -> Result<jsonschema::Validator, BadTool> {
    offerable(spec).map_err(|why| BadTool::NotOfferable(spec.name.clone(), why))?;
    let bad = |error: jsonschema::ValidationError<'_>| BadTool::Schema(spec.name.clone(), error.to_string());
    jsonschema::validator_for(&spec.input_schema).map_err(bad)
}

impl Shelf {
    /// The effect of a tool that this process runs.
    pub(crate) fn effect_of(&self, tool: &str) -> Option<Effect> {
        self.tools.get(tool).map(|entry| entry.policy.effect)
    }

    /// Refuses tools of a chat that clash with these or that no provider takes.
    pub(crate) fn check(&self, setup: &Setup) -> Result<(), BadSetup> {
        setup.check()?;
        for spec in &setup.tools {
            if self.has(&spec.name) {
                return Err(BadSetup::AgentHas(spec.name.clone()));
            }
            Toolbox::check(spec).map_err(|bad| BadSetup::NotOfferable(bad.to_string()))?;
        }
        Ok(())
    }

    /// These tools, and those that a chat brought for its clients to run. Of two with one name, the agent's counts.
    pub(crate) fn with_clients(self: Arc<Self>, own: &ChatTools) -> Arc<Self> {
        let own: Vec<_> = own.0.iter().filter(|(name, _)| !self.has(name)).collect();
        if own.is_empty() {
            return self;
        }
        let mut shelf = Self::clone(&self);
        for (name, client) in own {
            if let Some(active) = &mut shelf.active {
                active.insert(name.clone());
            }
            if client.spec.provider_defined.is_some() {
                shelf.hosted.insert(name.clone(), client.spec.clone());
                continue;
            }
            shelf.clients.insert(name.clone(), client.clone());
        }
        shelf.offered = shelf.offer();
        Arc::new(shelf)
    }

    /// These tools, of which those that are denied whole are not offered.
    pub(crate) fn permitted(self: Arc<Self>, permissions: &Permissions) -> Arc<Self> {
        if !self.offered.iter().any(|spec| permissions.denies_whole(&spec.name)) {
            return self;
        }
        let mut shelf = Self::clone(&self);
        let is_left = |spec: &&ToolSpec| !permissions.denies_whole(&spec.name);
        shelf.offered = self.offered.iter().filter(is_left).cloned().collect();
        Arc::new(shelf)
    }

    /// The tools that permission rules may name.
    pub(crate) fn known(&self) -> Vec<(String, PatternKind)> {
        let engine = self.tools.iter().map(|(name, entry)| (name.clone(), entry.tool.pattern()));
        let others = self.clients.keys().chain(self.hosted.keys()).filter(|name| !self.tools.contains_key(*name));
        engine.chain(others.map(|name| (name.clone(), PatternKind::Nothing))).collect()
    }

    /// Whether a call asks a sub-agent.
    pub(crate) fn delegates(&self, call: &Call) -> bool {
        matches!(self.runner(call), Ok(Runner::Engine(entry, _)) if entry.tool.delegates())
    }

    /// Whether a call of this name runs here, or was to.
    pub(crate) fn runs_here(&self, name: &str) -> bool {
        self.tools.contains_key(self.registered(name))
    }

    fn has(&self, name: &str) -> bool {
        self.tools.contains_key(name) || self.clients.contains_key(name) || self.aliases.contains_key(name)
    }

    /// The tools that are offered to the model, always in the same order so that provider caches hold.
    pub(crate) fn offered(&self) -> Arc<[ToolSpec]> {
        self.offered.clone()
    }

    fn offer(&self) -> Arc<[ToolSpec]> {
        let is_active = |spec: &ToolSpec| self.is_active(&spec.name) || spec.provider_defined.is_some();
        let ours = self.tools.values().filter(|entry| entry.offered).map(|entry| &entry.spec);
        let clients = self.clients.values().map(|client| &client.spec);
        let clients = clients.filter(|spec| !self.tools.contains_key(&spec.name));
        let hosted = self.hosted.values().filter(|spec| !self.is_known(&spec.name));
        ours.chain(clients).filter(|spec| is_active(spec)).chain(hosted).cloned().collect()
    }

    /// The names of the tools that clients run.
    pub(crate) fn client_names(&self) -> Vec<String> {
        self.clients.keys().filter(|name| !self.tools.contains_key(*name)).cloned().collect()
    }

    /// The names that the filter lets through; all names if there is no filter.
    fn active_names(&self) -> impl Iterator<Item = String> {
        let names = self.tools.keys().chain(self.clients.keys());
        names.filter(|name| self.is_active(name)).cloned()
    }

    /// Whether the engine or a client runs the tool.
    fn is_known(&self, name: &str) -> bool {
        self.tools.contains_key(name) || self.clients.contains_key(name)
    }

    fn is_active(&self, name: &str) -> bool {
        self.active.as_ref().is_none_or(|active| active.contains(name))
    }

    /// The current name of a tool, which may be called by an old one.
    pub(crate) fn registered<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, String::as_str)
    }

    /// What runs a call, with its input validated; or the error for the model.
    pub(crate) fn runner(&self, call: &Call) -> Result<Runner<'_>, String> {
        let name = self.registered(&call.tool);
        match self.clients.get(name) {
            Some(client) if !self.tools.contains_key(name) && self.is_active(name) => {
                client.check(&call.input)?;
                Ok(Runner::Client)
            }
            Some(_) | None => {
                let entry = self.find(&call.tool)?;
                let input = entry.input(&call.input)?;
                match entry.tool.stands_for(&input) {
                    None => Ok(Runner::Engine(entry, input)),
                    Some(inner) => self.inner(entry, inner),
                }
            }
        }
    }

    /// What runs the call inside a call.
    fn inner(&self, outer: &ToolEntry, InnerCall { tool, input }: InnerCall) -> Result<Runner<'_>, String> {
        let entry = self.find(&tool)?;
        if entry.tool.stands_for(&input).is_some() {
            return Err(format!("`{}` cannot call `{tool}`.", outer.name()));
        }
        fitting(&input, Some(&entry.fits))?;
        Ok(Runner::Engine(entry, input))
    }

    /// The tool of the engine behind a name, or the error for the model.
    pub(crate) fn find(&self, name: &str) -> Result<&ToolEntry, String> {
        let registered = self.registered(name);
        match self.tools.get(registered) {
            Some(entry) if entry.spec.provider_defined.is_some() || self.is_active(registered) => Ok(entry),
            Some(_) => Err(format!("The tool `{name}` is not available in this turn.")),
            None if self.hosted.contains_key(registered) => {
                Err(format!("The tool `{name}` runs at the provider, and cannot be called from here."))
            }
            None => {
                let known: Vec<_> = self.offered.iter().map(|spec| spec.name.as_str()).collect();
                Err(format!("There is no tool `{name}`. The tools are: {}.", known.join(", ")))
            }
        }
    }

    /// The label of a tool in metrics: a registered name, never a text of the model.
    pub(crate) fn label(&self, name: &str) -> String {
        let name = self.registered(name);
        if self.is_known(name) { name.to_string() } else { "unknown".to_string() }
    }

    /// The tool that must be called alone and was not, because of which none of a reply's calls may run.
    pub(crate) fn must_be_alone<'a>(&self, calls: impl Iterator<Item = &'a Call>) -> Option<String> {
        let ours: Vec<&Call> = calls.filter(|call| call.run_by == RunBy::Us).collect();
        let alone = |call: &&&Call| match self.runner(call) {
            Ok(Runner::Engine(entry, _)) => entry.policy.beside == Beside::Exclusive,
            Ok(Runner::Client) => false,
            Err(_) => self.find(&call.tool).is_ok_and(|entry| entry.policy.beside == Beside::Exclusive),
        };
        ours.iter().find(alone).filter(|_| ours.len() > 1).map(|call| call.tool.clone())
    }
}

/// The longest input that is repaired. The driver waits meanwhile.
const REPAIR_BYTES_MAX: usize = 256 * 1024;

/// An input that is almost a JSON object, repaired. Models often leave out a quote or a comma, or write half a surrogate
/// pair. Only for inputs that arrived whole: `Draft::mend` passes no others.
pub(crate) fn repaired(raw: &str) -> Option<String> {
    if raw.len() > REPAIR_BYTES_MAX {
        return None;
    }
    let (raw, _) = surrogates::replaced(raw);
    jsonrepair_rs::jsonrepair_value(&raw).ok().filter(Value::is_object).map(|value| value.to_string())
}

impl ToolEntry {
    /// The name that the tool is registered by.
    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }

    /// The parsed input, if it fits the schema.
    pub(crate) fn input(&self, raw: &str) -> Result<Value, String> {
        let input = parsed(raw)?;
        fitting(&input, Some(&self.fits))?;
        Ok(input)
    }
}

fn parsed(raw: &str) -> Result<Value, String> {
    let raw = if raw.trim().is_empty() { "{}" } else { raw };
    serde_json::from_str(raw).map_err(|error| not_json(&error))
}

impl ClientTool {
    fn new(spec: ToolSpec) -> Self {
        let fits = jsonschema::validator_for(&spec.input_schema).ok().map(Arc::new);
        Self { spec, fits }
    }

    /// Validates the input of a call that a client runs.
    fn check(&self, raw: &str) -> Result<(), String> {
        fitting(&parsed(raw)?, self.fits.as_deref())
    }
}

fn not_json(error: &serde_json::Error) -> String {
    format!("The input is not valid JSON ({error}). Call the tool again with a JSON object.")
}

fn fitting(input: &Value, fits: Option<&jsonschema::Validator>) -> Result<(), String> {
    if !input.is_object() {
        return Err("The input must be a JSON object.".into());
    }
    let wrong: Vec<String> = fits.into_iter().flat_map(|fits| fits.iter_errors(input)).take(5).map(in_place).collect();
    match wrong.as_slice() {
        [] => Ok(()),
        wrong => Err(format!("The input does not fit the tool's schema: {}.", wrong.join("; "))),
    }
}

/// A validation error with its path. The value itself is not repeated: the model knows it, and it may be long.
fn in_place(error: jsonschema::ValidationError<'_>) -> String {
    match error.instance_path().as_str() {
        "" => error.masked().to_string(),
        path => format!("{path}: {}", error.masked()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Repair is limited in length, because the driver waits for it.
    #[test]
    fn only_short_inputs_are_repaired() {
        let almost = |bytes: usize| format!("{{'say':'{}'}}", "a".repeat(bytes));
        assert!(repaired(&almost(1_000)).is_some());
        assert_eq!(repaired(&almost(REPAIR_BYTES_MAX)), None);
    }

    /// Half a surrogate pair in an input becomes U+FFFD, and is no reason to refuse the call.
    #[test]
    fn half_a_surrogate_pair_is_replaced() {
        let raw = r#"{"a": "x\ud83d y", "b": "\ud83d\ude00"}"#;
        assert_eq!(repaired(raw).unwrap(), "{\"a\":\"x\u{fffd} y\",\"b\":\"\u{1f600}\"}");
    }
}
