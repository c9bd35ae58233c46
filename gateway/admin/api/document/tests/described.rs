//! The input and output of operations as the document describes them, from the types of functions.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Sse;
use serde_json::{Value, json};
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::api::access::By;
use crate::api::answer::CallResult;
use crate::api::body::Body;
use crate::api::call::CallOrigin;
use crate::api::change::{Deletion, Reply};
use crate::api::page::{Page, Paged, PartQuery, Query};
use crate::api::problem::Problem;
use crate::api::tools::ToolResult;

/// The types of a function, as the document describes them.
#[derive(Default)]
pub(crate) struct Types {
    pub(super) parameters: Vec<Value>,
    pub(super) body: Option<Value>,
    /// The content of a successful response.
    pub(super) result: Value,
    pub(super) schemas: BTreeMap<String, Value>,
}

impl Types {
    /// Returns the content of a type, whose schemas become a part of the document.
    fn refer<T: ToSchema>(&mut self) -> Value {
        if T::name() == "Value" {
            return json_content(&json!({"type": "object"}));
        }
        let mut all = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut all);
        for (name, schema) in all {
            self.schemas.insert(name, serde_json::to_value(schema).unwrap());
        }
        json_content(&json!({"$ref": format!("#/components/schemas/{}", T::name())}))
    }
}

pub(super) fn json_content(schema: &Value) -> Value {
    json!({"application/json": {"schema": schema}})
}

/// A parameter of a function.
pub(crate) trait Part {
    fn describe(_: &mut Types) {}
}

impl<T> Part for Path<T> {}
impl Part for CallOrigin {}
impl Part for HeaderMap {}

impl<T: IntoParams> Part for Query<T> {
    fn describe(types: &mut Types) {
        let all = T::into_params(|| Some(ParameterIn::Query));
        types.parameters.extend(all.iter().map(|one| serde_json::to_value(one).unwrap()));
    }
}

impl<T: ToSchema> Part for Body<T> {
    fn describe(types: &mut Types) {
        types.body = Some(json!({"content": types.refer::<T>()}));
    }
}

impl<F: IntoParams> IntoParams for Paged<F> {
    fn into_params(place: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let mut all = PartQuery::into_params(&place);
        all.extend(F::into_params(&place));
        all
    }
}

/// The result of a function.
pub(crate) trait Output {
    fn describe(types: &mut Types);
}

impl<T: ToSchema> Output for Json<T> {
    fn describe(types: &mut Types) {
        types.result = types.refer::<T>();
    }
}

impl<T: ToSchema> Output for Reply<T> {
    fn describe(types: &mut Types) {
        Json::<T>::describe(types);
    }
}

impl<T: ToSchema> Output for Deletion<T> {
    fn describe(types: &mut Types) {
        Json::<T>::describe(types);
    }
}

impl Output for CallResult {
    fn describe(types: &mut Types) {
        Json::<ToolResult>::describe(types);
    }
}

impl<S> Output for Sse<S> {
    fn describe(types: &mut Types) {
        types.result = json!({"text/event-stream": {"schema": {"type": "string"}}});
    }
}

impl<T: Output> Output for (StatusCode, T) {
    fn describe(types: &mut Types) {
        T::describe(types);
    }
}

impl<T: Output> Output for Result<T, Problem> {
    fn describe(types: &mut Types) {
        T::describe(types);
    }
}

impl<T: ToSchema> PartialSchema for Page<T> {
    fn schema() -> RefOr<Schema> {
        let text = SchemaType::from_iter([Type::String, Type::Null]);
        let next = ObjectBuilder::new().schema_type(text);
        let total = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0));
        ObjectBuilder::new()
            .description(Some("A part of a list."))
            .property("items", ArrayBuilder::new().items(T::schema()))
            .property("nextCursor", next.description(Some("The start of the next page, if any.")))
            .property("total", total.description(Some("The number of items in all pages.")))
            .required("items")
            .required("total")
            .into()
    }
}

impl<T: ToSchema> ToSchema for Page<T> {
    fn name() -> Cow<'static, str> {
        format!("Page_{}", T::name()).into()
    }

    fn schemas(all: &mut Vec<(String, RefOr<Schema>)>) {
        all.push((T::name().into_owned(), T::schema()));
        T::schemas(all);
    }
}

/// A function of the table.
pub(crate) trait Described<Parts> {
    fn describe(types: &mut Types);
}

macro_rules! described {
    ($($part:ident)*) => {
        impl<F, R, $($part: Part,)* A: Future<Output: Output>> Described<(R, $($part,)*)> for F
        where
            F: Fn(By<R>, $($part),*) -> A,
        {
            fn describe(types: &mut Types) {
                $($part::describe(types);)*
                A::Output::describe(types);
            }
        }
    };
}

described!();
described!(P);
described!(P Q);
described!(P Q S);

pub(crate) fn describe_types<Parts, F: Described<Parts>>(_: &F, types: &mut Types) {
    F::describe(types);
}
