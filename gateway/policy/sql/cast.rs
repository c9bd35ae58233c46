//! Types that a value may be cast to: those of the database, and those that a rule adds. In
//! PostgreSQL a cast to any other type may call functions of the type's author. Types declared
//! inline are refused.

use sqlparser::ast::{ArrayElemTypeDef, DataType};

use super::lexer::no;
use super::names::{Named, cut};
use crate::Refusal;

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

fn is_plain(data_type: &DataType) -> bool {
    is_text(data_type) || is_number(data_type) || is_other(data_type)
}

fn is_text(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(
        data_type,
        T::Character(_)
            | T::Char(_)
            | T::CharacterVarying(_)
            | T::CharVarying(_)
            | T::Varchar(_)
            | T::Nvarchar(_)
            | T::Text
            | T::Uuid
            | T::JSON
            | T::JSONB
            | T::TsVector
            | T::TsQuery
            | T::Binary(_)
            | T::Varbinary(_)
            | T::Blob(_)
            | T::Bytes(_)
            | T::Bytea
            | T::Bit(_)
            | T::BitVarying(_)
            | T::VarBit(_)
    )
}

fn is_number(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(
        data_type,
        T::Numeric(_)
            | T::Decimal(_)
            | T::Dec(_)
            | T::DecimalUnsigned(_)
            | T::DecUnsigned(_)
            | T::Float(_)
            | T::Float4
            | T::Float8
            | T::Real
            | T::Double(_)
            | T::DoublePrecision
            | T::TinyInt(_)
            | T::Int2(_)
            | T::SmallInt(_)
            | T::MediumInt(_)
            | T::Int(_)
            | T::Int4(_)
            | T::Int8(_)
            | T::Integer(_)
            | T::BigInt(_)
            | T::IntUnsigned(_)
            | T::IntegerUnsigned(_)
            | T::BigIntUnsigned(_)
            | T::Signed
            | T::SignedInteger
            | T::Unsigned
            | T::UnsignedInteger
    )
}

fn is_other(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(
        data_type,
        T::Bool
            | T::Boolean
            | T::Date
            | T::Time(..)
            | T::Datetime(_)
            | T::Timestamp(..)
            | T::Interval { .. }
            | T::Regclass
            | T::GeometricType(_)
    )
}
