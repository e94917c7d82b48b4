//! How answers begin, and how they go on.

/// One wire's words for it.
pub(crate) struct Answer {
    /// Before a text.
    pub head: &'static str,
    /// A word more.
    pub piece: &'static str,
    /// Before a call's input.
    pub call: &'static str,
    /// More of it.
    pub input: &'static str,
    /// Events with a field that any value may stand in.
    pub anything: &'static [&'static str],
}

pub(crate) const ANTHROPIC: Answer = Answer {
    head: r#"data: {"type":"message_start","message":{"id":"msg_1"}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

"#,
    piece: r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"token"}}

"#,
    call: r#"data: {"type":"message_start","message":{"id":"msg_1"}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"write","input":{}}}

"#,
    input: r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"token"}}

"#,
    anything: &[
        r#"{"type":"new","x":anything}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":anything}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"x":anything}"#,
        r#"{"type":"new","index":anything}"#,
    ],
};

pub(crate) const RESPONSES: Answer = Answer {
    head: r#"data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1"}}

data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"m1","type":"message"}}

"#,
    piece: r#"data: {"type":"response.output_text.delta","sequence_number":2,"output_index":0,"content_index":0,"delta":"token"}

"#,
    call: r#"data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1"}}

data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"f1","type":"function_call","name":"write","call_id":"c1"}}

"#,
    input: r#"data: {"type":"response.function_call_arguments.delta","sequence_number":2,"output_index":0,"delta":"token"}

"#,
    anything: &[
        r#"{"type":"new","x":anything}"#,
        r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"new","x":anything}}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","x":anything}}"#,
        r#"{"type":"response.completed","response":{"status":"completed","output":anything}}"#,
    ],
};

pub(crate) const CHAT: Answer = Answer {
    head: ": hello\n\n",
    piece: r#"data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"token"}}]}

"#,
    call: r#"data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","function":{"name":"write","arguments":"{\"a\":\""}}]}}]}

"#,
    input: r#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"token"}}]}}]}

"#,
    anything: &[
        r#"{"usage":anything}"#,
        r#"{"choices":[{"delta":{"content":anything}}]}"#,
        r#"{"choices":[{"delta":{"annotations":anything}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":anything}}]}}]}"#,
    ],
};

/// Its calls come whole.
pub(crate) const GEMINI: Answer = Answer {
    head: ": hello\n\n",
    piece: r#"data: {"candidates":[{"content":{"parts":[{"text":"token"}]}}]}

"#,
    call: ": hello\n\n",
    input: r#"data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"write","args":{"a":"token"}}}]}}]}

"#,
    anything: &[
        r#"{"candidates":[{"content":{"parts":[{"new":anything}]}}]}"#,
        r#"{"candidates":[{"groundingMetadata":{"groundingChunks":anything}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":anything}}]}}]}"#,
    ],
};

pub(crate) const INTERACTIONS: Answer = Answer {
    head: r#"data: {"event_type":"interaction.created","event_id":"e0","interaction":{"id":"v1_1"}}

data: {"event_type":"step.start","event_id":"e1","index":0,"step":{"type":"model_output"}}

"#,
    piece: r#"data: {"event_type":"step.delta","event_id":"e2","index":0,"delta":{"type":"text","text":"token"}}

"#,
    call: r#"data: {"event_type":"interaction.created","event_id":"e0","interaction":{"id":"v1_1"}}

data: {"event_type":"step.start","event_id":"e1","index":0,"step":{"type":"function_call","id":"c1","name":"write"}}

"#,
    input: r#"data: {"event_type":"step.delta","event_id":"e2","index":0,"delta":{"type":"arguments_delta","arguments":"token"}}

"#,
    anything: &[
        r#"{"event_type":"step.start","step":{"type":"new","x":anything}}"#,
        r#"{"event_type":"step.start","step":{"type":"search_result","result":anything}}"#,
        r#"{"event_type":"step.delta","delta":{"type":"text_annotation_delta","annotations":anything}}"#,
    ],
};
