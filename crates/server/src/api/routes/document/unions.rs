//! Unions in a form that client generators can read.
//!
//! A struct that flattens an enum is described as `allOf` over `oneOf`, of which generators make types that do not compile,
//! or that say nothing. So each alternative becomes an object of its own, with a name, and the union a plain `oneOf` of
//! these: `UserMessage`, `ReplyMessage` and so on, told apart by `kind`.

use std::collections::BTreeSet;

use utoipa::openapi::schema::{AllOf, Components, Discriminator, Object, OneOfBuilder, Schema};
use utoipa::openapi::{OpenApi, Ref, RefOr};

const SCHEMAS: &str = "#/components/schemas/";

/// One form that a schema allows.
#[derive(Clone)]
struct Form {
    /// The schema's name, if the form is exactly that schema.
    name: Option<String>,
    object: Object,
}

/// Replaces every union of parts by a union of whole objects.
pub fn name_alternatives(document: &mut OpenApi) {
    let text = document.to_json().unwrap_or_default();
    let components = document.components.get_or_insert_default();
    let before = components.clone();
    for (name, schema) in &before.schemas {
        let description = match schema {
            RefOr::T(Schema::AllOf(all)) => all.description.clone(),
            RefOr::T(Schema::OneOf(one)) if one.items.iter().any(|item| matches!(item, RefOr::T(_))) => {
                one.description.clone()
            }
            RefOr::T(_) | RefOr::Ref(_) => continue,
        };
        let mut forms = forms(&before, schema);
        if matches!(schema, RefOr::T(Schema::OneOf(_))) && is_part(&before, &text, name) {
            components.schemas.remove(name);
        } else if forms.len() == 1 {
            let mut object = forms.remove(0).object;
            object.description = description;
            components.schemas.insert(name.clone(), RefOr::T(object.into()));
        } else {
            name_forms(components, name, description, forms);
        }
    }
}

/// A union of forms that have names of their own.
fn name_forms(components: &mut Components, name: &str, description: Option<String>, forms: Vec<Form>) {
    let (mut union, mut mapping, mut properties) = (OneOfBuilder::new(), Vec::new(), BTreeSet::new());
    for Form { name: own, object } in forms {
        let tag = tag(&object);
        let label = tag.as_ref().map_or_else(|| own.unwrap_or_default(), |(_, value)| pascal(value));
        let named = format!("{label}{name}");
        properties.insert(tag.as_ref().map(|(property, _)| property.clone()));
        mapping.extend(tag.map(|(_, value)| (value, format!("{SCHEMAS}{named}"))));
        union = union.item(Ref::from_schema_name(named.clone()));
        components.schemas.insert(named, RefOr::T(object.into()));
    }
    if let [Some(property)] = &Vec::from_iter(properties)[..] {
        union = union.discriminator(Some(Discriminator::with_mapping(property.clone(), mapping)));
    }
    components.schemas.insert(name.into(), RefOr::T(union.description(description).build().into()));
}

/// Every form that a schema allows, each as one object.
fn forms(components: &Components, schema: &RefOr<Schema>) -> Vec<Form> {
    match schema {
        RefOr::Ref(to) => {
            let name = to.ref_location.trim_start_matches(SCHEMAS);
            let mut found = components.schemas.get(name).map(|schema| forms(components, schema)).unwrap_or_default();
            if let [only] = &mut found[..] {
                only.name = Some(name.into());
            }
            found
        }
        RefOr::T(Schema::Object(object)) => vec![Form { name: None, object: object.clone() }],
        RefOr::T(Schema::OneOf(one)) => one.items.iter().flat_map(|item| forms(components, item)).collect(),
        RefOr::T(Schema::AllOf(all)) => products(components, all),
        RefOr::T(_) => Vec::new(),
    }
}

/// Every combination of one form per part.
fn products(components: &Components, all: &AllOf) -> Vec<Form> {
    let nothing = vec![Form { name: None, object: Object::new() }];
    let mut products = all.items.iter().fold(nothing, |before, item| {
        let more = forms(components, item);
        before.iter().flat_map(|one| more.iter().map(|other| merged(one, other))).collect()
    });
    for product in &mut products {
        product.object.description = all.description.clone().or(product.object.description.take());
    }
    products
}

fn merged(one: &Form, other: &Form) -> Form {
    let mut object = one.object.clone();
    object.required.extend(other.object.required.iter().cloned());
    object.properties.extend(other.object.properties.clone());
    object.description = object.description.or_else(|| other.object.description.clone());
    Form { name: one.name.clone().or_else(|| other.name.clone()), object }
}

/// The property with a single allowed value, and the value.
fn tag(object: &Object) -> Option<(String, String)> {
    object.properties.iter().find_map(|(property, schema)| match schema {
        RefOr::T(Schema::Object(Object { enum_values: Some(values), .. })) => match &values[..] {
            [value] => Some((property.clone(), value.as_str()?.into())),
            _ => None,
        },
        _ => None,
    })
}

fn pascal(snake: &str) -> String {
    let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    snake.split('_').filter(|word| !word.is_empty()).map(capital).collect()
}

/// Whether a union is used only as a part of other schemas, which then contain its alternatives.
fn is_part(components: &Components, text: &str, name: &str) -> bool {
    let is_it = |item: &&RefOr<Schema>| matches!(item, RefOr::Ref(to) if to.ref_location == format!("{SCHEMAS}{name}"));
    let parts = components.schemas.values().map(|schema| match schema {
        RefOr::T(Schema::AllOf(all)) => all.items.iter().filter(is_it).count(),
        RefOr::T(_) | RefOr::Ref(_) => 0,
    });
    let parts: usize = parts.sum();
    parts > 0 && parts == text.matches(&format!("\"{SCHEMAS}{name}\"")).count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use crate::openapi;

    /// Visits every schema within a value, with its path.
    fn walk(value: &Value, place: &str, seen: &mut impl FnMut(&str, &Value)) {
        seen(place, value);
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(name, field)| walk(field, &format!("{place}/{name}"), seen))
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, place, seen)),
            _ => {}
        }
    }

    /// No generator has to combine alternatives, and every reference has a target.
    #[test]
    fn unions_are_of_whole_objects_with_names() {
        let document = serde_json::to_value(openapi()).unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        walk(&document, "", &mut |place, value| {
            assert!(value.get("allOf").is_none(), "{place} is put together of parts");
            if let Some(to) = value.get("$ref").and_then(Value::as_str) {
                let name = to.rsplit('/').next().unwrap();
                assert!(schemas.contains_key(name), "{place} refers to {name}, which is not there");
            }
        });
        let alternatives = |name: &str| -> Vec<&str> {
            let one = schemas[name]["oneOf"].as_array().unwrap();
            one.iter().map(|item| item["$ref"].as_str().unwrap().rsplit('/').next().unwrap()).collect()
        };
        let messages = ["UserMessage", "ContextMessage", "ReplyMessage", "ResultMessage", "SummaryMessage"];
        assert_eq!(alternatives("Message"), messages);
        assert_eq!(schemas["Message"]["discriminator"]["mapping"]["user"], "#/components/schemas/UserMessage");
        let reply = schemas["ReplyMessage"].as_object().unwrap();
        for property in ["id", "at", "kind", "step", "parts"] {
            assert!(reply["properties"].get(property).is_some(), "{property}");
            assert!(reply["required"].as_array().unwrap().contains(&property.into()), "{property}");
        }
        assert!(alternatives("Told").contains(&"RewoundTold") && alternatives("Told").contains(&"UserTold"));
        assert!(!schemas.contains_key("Body") && !schemas.contains_key("Increment"), "parts of nothing");
    }

    /// Every operation has an id of its own, from which generators make method names.
    #[test]
    fn operations_have_names_of_their_own() {
        let document = serde_json::to_value(openapi()).unwrap();
        let mut names = BTreeMap::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let name = operation["operationId"].as_str().unwrap().to_owned();
                let is_camel = name.chars().all(|letter| letter.is_ascii_alphabetic())
                    && name.starts_with(|letter: char| letter.is_ascii_lowercase())
                    && name.contains(|letter: char| letter.is_ascii_uppercase());
                assert!(is_camel, "{method} {path} is called {name}");
                assert_eq!(names.insert(name.clone(), path.clone()), None, "{name} is there twice");
            }
        }
        assert_eq!(names["listChats"], "/v1/chats");
        assert_eq!(names["getOwnerUsage"], "/v1/usage");
    }
}
