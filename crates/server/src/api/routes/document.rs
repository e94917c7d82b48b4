//! Parts of the OpenAPI document that hold for every route.

mod unions;

use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Required, ResponseBuilder};

use crate::api::request::KEY_LEN_MAX;
use crate::auth::guard::PROBES;

pub use unions::name_alternatives;

const PROBLEM: &str = "application/problem+json";

/// Errors of every route.
const EVERYWHERE: [(&str, &str); 9] = [
    ("401", "There is no token, or it is not valid"),
    ("403", "The token lacks a scope, or the request comes from a page of another site"),
    ("404", "Not found, or it belongs to another owner"),
    ("408", "The request took too long"),
    ("421", "The request is for another server"),
    ("422", "The request is not valid"),
    ("429", "Too many at once; Retry-After says when to retry"),
    ("500", "An error of the server"),
    ("503", "The store is not available, or too many bytes are sent or read at once; Retry-After says when to retry"),
];
/// Errors of routes with a body.
const WITH_BODY: [(&str, &str); 2] = [("413", "The body is too long"), ("415", "The body is not JSON")];

/// Adds the responses of the guard and the extractors to every operation.
pub fn complete(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let is_open = PROBES.contains(&path.as_str());
        for operation in operations(item) {
            if !is_open {
                fail_everywhere(operation);
            }
            name_problems(operation);
            describe_keys(operation);
            describe_numbers(operation);
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch].into_iter().flatten()
}

fn fail_everywhere(operation: &mut Operation) {
    let mut with_body = &[][..];
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        body.required = Some(Required::True);
        with_body = &WITH_BODY;
    }
    for (status, description) in EVERYWHERE.iter().chain(with_body) {
        let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("ProblemBody"))).build();
        let response = ResponseBuilder::new().description(*description).content(PROBLEM, problem).build();
        operation.responses.responses.entry((*status).into()).or_insert(RefOr::T(response));
    }
}

/// Describes every error response as a problem.
fn name_problems(operation: &mut Operation) {
    let responses = operation.responses.responses.iter_mut();
    for (_, response) in responses.filter(|(status, _)| status.starts_with(['4', '5'])) {
        if let RefOr::T(response) = response
            && let Some(content) = response.content.shift_remove("application/json")
        {
            response.content.insert(PROBLEM.into(), content);
        }
    }
}

/// Describes numbers as unsigned 64-bit integers.
fn describe_numbers(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter
            && let Some(RefOr::T(Schema::Object(object))) = &mut parameter.schema
            && object.minimum.is_some()
            && object.format == Some(SchemaFormat::KnownFormat(KnownFormat::Int64))
        {
            object.format = Some(SchemaFormat::Custom("uint64".into()));
        }
    }
}

fn describe_keys(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = parameter else { continue };
        if parameter.name != "Idempotency-Key" {
            continue;
        }
        let schema = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .pattern(Some("^[!-~]+$"))
            .min_length(Some(1))
            .max_length(Some(KEY_LEN_MAX));
        parameter.schema = Some(schema.into());
    }
}
