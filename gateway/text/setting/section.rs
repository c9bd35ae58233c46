//! The macro that declares the settings of a layer once: as the struct that the layer uses, and as
//! the section of the configuration file from which it is read.

/// Declares sections of the configuration and the words of their keys.
///
/// ```ignore
/// settings! {
///     /// Description of the section, also for editors.
///     #[derive(Debug)]
///     pub struct Config as "Name in the schema" {
///         /// Description of the key, with its range.
///         pub timeout: Duration = Seconds<1, 300, 30>,
///         /// A key with a default that the schema does not show.
///         pub words: Vec<String> = List | ["a", "b"],
///         /// A key that is converted by a function.
///         pub name: Name = Text => parse,
///         /// A section or a word, which is read as it is used.
///         pub mode: Mode,
///     }
///
///     /// Description of the words.
///     #[serde(rename_all = "lowercase")]
///     pub enum Mode { #[default] Fast, Safe }
/// }
/// ```
///
/// A struct is `Clone`, `Default` and `Deserialize`, with the defaults of its keys, and rejects
/// unknown keys. Before a key, `@serde(…)` changes how it is read.
#[macro_export]
macro_rules! settings {
    () => {};
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident { $($words:tt)* }
        $($rest:tt)*
    ) => {
        $crate::described! {
            [, inline]
            #[derive(Clone, Copy, Debug, PartialEq, Eq, ::serde::Deserialize, ::serde::Serialize)]
            $(#[$meta])*
            $vis enum $name { $($words)* }
        }
        $crate::settings! { $($rest)* }
    };
    (
        $(#[doc = $doc:literal])*
        $(#[derive($($derived:ident),*)])?
        $vis:vis struct $name:ident as $title:literal {
            $(
                $(#[$meta:meta])*
                $(@serde($($serde:tt)*))?
                $key_vis:vis $key:ident: $used:ty
                    $(= $written:ty $(=> $convert:path)? $(| $default:expr)?)?,
            )+
        }
        $($rest:tt)*
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, PartialEq, Eq $($(, $derived)*)?)]
        $vis struct $name {
            $( $(#[$meta])* $key_vis $key: $used, )+
        }

        const _: () = {
            $crate::described! {
                []
                #[derive(Default, ::serde::Deserialize)]
                $(#[doc = $doc])*
                #[serde(deny_unknown_fields, default)]
                struct Section {
                    $(
                        $(#[$meta])*
                        $(#[serde($($serde)*)])?
                        $key: $crate::setting_type!($used $(= $written $(| $default)?)?),
                    )+
                }
            }

            impl From<Section> for $name {
                fn from(section: Section) -> Self {
                    Self { $(
                        $key: $crate::setting_value!(
                            section.$key $(, $written $(=> $convert)? $(| $default)?)?
                        ),
                    )+ }
                }
            }

            impl Default for $name {
                fn default() -> Self {
                    Section::default().into()
                }
            }

            impl<'de> ::serde::Deserialize<'de> for $name {
                fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    <Section as ::serde::Deserialize>::deserialize(from).map(Self::from)
                }
            }

            $crate::described_as! { $name, $title, Section }
        };
        $crate::settings! { $($rest)* }
    };
}

/// The type from which a key is read.
#[doc(hidden)]
#[macro_export]
macro_rules! setting_type {
    ($used:ty) => {
        $used
    };
    ($used:ty = $written:ty) => {
        $written
    };
    ($used:ty = $written:ty | $default:expr) => {
        Option<$written>
    };
}

/// The value that is used, from the one that was read.
#[doc(hidden)]
#[macro_export]
macro_rules! setting_value {
    ($value:expr) => {
        $value
    };
    ($value:expr, $written:ty) => {
        $crate::setting::Written::plain($value)
    };
    ($value:expr, $written:ty => $convert:path) => {
        $convert($value)
    };
    ($value:expr, $written:ty | $default:expr) => {
        $crate::setting::Written::plain($value.unwrap_or_else(|| $default.into()))
    };
}

/// Adds the schema of a type.
#[cfg(feature = "schema")]
#[doc(hidden)]
#[macro_export]
macro_rules! described {
    ([$($attribute:tt)*] $($item:tt)*) => {
        #[derive($crate::setting::schemars::JsonSchema)]
        #[schemars(crate = "lockgate_text::setting::schemars" $($attribute)*)]
        $($item)*
    };
}

#[cfg(not(feature = "schema"))]
#[doc(hidden)]
#[macro_export]
macro_rules! described {
    ([$($attribute:tt)*] $($item:tt)*) => { $($item)* };
}

/// Describes a type with the schema of another.
#[cfg(feature = "schema")]
#[doc(hidden)]
#[macro_export]
macro_rules! described_as {
    ($name:ident, $title:literal, $section:ident) => {
        impl $crate::setting::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                $title.into()
            }

            fn json_schema(
                generator: &mut $crate::setting::schemars::SchemaGenerator,
            ) -> $crate::setting::schemars::Schema {
                <$section as $crate::setting::schemars::JsonSchema>::json_schema(generator)
            }
        }
    };
}

#[cfg(not(feature = "schema"))]
#[doc(hidden)]
#[macro_export]
macro_rules! described_as {
    ($($unused:tt)*) => {};
}
