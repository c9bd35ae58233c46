//! The values and operators that an expression may contain. In PostgreSQL, an operator not listed
//! here may run a user-defined function.

use sqlparser::ast::{BinaryOperator, UnaryOperator, Value, ValueWithSpan};

use super::lexer::no;
use crate::Refusal;

pub(super) fn literal(value: &ValueWithSpan) -> Result<(), Refusal> {
    match &value.value {
        Value::Number(..)
        | Value::SingleQuotedString(_)
        | Value::DoubleQuotedString(_)
        | Value::NationalStringLiteral(_)
        | Value::HexStringLiteral(_)
        | Value::SingleQuotedByteStringLiteral(_)
        | Value::Boolean(_)
        | Value::Null
        | Value::Placeholder(_) => Ok(()),
        _ => no("a literal is written in a way that is not allowed: use plain quotes"),
    }
}

pub(super) fn operator(operator: &BinaryOperator) -> Result<(), Refusal> {
    use BinaryOperator as B;
    match operator {
        B::Plus
        | B::Minus
        | B::Multiply
        | B::Divide
        | B::Modulo
        | B::StringConcat
        | B::Gt
        | B::Lt
        | B::GtEq
        | B::LtEq
        | B::Spaceship
        | B::Eq
        | B::NotEq
        | B::And
        | B::Or
        | B::Xor
        | B::BitwiseOr
        | B::BitwiseAnd
        | B::BitwiseXor
        | B::MyIntegerDivide
        | B::Match
        | B::Regexp
        | B::Glob
        | B::PGBitwiseXor
        | B::PGBitwiseShiftLeft
        | B::PGBitwiseShiftRight
        | B::PGExp
        | B::PGOverlap
        | B::PGRegexMatch
        | B::PGRegexIMatch
        | B::PGRegexNotMatch
        | B::PGRegexNotIMatch
        | B::PGLikeMatch
        | B::PGILikeMatch
        | B::PGNotLikeMatch
        | B::PGNotILikeMatch
        | B::PGStartsWith
        | B::Arrow
        | B::LongArrow
        | B::HashArrow
        | B::HashLongArrow
        | B::AtAt
        | B::AtArrow
        | B::ArrowAt
        | B::HashMinus
        | B::AtQuestion
        | B::Question
        | B::QuestionAnd
        | B::QuestionPipe
        | B::LtDashGt
        | B::Overlaps => Ok(()),
        _ => no("an operator is not allowed here: in PostgreSQL it may call a user-defined \
            function"),
    }
}

/// Returns whether an operator may precede a value.
pub(super) fn is_prefix(operator: &UnaryOperator) -> bool {
    use UnaryOperator as U;
    matches!(
        operator,
        U::Plus
            | U::Minus
            | U::Not
            | U::BitwiseNot
            | U::BangNot
            | U::PGAbs
            | U::PGSquareRoot
            | U::PGCubeRoot
            | U::PGPrefixFactorial
            | U::AtDashAt
            | U::DoubleAt
            | U::Hash
            | U::QuestionDash
            | U::QuestionPipe
    )
}
