//! Operators and punctuation, split as each database splits them. Unknown operators are refused: in
//! PostgreSQL they may run a user-defined function.

use sqlparser::tokenizer::Token;

use super::lexer::{Lexer, no};
use super::names::cut;
use super::spec::Dialect;
use crate::Refusal;

/// The characters of PostgreSQL operators.
const SIGNS: &[u8] = b"+-*/<>=~!@#%^&|?";
/// Without one of these, an operator of several characters does not end in `+` or `-`.
const KEEPING: &[u8] = b"~!@#%^&|?";

/// Length limit of a PostgreSQL operator. A run of signs is scanned once for each of its operators.
const MAX_SIGNS: usize = 63;

/// The operators of SQLite and MySQL, long ones first.
const SQLITE: [&str; 21] = [
    "->>", "||", "->", "<<", ">>", "<=", ">=", "<>", "!=", "==", "+", "-", "*", "/", "%", "&", "|",
    "~", "<", ">", "=",
];
const MYSQL: [&str; 24] = [
    "->>", "<=>", "||", "&&", "->", "<<", ">>", "<=", ">=", "<>", "!=", "+", "-", "*", "/", "%",
    "&", "|", "^", "~", "<", ">", "=", "!",
];

pub(super) fn token(lexer: &mut Lexer<'_>, byte: u8) -> Result<Token, Refusal> {
    if let Some(token) = punctuation(lexer, byte) {
        lexer.at += 1;
        return Ok(token);
    }
    match (lexer.dialect, byte) {
        (Dialect::Postgres, b':') if lexer.rest().starts_with("::") => {
            lexer.at += 2;
            Ok(Token::DoubleColon)
        }
        // A slice, as in `a[1:2]`.
        (Dialect::Postgres, b':') if lexer.brackets > 0 && !lexer.rest().starts_with(":=") => {
            lexer.at += 1;
            Ok(Token::Colon)
        }
        (Dialect::Mysql, b'?') => lexer.placeholder(1),
        (Dialect::Sqlite, b'?' | b':' | b'@') => {
            let mut length = 1;
            for next in lexer.rest()[1..].bytes() {
                let is_digit = next.is_ascii_digit();
                if !is_digit && (byte == b'?' || !next.is_ascii_alphabetic() && next != b'_') {
                    break;
                }
                length += 1;
            }
            if byte != b'?' && length == 1 {
                return no("a parameter has no name");
            }
            lexer.placeholder(length)
        }
        (Dialect::Mysql, b'@' | b':') => {
            no("variables and assignments are not allowed: use values or parameters (`?`)")
        }
        _ => operator(lexer),
    }
}

fn punctuation(lexer: &Lexer<'_>, byte: u8) -> Option<Token> {
    Some(match byte {
        b'(' => Token::LParen,
        b')' => Token::RParen,
        b',' => Token::Comma,
        b'.' => Token::Period,
        b'[' if lexer.dialect == Dialect::Postgres => Token::LBracket,
        b']' if lexer.dialect == Dialect::Postgres => Token::RBracket,
        _ => return None,
    })
}

fn operator(lexer: &mut Lexer<'_>) -> Result<Token, Refusal> {
    let rest = lexer.rest();
    let length = match lexer.dialect {
        Dialect::Postgres => postgres(rest)?,
        Dialect::Sqlite => length_of_first(&SQLITE, rest),
        Dialect::Mysql => length_of_first(&MYSQL, rest),
    };
    let sign = &rest[..length];
    match known(sign) {
        Some(token) if length > 0 => {
            lexer.at += length;
            Ok(token)
        }
        _ => no(format!("the sign `{}` is not allowed here", cut(rest, length.max(1)))),
    }
}

/// Returns the length of the operator at the beginning of a text; 0 if there is none.
fn length_of_first(operators: &[&str], text: &str) -> usize {
    for operator in operators {
        if text.starts_with(operator) {
            return operator.len();
        }
    }
    0
}

/// Returns the number of bytes that PostgreSQL reads as one operator.
fn postgres(rest: &str) -> Result<usize, Refusal> {
    let bytes = rest.as_bytes();
    let signs = bytes.iter().take_while(|byte| SIGNS.contains(byte));
    let mut length = signs.take(MAX_SIGNS + 1).count();
    for at in 1..length {
        if matches!(&bytes[at..(at + 2).min(bytes.len())], b"--" | b"/*") {
            length = at;
            break;
        }
    }
    if length > MAX_SIGNS {
        return no(format!("an operator has more than {MAX_SIGNS} signs: put spaces between them"));
    }
    if !bytes[..length].iter().any(|byte| KEEPING.contains(byte)) {
        while length > 1 && matches!(bytes[length - 1], b'+' | b'-') {
            length -= 1;
        }
    }
    Ok(length)
}

fn known(sign: &str) -> Option<Token> {
    Some(match sign {
        "+" => Token::Plus,
        "-" => Token::Minus,
        "*" => Token::Mul,
        "/" => Token::Div,
        "%" => Token::Mod,
        "=" => Token::Eq,
        "==" => Token::DoubleEq,
        "<>" | "!=" => Token::Neq,
        "<" => Token::Lt,
        ">" => Token::Gt,
        "<=" => Token::LtEq,
        ">=" => Token::GtEq,
        "<=>" => Token::Spaceship,
        "=>" => Token::RArrow,
        "||" => Token::StringConcat,
        "&&" => Token::Overlap,
        "&" => Token::Ampersand,
        "|" => Token::Pipe,
        "^" => Token::Caret,
        "#" => Token::Sharp,
        "!" => Token::ExclamationMark,
        "~" => Token::Tilde,
        "~*" => Token::TildeAsterisk,
        "!~" => Token::ExclamationMarkTilde,
        "!~*" => Token::ExclamationMarkTildeAsterisk,
        "~~" => Token::DoubleTilde,
        "~~*" => Token::DoubleTildeAsterisk,
        "!~~" => Token::ExclamationMarkDoubleTilde,
        "!~~*" => Token::ExclamationMarkDoubleTildeAsterisk,
        "<<" => Token::ShiftLeft,
        ">>" => Token::ShiftRight,
        "->" => Token::Arrow,
        "->>" => Token::LongArrow,
        "#>" => Token::HashArrow,
        "#>>" => Token::HashLongArrow,
        "@>" => Token::AtArrow,
        "<@" => Token::ArrowAt,
        "#-" => Token::HashMinus,
        "@?" => Token::AtQuestion,
        "@@" => Token::AtAt,
        "?" => Token::Question,
        "?&" => Token::QuestionAnd,
        "?|" => Token::QuestionPipe,
        "^@" => Token::CaretAt,
        "<->" => Token::TwoWayArrow,
        // Prefix operators.
        "@" => Token::AtSign,
        "|/" => Token::PGSquareRoot,
        "||/" => Token::PGCubeRoot,
        "!!" => Token::DoubleExclamationMark,
        "@-@" => Token::AtDashAt,
        "?-" => Token::QuestionMarkDash,
        _ => return None,
    })
}
