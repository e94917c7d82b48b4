//! What the stock client of the AI SDK makes of chunks. As strict as it is: what the client refuses panics here.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The message that chunks fold to.
#[derive(Debug, Default)]
pub struct Folded {
    pub id: Option<String>,
    pub parts: Vec<Value>,
    pub finish: Option<String>,
    pub error: Option<String>,
    open: BTreeMap<(bool, String), usize>,
}

impl Folded {
    /// Folds the next chunk.
    pub fn fold(&mut self, chunk: &Value) {
        let kind = chunk["type"].as_str().unwrap();
        match kind {
            "start" => self.id = Some(chunk["messageId"].as_str().unwrap().to_owned()),
            "start-step" => self.parts.push(json!({"type": "step-start"})),
            "text-start" | "reasoning-start" => {
                let name = kind.strip_suffix("-start").unwrap();
                let key = (name == "text", id(chunk));
                assert!(self.open.insert(key, self.parts.len()).is_none(), "{chunk}");
                self.parts.push(json!({"type": name, "text": "", "state": "streaming"}));
            }
            "text-delta" | "reasoning-delta" => {
                let place = self.open[&(kind.starts_with("text"), id(chunk))];
                let text = self.parts[place]["text"].as_str().unwrap().to_owned();
                self.parts[place]["text"] = json!(text + chunk["delta"].as_str().unwrap());
            }
            "text-end" | "reasoning-end" => {
                let place = self.open.remove(&(kind.starts_with("text"), id(chunk))).unwrap();
                self.parts[place]["state"] = json!("done");
            }
            "finish-step" => {}
            "reset-step" => {
                let step = self.parts.iter().rposition(|part| part["type"] == "step-start").unwrap();
                self.parts.truncate(step + 1);
                self.open.clear();
            }
            "source-url" | "file" => self.parts.push(chunk.clone()),
            "finish" => self.finish = Some(chunk["finishReason"].as_str().unwrap().to_owned()),
            "error" => self.error = Some(chunk["errorText"].as_str().unwrap().to_owned()),
            _ => self.fold_tool(kind, chunk),
        }
    }

    fn fold_tool(&mut self, kind: &str, chunk: &Value) {
        let call = chunk["toolCallId"].as_str().unwrap();
        let found = self.parts.iter().position(|part| part["toolCallId"] == call);
        let place = found.unwrap_or_else(|| {
            assert!(kind.starts_with("tool-input"), "{chunk} for an unknown call");
            let mut part = Map::new();
            part.insert("toolCallId".into(), json!(call));
            if chunk["dynamic"] == true {
                part.insert("type".into(), json!("dynamic-tool"));
                part.insert("toolName".into(), chunk["toolName"].clone());
            } else {
                part.insert("type".into(), json!(format!("tool-{}", chunk["toolName"].as_str().unwrap())));
            }
            if chunk["providerExecuted"] == true {
                part.insert("providerExecuted".into(), json!(true));
            }
            self.parts.push(Value::Object(part));
            self.parts.len() - 1
        });
        let part = &mut self.parts[place];
        let state = match kind {
            "tool-input-start" | "tool-input-delta" => "input-streaming",
            "tool-input-available" => "input-available",
            "tool-approval-request" => "approval-requested",
            "tool-output-available" => "output-available",
            "tool-input-error" | "tool-output-error" => "output-error",
            "tool-output-denied" => "output-denied",
            other => panic!("{other} is not in the protocol"),
        };
        part["state"] = json!(state);
        for field in ["input", "output", "errorText"] {
            if let Some(value) = chunk.get(field) {
                part[field] = value.clone();
            }
        }
        if kind == "tool-approval-request" {
            part["approval"] = json!({"id": chunk["approvalId"]});
        }
    }
}

fn id(chunk: &Value) -> String {
    chunk["id"].as_str().unwrap().to_owned()
}
