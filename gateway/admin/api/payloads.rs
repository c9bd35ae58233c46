//! Declares the types of operations: what they derive, the names of their members, and the members
//! that are omitted or required.

/// Declares types of the API, with members named in camel case.
///
/// An `output` is a response. Members without a value are omitted, unless they are `as null`, and
/// so is `dry_run` of a change that was made. An `input` is a body, and a `filter` the parameters
/// of a query; both reject unknown members. Texts of a filter have a `max`, in characters. A
/// `choice` is one of a filter's words.
macro_rules! types {
    () => {};
    ($(#[$meta:meta])* output $vis:vis struct $name:ident { $($members:tt)* } $($rest:tt)*) => {
        members! {
            output [
                #[derive(Debug, ::serde::Serialize)]
                #[cfg_attr(test, derive(::utoipa::ToSchema))]
                #[serde(rename_all = "camelCase")]
                $(#[$meta])* $vis struct $name
            ] {} $($members)*
        }
        types! { $($rest)* }
    };
    ($(#[$meta:meta])* input $vis:vis struct $name:ident { $($members:tt)* } $($rest:tt)*) => {
        #[derive(::serde::Deserialize)]
        #[cfg_attr(test, derive(::utoipa::ToSchema))]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        $(#[$meta])* $vis struct $name { $($members)* }
        types! { $($rest)* }
    };
    ($(#[$meta:meta])* filter $vis:vis struct $name:ident { $($members:tt)* } $($rest:tt)*) => {
        members! {
            filter [
                #[derive(Debug, Default, ::serde::Deserialize)]
                #[cfg_attr(test, derive(::utoipa::IntoParams), into_params(parameter_in = Query))]
                #[serde(deny_unknown_fields, rename_all = "camelCase")]
                $(#[$meta])* $vis struct $name
            ] {} $($members)*
        }
        types! { $($rest)* }
    };
    ($(#[$meta:meta])* choice $vis:vis enum $name:ident { $($words:tt)* } $($rest:tt)*) => {
        #[derive(Clone, Copy, Debug, ::serde::Deserialize)]
        #[cfg_attr(test, derive(::utoipa::ToSchema))]
        #[serde(rename_all = "camelCase")]
        $(#[$meta])* $vis enum $name { $($words)* }
        types! { $($rest)* }
    };
}

/// Adds the members of a type to its head, each with its attributes.
macro_rules! members {
    ($kind:ident [$($head:tt)*] { $($done:tt)* }) => { $($head)* { $($done)* } };
    (output $head:tt { $($done:tt)* } $(#[$meta:meta])* $vis:vis dry_run: bool, $($rest:tt)*) => {
        members! {
            output $head {
                $($done)*
                $(#[$meta])* #[serde(skip_serializing_if = "std::ops::Not::not")]
                $vis dry_run: bool,
            } $($rest)*
        }
    };
    (
        output $head:tt { $($done:tt)* }
        $(#[$meta:meta])* $vis:vis $name:ident: Option<$of:ty>, $($rest:tt)*
    ) => {
        members! {
            output $head {
                $($done)*
                $(#[$meta])* #[serde(skip_serializing_if = "Option::is_none")]
                $vis $name: Option<$of>,
            } $($rest)*
        }
    };
    (
        filter $head:tt { $($done:tt)* }
        $(#[$meta:meta])* $vis:vis $name:ident: Option<bool>, $($rest:tt)*
    ) => {
        members! {
            filter $head {
                $($done)*
                $(#[$meta])* #[serde(default, deserialize_with = "crate::api::page::flag")]
                $vis $name: Option<bool>,
            } $($rest)*
        }
    };
    (
        filter $head:tt { $($done:tt)* }
        $(#[$meta:meta])* $vis:vis $name:ident: Option<String> max $most:tt, $($rest:tt)*
    ) => {
        members! {
            filter $head {
                $($done)*
                $(#[$meta])* #[cfg_attr(test, param(max_length = $most))]
                $vis $name: Option<String>,
            } $($rest)*
        }
    };
    (
        filter $head:tt { $($done:tt)* }
        $(#[$meta:meta])* $vis:vis $name:ident: Option<$of:ty>, $($rest:tt)*
    ) => {
        members! {
            filter $head {
                $($done)*
                $(#[$meta])* #[cfg_attr(test, param(inline))]
                $vis $name: Option<$of>,
            } $($rest)*
        }
    };
    (
        $kind:ident $head:tt { $($done:tt)* }
        $(#[$meta:meta])* $vis:vis $name:ident: $of:ty $(as null)?, $($rest:tt)*
    ) => {
        members! {
            $kind $head { $($done)* $(#[$meta])* $vis $name: $of, } $($rest)*
        }
    };
}

pub(crate) use {members, types};
