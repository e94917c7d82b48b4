use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ToolSpec, gemini_schema, normal_schema};
use crate::prompt::{PromptEntries, PromptEntry, PromptPart, Request, Role, Target, WireFormat, validate};

fn taken(tool: ToolSpec, wire: WireFormat) -> Result<(), Vec<crate::prompt::RequestViolation>> {
    let target = Target::new(wire, "p");
    let entries = PromptEntries::from(vec![PromptEntry::new(Role::User, vec![PromptPart::text("go")])]);
    let request = Request::new("p/m".parse().unwrap(), &target, entries);
    validate(&Request { tools: [tool].into(), ..request }, &target)
}

/// CL03: a schema without properties is sent with an empty object, never null.
#[test]
fn missing_properties_become_an_empty_object() {
    let empty = json!({"type": "object", "properties": {}});
    for schema in [
        Value::Null,
        json!({}),
        json!(true),
        json!([]),
        json!({"type": "object"}),
        json!({"type": "object", "properties": null}),
        json!({"type": "object", "properties": null, "required": null}),
        json!({"type": "object", "properties": {}, "required": []}),
        json!({"type": "string"}),
        json!({"$ref": "#/nowhere"}),
    ] {
        assert_eq!(normal_schema(&schema), empty, "{schema}");
    }
}

#[test]
fn schemas_are_brought_into_normal_form() {
    let property = |schema: Value| {
        let whole = normal_schema(&json!({"type": "object", "properties": {"p": schema}}));
        whole["properties"]["p"].clone()
    };
    for (given, normal) in [
        (json!({"type": ["string"]}), json!({"type": "string"})),
        (
            json!({"type": ["string", "null"], "description": "d"}),
            json!({"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d"}),
        ),
        (
            json!({"type": ["array", "null"], "items": {"type": ["integer"]}}),
            json!({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}),
        ),
        (
            json!({"type": ["array", "object"], "properties": null, "required": ["a"]}),
            json!({"anyOf": [{"type": "array", "items": {}}, {"type": "object", "properties": {}, "required": ["a"]}]}),
        ),
        (
            json!({"type": ["string", "null"], "anyOf": [{"minLength": 1}]}),
            json!({"anyOf": [{"minLength": 1}], "allOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}]}),
        ),
        (json!({"type": []}), json!({})),
        (json!({"type": "array"}), json!({"type": "array", "items": {}})),
        (json!({"type": "array", "items": null}), json!({"type": "array", "items": {}})),
        (
            json!({"type": "array", "items": [{"type": "array"}]}),
            json!({"type": "array", "items": {"anyOf": [{"type": "array", "items": {}}]}}),
        ),
        (json!({"type": "object", "required": ["a", 1, "a"]}), json!({"type": "object", "required": ["a"]})),
        (json!({"type": "object", "required": []}), json!({"type": "object"})),
        (json!(null), json!({})),
        (json!(true), json!(true)),
    ] {
        assert_eq!(property(given.clone()), normal, "{given}");
    }
}

#[test]
fn a_choice_at_the_top_becomes_one_object() {
    let a = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    let b = json!({"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]});
    let both = json!({"a": {"type": "string"}, "b": {"type": "string"}});
    let choice = normal_schema(&json!({"oneOf": [a, b]}));
    assert_eq!(choice, json!({"type": "object", "properties": both}));
    let all = normal_schema(&json!({"allOf": [a, {"$ref": "#/$defs/B"}], "$defs": {"B": b}, "description": "d"}));
    assert_eq!((&all["properties"], &all["required"]), (&both, &json!(["a", "b"])));
    let named = normal_schema(&json!({"$ref": "#/$defs/A", "$defs": {"A": a}}));
    assert_eq!((&named["properties"], &named["required"]), (&a["properties"], &json!(["a"])));
    let nullable = normal_schema(&json!({"type": ["object", "null"], "properties": {"a": {}}}));
    assert_eq!(nullable, json!({"type": "object", "properties": {"a": {}}}));
}

#[test]
fn gemini_gets_the_part_of_a_schema_it_knows() {
    let property = |schema: Value| {
        let defs = json!({"Id": {"type": "integer", "format": "int64"}, "Tree": {"properties": {"left": {"$ref": "#/$defs/Tree"}}}});
        let whole = json!({"type": "object", "properties": {"p": schema}, "$defs": defs, "required": ["p", "q"]});
        let whole = gemini_schema(&whole).unwrap();
        assert_eq!((&whole["type"], &whole["required"]), (&json!("object"), &json!(["p"])));
        whole["properties"]["p"].clone()
    };
    for (given, known) in [
        (json!({"type": "string", "format": "uri", "title": "T", "default": ""}), json!({"type": "string"})),
        (json!({"type": ["string", "null"]}), json!({"type": "string", "nullable": true})),
        (json!({"type": "null"}), json!({"type": "string", "nullable": true})),
        (json!({"const": "a"}), json!({"type": "string", "enum": ["a"]})),
        (json!({"enum": ["a", "b"]}), json!({"type": "string", "enum": ["a", "b"]})),
        (json!({"enum": ["a", ""]}), json!({"type": "string"})),
        (json!({"enum": [1, 2]}), json!({"type": "number"})),
        (json!({"type": "integer", "enum": [1], "minimum": 1}), json!({"type": "integer", "minimum": 1})),
        (json!({"type": "array"}), json!({"type": "array", "items": {"type": "string"}})),
        (json!({"type": "object", "additionalProperties": true}), json!({"type": "object"})),
        (
            json!({"$ref": "#/$defs/Id", "description": "d"}),
            json!({"type": "integer", "format": "int64", "description": "d"}),
        ),
        (json!({"$ref": "#/$defs/Tree"}), json!({"type": "object", "properties": {"left": {"type": "object"}}})),
        (
            json!({"oneOf": [{"type": "string"}, {"$ref": "#/$defs/Id"}], "description": "d"}),
            json!({"anyOf": [
                {"type": "string", "description": "d"},
                {"type": "integer", "format": "int64", "description": "d"},
            ]}),
        ),
        (
            json!({"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]}),
            json!({
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "required": ["a", "b"],
            }),
        ),
        (json!(true), json!({"type": "string"})),
    ] {
        assert_eq!(property(given.clone()), known, "{given}");
    }
    assert_eq!(gemini_schema(&json!({"type": "object"})), None);
}

/// A schema can be small and still describe more than anybody could write down.
#[test]
fn a_schema_that_unfolds_without_end_is_cut() {
    let node = |name: &str| {
        let edges = (0..9).map(|n| (format!("{name}{n}"), json!({"$ref": format!("#/$defs/N{n}")})));
        json!({"properties": Value::Object(edges.collect()), "allOf": [{"$ref": "#/$defs/N1"}, {"$ref": "#/$defs/N2"}]})
    };
    let defs: serde_json::Map<_, _> = (0..9).map(|n| (format!("N{n}"), node("e"))).collect();
    let schema = json!({"$ref": "#/$defs/N0", "$defs": defs});
    let cut = gemini_schema(&schema).unwrap();
    assert!(cut.to_string().len() < 200_000);
    assert_eq!(taken(ToolSpec::new("walk", "", schema), WireFormat::Anthropic), Ok(()));
}

#[test]
fn a_tool_the_provider_defines_keeps_its_definition() {
    let definition = json!({"type": "computer_20250124", "display_width_px": 800});
    let tool = ToolSpec::provider_defined("computer", definition.clone());
    assert_eq!(tool.provider_defined, Some(definition));
    assert_eq!(taken(tool, WireFormat::Anthropic), Ok(()));
}

/// Schemas by chance, from the keywords that matter and values that do not fit them.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        Just(json!([])),
        Just(json!({})),
        Just(json!("string")),
        Just(json!(["string", "null"])),
        Just(json!(["array", "object", 7])),
        Just(json!("array")),
        Just(json!("object")),
        Just(json!("#/$defs/a")),
        Just(json!("#")),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        let keys = [
            "type",
            "properties",
            "items",
            "anyOf",
            "oneOf",
            "allOf",
            "required",
            "$ref",
            "$defs",
            "a",
            "enum",
            "additionalProperties",
            "prefixItems",
            "description",
        ];
        let key = proptest::sample::select(keys.to_vec()).prop_map(String::from);
        let map = proptest::collection::btree_map(key, inner.clone(), 0..6);
        prop_oneof![
            3 => map.prop_map(|map| Value::Object(map.into_iter().collect())),
            1 => proptest::collection::vec(inner, 0..4).prop_map(Value::Array),
        ]
    })
}

fn assert_known(schema: &Value) -> Result<(), TestCaseError> {
    let map = schema.as_object().expect("a schema is an object");
    if let Some(branches) = map.get("anyOf") {
        prop_assert_eq!(map.len(), 1);
        return branches.as_array().into_iter().flatten().try_for_each(assert_known);
    }
    let known = ["type", "description", "nullable", "enum", "items", "properties", "required", "format"];
    prop_assert!(map.keys().all(|key| known.contains(&key.as_str())), "{}", schema);
    prop_assert!(map["type"].is_string());
    prop_assert_eq!(map.contains_key("items"), map["type"] == "array");
    map.get("items").map_or(Ok(()), assert_known)?;
    map.get("properties").and_then(Value::as_object).into_iter().flat_map(|map| map.values()).try_for_each(assert_known)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_schema_becomes_one_every_wire_takes(schema in any_schema()) {
        let normal = normal_schema(&schema);
        prop_assert_eq!(&normal_schema(&normal), &normal);
        // No wire takes a type that there is not, and only the tool's author knows which was meant.
        prop_assume!(!normal.to_string().contains(r##""type":"#"##));
        // Anthropic takes no `$` in the names of properties, and only the tool's author could change those.
        let nameable = |wire| wire != WireFormat::Anthropic || !normal["properties"].to_string().contains("\"$");
        for wire in WireFormat::ALL.into_iter().filter(|wire| nameable(*wire)) {
            prop_assert_eq!(taken(ToolSpec::new("t", "", schema.clone()), wire), Ok(()), "{}", normal);
        }
        if let Some(gemini) = gemini_schema(&schema) {
            assert_known(&gemini)?;
        }
    }
}
