//! Types that a value may be cast to: those of the database, and those that a rule adds. In
//! PostgreSQL a cast to any other type may call functions of the type's author. Types declared
//! inline are refused.

use sqlparser::ast::{ArrayElemTypeDef, DataType};

use super::names::{Named, cut};
use super::reserved::has;
use crate::Refusal;
use crate::refusal::no;

/// The words of types.
const WORDS: &str = "CHARACTER CHAR VARYING VARCHAR NVARCHAR TEXT UUID JSON JSONB TSVECTOR TSQUERY \
    BINARY VARBINARY BLOB BYTES BYTEA BIT VARBIT NUMERIC DECIMAL DEC UNSIGNED FLOAT FLOAT4 FLOAT8 \
    REAL DOUBLE PRECISION TINYINT INT2 SMALLINT MEDIUMINT INT INT4 INT8 INTEGER BIGINT SIGNED \
    BOOL BOOLEAN DATE TIME DATETIME TIMESTAMP WITH WITHOUT ZONE TIMETZ TIMESTAMPTZ INTERVAL YEAR \
    MONTH DAY HOUR MINUTE SECOND TO REGCLASS POINT LINE LSEG BOX PATH POLYGON CIRCLE";
/// Nesting limit of array types.
const MAX_DEPTH: usize = 6;

pub(super) fn check(named: &Named, data_type: &DataType) -> Result<(), Refusal> {
    let mut inner = data_type;
    for _ in 0..MAX_DEPTH {
        inner = match inner {
            DataType::Array(
                ArrayElemTypeDef::SquareBracket(element, _)
                | ArrayElemTypeDef::Qualified(element, _),
            ) => element,
            DataType::Custom(name, _) => return named.type_name(name),
            plain if is_plain(plain) => return Ok(()),
            _ => break,
        };
    }
    no(format!("the type {} is not allowed", cut(&data_type.to_string(), 60)))
}

/// Returns whether a type is built in, by the words and numbers of its printed form.
fn is_plain(data_type: &DataType) -> bool {
    let printed = data_type.to_string();
    let mut words = printed.split([' ', '(', ')', ',']);
    !printed.is_empty()
        && words.all(|word| has(WORDS, word) || word.bytes().all(|b| b.is_ascii_digit()))
}
