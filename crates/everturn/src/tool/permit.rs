//! Which calls may run: the rules of the agent and the grants of the chat, applied to one call.
//!
//! A call is decided when it is made, and what a person is asked is stored with it. It is decided again when it starts,
//! because rules, grants and the files that a path leads to may have changed in between: then it does not run.

use std::sync::Arc;

use everturn_core::chat::{AskDetail, CallOpening, CallState, Chat, OpenCall};
use everturn_core::ids::{ChatId, Timestamp};
use everturn_core::message::Call;
use everturn_core::permission::{Basis, Decision, Grant, Permissions, RuleSubject, ToolConsent, Verdict, grant_for};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::agent::Agent;
use crate::drive::session::ChatSession;
use crate::drive::tools::AUDIT;
use crate::process::Shared;
use crate::tool::toolbox::{Runner, Shelf, ToolEntry};
use crate::tool::{Approval, Policy};

/// Bytes of the fingerprint of a tool's definition and the agent's rules.
const TERMS_BYTES: usize = 16;

/// What decides on the calls of a chat.
pub(crate) struct CallPermits<'a> {
    permissions: &'a Permissions,
    above: &'a [AgentAbove],
    grants: &'a [Grant],
    now: Timestamp,
    chat: ChatId,
    owner: &'a str,
    /// Whether calls that do not run here are the client's that sent the request.
    leaves_calls: bool,
}

/// An agent above a sub-agent, whose rules hold too.
pub(crate) struct AgentAbove {
    pub(crate) name: String,
    /// `None` if this process has no agent of this name.
    pub(crate) agent: Option<Arc<Agent>>,
}

impl AgentAbove {
    /// The agents above a chat.
    pub(crate) fn of(shared: &Shared, chat: &Chat) -> Vec<Self> {
        let above = chat.parent.iter().flat_map(|parent| &parent.above);
        above.map(|above| Self { name: above.agent.clone(), agent: shared.agent(&above.agent) }).collect()
    }
}

/// Why a call does not start.
pub(crate) enum NotStarted {
    /// It cannot run, or was not permitted when it was made.
    Failed(String),
    /// A rule denies it.
    Denied(String),
}

/// A call with everything that a decision on it needs.
struct DecidedCall {
    policy: Policy,
    subject: RuleSubject,
    terms: String,
    decision: Decision,
}

impl<'a> CallPermits<'a> {
    pub(crate) fn of(session: &'a ChatSession) -> Self {
        let chat = &session.chat;
        let permissions = &session.env.agent.permissions;
        Self {
            permissions,
            above: &session.env.above,
            grants: &chat.grants,
            now: session.now(),
            chat: chat.id,
            owner: &chat.owner,
            leaves_calls: chat.settings().is_some(),
        }
    }

    /// Whether a call is the client's that sent the request.
    pub(crate) fn leaves(&self, shelf: &Shelf, call: &Call) -> bool {
        self.leaves_calls && !shelf.runs_here(&call.tool)
    }

    /// What becomes of a call that was just made. One that cannot run is not put to a person or a client: it gets its error
    /// when it should start.
    pub(crate) fn open(&self, shelf: &Shelf, call: &Call) -> CallOpening {
        if self.leaves(shelf, call) {
            return CallOpening::Left;
        }
        match shelf.runner(call) {
            Err(_) => CallState::Ready.into(),
            Ok(Runner::Client) => {
                // The client asks its person itself.
                let tool = shelf.registered(&call.tool);
                let decision = self.ruled(tool, &RuleSubject::Nothing, ToolConsent::Runs);
                match decision.verdict {
                    Verdict::Allow | Verdict::Ask => CallState::AsksClient.into(),
                    Verdict::Deny => CallOpening::Denied(denial(&decision.basis)),
                }
            }
            Ok(Runner::Engine(entry, input)) => {
                let decided = self.decide(entry, &input);
                self.log(call, entry.name(), &decided.decision);
                match decided.decision.verdict {
                    Verdict::Allow => CallState::Ready.into(),
                    Verdict::Ask => CallOpening::Ask(Arc::new(decided.ask(entry))),
                    Verdict::Deny => CallOpening::Denied(denial(&decided.decision.basis)),
                }
            }
        }
    }

    /// The policy by which an open call starts, or why it does not.
    pub(crate) fn start(&self, entry: &ToolEntry, input: &Value, open: &OpenCall) -> Result<Policy, NotStarted> {
        let tool = entry.name();
        let decided = self.decide(entry, input);
        let failed = |why: String| Err(NotStarted::Failed(why));
        let shown = open.ask.as_ref().and_then(|ask| ask.path.as_deref());
        match (open.state, decided.decision.verdict) {
            (CallState::Started { .. }, _) => Ok(decided.policy), // It was permitted, and runs again after a crash.
            (_, Verdict::Deny) => Err(NotStarted::Denied(denial(&decided.decision.basis))),
            (CallState::Approved, _) if open.ask.is_some() && shown != decided.path() => failed(format!(
                "`{tool}` was allowed for another path than the one it leads to by now. It was not run. Call it again."
            )),
            (CallState::Approved, _) | (_, Verdict::Allow) => Ok(decided.policy),
            // The tool, a rule or a grant changed after the call was made: no person was asked.
            (_, Verdict::Ask) => failed(format!("A person has to allow `{tool}`, and none was asked. Call it again.")),
        }
    }

    fn decide(&self, entry: &ToolEntry, input: &Value) -> DecidedCall {
        let tool = entry.name();
        let policy = entry.tool.policy_for(input);
        let subject = entry.tool.subject(input);
        let consent = match policy.approval {
            Approval::NotNeeded => ToolConsent::Runs,
            Approval::Needed | Approval::EachTime => ToolConsent::AsksPerson,
        };
        let decision = self.ruled(tool, &subject, consent);
        if decision.verdict != Verdict::Ask {
            return DecidedCall { policy, subject, terms: String::new(), decision };
        }
        let terms = self.terms(entry);
        let decision = match policy.approval {
            Approval::EachTime => decision, // It may have become so after a grant was given.
            Approval::NotNeeded | Approval::Needed => decision.after(self.grants, tool, &subject, &terms, self.now),
        };
        DecidedCall { policy, subject, terms, decision }
    }

    /// What the rules say: the strictest of those of the agent and of the agents above.
    fn ruled(&self, tool: &str, subject: &RuleSubject, consent: ToolConsent) -> Decision {
        if let Some(missing) = self.above.iter().find(|above| above.agent.is_none()) {
            return Decision { verdict: Verdict::Deny, basis: Basis::Unknown(missing.name.clone()) };
        }
        let above = self.above.iter().filter_map(|above| Some((&*above.name, &above.agent.as_ref()?.permissions)));
        self.permissions.decide_below(above, tool, subject, consent)
    }

    /// A fingerprint of everything a grant is given for: how the tool is described and confined, and the rules.
    fn terms(&self, entry: &ToolEntry) -> String {
        let spec = entry.tool.spec();
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        };
        add(&spec.name);
        add(&spec.description);
        add(&spec.input_schema.to_string());
        add(&entry.tool.confinement().unwrap_or_default());
        let told = entry.tool.grant_terms();
        if !told.is_empty() {
            add(&told);
        }
        let above = self.above.iter().filter_map(|above| above.agent.as_deref()).map(|agent| &agent.permissions);
        for (list, rule) in [self.permissions].into_iter().chain(above).flat_map(Permissions::rules) {
            add(list.word());
            add(rule.text());
        }
        hash.finalize().iter().take(TERMS_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Notes decisions that rest on a rule or a grant. What the tool's own policy decides shows in what follows.
    fn log(&self, call: &Call, tool: &str, Decision { verdict, basis }: &Decision) {
        if *basis != Basis::Policy {
            let Self { chat, owner, .. } = self;
            let verdict = verdict.word();
            tracing::info!(target: AUDIT, event = "permission", %chat, owner, call = %call.uid, tool, verdict, %basis);
        }
    }
}

impl DecidedCall {
    fn path(&self) -> Option<&str> {
        match &self.subject {
            RuleSubject::Path(path) => Some(path),
            RuleSubject::Nothing | RuleSubject::Command(_) | RuleSubject::Unknown => None,
        }
    }

    /// What a person should know about the call.
    fn ask(&self, entry: &ToolEntry) -> AskDetail {
        let grant = match self.policy.approval {
            Approval::NotNeeded | Approval::Needed => grant_for(entry.name(), &self.subject),
            Approval::EachTime => None,
        };
        AskDetail {
            basis: self.decision.basis.to_string(),
            effect: self.policy.effect,
            path: self.path().map(Into::into),
            confinement: entry.tool.confinement(),
            grant,
            terms: self.terms.clone(),
        }
    }
}

/// The result of a call that is denied.
fn denial(basis: &Basis) -> String {
    format!("This call is not permitted here ({basis}). It was not run. Do not repeat it; find another way, or say so.")
}
