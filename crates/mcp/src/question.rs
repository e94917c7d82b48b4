//! Questions of servers, which a person answers.
//!
//! A server of 2026 answers a call or a task with what it wants to know first. Everything that is needed to go on is in the
//! handle: any process can send the answers, days later.

use std::collections::BTreeMap;

use everturn::{QuestionAnswer, ToolQuestion};
use rmcp::model::{ElicitRequestParams, InputRequest, InputRequests, InputResponses};
use serde_json::{Map, Value, json};

use crate::tool::HANDLE_VERSION;

/// What a server wants to know.
pub(crate) struct Questions {
    questions: BTreeMap<String, Form>,
    /// What the server wants to be told again.
    pub(crate) state: Option<String>,
    /// The task that waits for the answers; without one the call is made again with them.
    pub(crate) task: Option<String>,
}

/// One question.
struct Form {
    message: String,
    schema: Value,
}

impl Questions {
    /// The questions among a server's requests, or why they cannot be put to a person.
    pub(crate) fn of(
        requests: InputRequests,
        state: Option<String>,
        task: Option<String>,
    ) -> Result<Self, &'static str> {
        let mut questions = BTreeMap::new();
        for (key, request) in requests {
            let InputRequest::Elicitation(request) = request else {
                return Err("asks for more than answers of a person, which is not supported");
            };
            let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request.params else {
                return Err("wants a person to visit a web page, which is not supported");
            };
            let schema = serde_json::to_value(requested_schema).unwrap_or_default();
            questions.insert(key, Form { message, schema });
        }
        if questions.is_empty() {
            return Err("wants to be called again later, which is not supported");
        }
        Ok(Self { questions, state, task })
    }

    /// The questions of a stored handle.
    pub(crate) fn of_handle(handle: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut questions = BTreeMap::new();
        for (key, form) in handle["questions"].as_object().filter(|_| handle["mcp"] == HANDLE_VERSION)? {
            questions.insert(key.clone(), Form { message: text(&form["message"])?, schema: form["schema"].clone() });
        }
        Some(Self { questions, state: text(&handle["state"]), task: text(&handle["task"]) })
    }

    fn shown(&self) -> Value {
        let form = |(key, Form { message, schema }): (&String, &Form)| {
            (key.clone(), json!({"message": message, "schema": schema}))
        };
        Value::Object(self.questions.iter().map(form).collect())
    }

    /// The questions as clients show them. `problem` is what was wrong with an earlier answer.
    pub(crate) fn ask(&self, server: &str, problem: Option<String>) -> ToolQuestion {
        let mut shown = Map::from_iter([("mcp_server".to_owned(), json!(server))]);
        match self.only() {
            Some(form) => {
                shown.extend([("message".to_owned(), json!(form.message)), ("schema".to_owned(), form.schema.clone())])
            }
            None => shown.extend([("questions".to_owned(), self.shown())]),
        }
        shown.extend(problem.map(|problem| ("problem".to_owned(), Value::String(problem))));
        let Self { state, task, .. } = self;
        let handle = json!({"mcp": HANDLE_VERSION, "questions": self.shown(), "state": state, "task": task});
        ToolQuestion { handle, question: Value::Object(shown) }
    }

    fn only(&self) -> Option<&Form> {
        self.questions.values().next().filter(|_| self.questions.len() == 1)
    }

    /// The server's responses of an answer, or what is wrong with it.
    pub(crate) fn responses(&self, answer: &QuestionAnswer) -> Result<InputResponses, String> {
        let QuestionAnswer::Output(text) = answer else {
            let declined = |key: &String| (key.clone(), json!({"action": "decline"}));
            return Ok(self.questions.keys().map(declined).collect());
        };
        let given: Value = serde_json::from_str(text).map_err(|error| format!("The answer is not JSON: {error}."))?;
        let mut responses = InputResponses::new();
        for (key, form) in &self.questions {
            let content = if self.questions.len() == 1 { &given } else { &given[key] };
            if !content.is_object() {
                return Err(
                    "The answer has to be a JSON object, with one object per question if there are several.".into()
                );
            }
            let fits = jsonschema::validator_for(&form.schema).ok();
            if let Some(error) = fits.and_then(|fits| fits.validate(content).err().map(|error| error.to_string())) {
                return Err(format!("The answer does not fit: {error}."));
            }
            responses.insert(key.clone(), json!({"action": "accept", "content": content}));
        }
        Ok(responses)
    }
}
