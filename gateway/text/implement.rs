//! Macros that implement what all layers need: `Debug` of types with secrets, and sets of words.

/// Implements `Debug` with the named fields only, because the others may be secret or large.
#[macro_export]
macro_rules! debug_fields {
    ($name:ident $(: $($field:ident),+)?) => {
        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $($(.field(stringify!($field), &self.$field))+)?
                    .finish_non_exhaustive()
            }
        }
    };
}

/// Defines an enum of words, such as those of a label or of an answer.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$of:meta])* $variant:ident = $word:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $($(#[$of])* $variant,)+ }

        #[allow(dead_code, reason = "few sets are listed or read")]
        impl $name {
            /// All values, in order.
            $vis const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// Returns the word of the value.
            $vis const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Returns the value of a word.
            $vis fn parse(text: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.as_str() == text)
            }
        }
    };
}
