//! The walk through expressions. Anything not listed here is refused, and every call is checked
//! against the list of functions.

use sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, CastKind, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgOperator, FunctionArgumentClause, FunctionArgumentList, FunctionArguments, Ident,
    Interval, JsonReturningClause, MemberOf, Subscript, TypedString, WindowFrame, WindowFrameBound,
    WindowSpec, WindowType,
};

use super::functions::OF_ROWS;
use super::names::{has, is_value};
use super::query::{Walk, plain_wildcard};
use super::spec::Dialect;
use super::values::{cast, is_prefix, literal, operator};
use crate::{Refusal, no};

impl Walk<'_> {
    pub(super) fn expressions<'e>(
        &mut self,
        all: impl IntoIterator<Item = &'e Expr>,
    ) -> Result<(), Refusal> {
        all.into_iter().try_for_each(|expression| self.expression(expression))
    }

    pub(super) fn expression(&mut self, expression: &Expr) -> Result<(), Refusal> {
        self.deeper(|walk| {
            // Chains of operators nest to the left, so a loop descends into them.
            let mut here = expression;
            while let Expr::BinaryOp { left, op, right } = here {
                operator(op)?;
                if *op == BinaryOperator::PGRegexMatch && walk.named.dialect() != Dialect::Postgres
                {
                    return no("`~` is a prefix here, and cannot be between two values");
                }
                walk.expression(right)?;
                here = left;
            }
            walk.simple(here)
        })
    }

    fn simple(&mut self, expression: &Expr) -> Result<(), Refusal> {
        match expression {
            Expr::Identifier(ident) => self.column(ident),
            Expr::CompoundIdentifier(idents) => {
                self.rows.field(self.named, idents);
                self.idents(idents)
            }
            Expr::Value(value) => literal(self.named.dialect(), value),
            Expr::Nested(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner)
            | Expr::IsJson { expr: inner, kind: _, unique_keys: _, negated: _ }
            | Expr::IsNormalized { expr: inner, form: _, negated: _ } => self.expression(inner),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.expressions([&**left, &**right])
            }
            Expr::InList { expr, list, negated: _ } => {
                self.expression(expr)?;
                self.expressions(list)
            }
            Expr::InSubquery { expr, subquery, negated: _ } => {
                self.expression(expr)?;
                self.query(subquery)
            }
            Expr::Exists { subquery, negated: _ } | Expr::Subquery(subquery) => {
                self.query(subquery)
            }
            Expr::Between { expr, negated: _, low, high } => {
                self.expressions([&**expr, &**low, &**high])
            }
            Expr::Tuple(all) => self.expressions(all),
            Expr::Array(array) => self.expressions(&array.elem),
            Expr::Cube(sets) | Expr::Rollup(sets) | Expr::GroupingSets(sets) => {
                sets.iter().try_for_each(|set| self.expressions(set))
            }
            Expr::Function(function) => self.function(function),
            Expr::UnaryOp { op, expr } if is_prefix(op) => self.expression(expr),
            Expr::UnaryOp { .. } => {
                no("an operator is not allowed here: use a function or plainer SQL")
            }
            Expr::Case { case_token: _, end_token: _, operand, conditions, else_result } => {
                self.boxed(operand)?;
                for CaseWhen { condition, result } in conditions {
                    self.expressions([condition, result])?;
                }
                self.boxed(else_result)
            }
            other => self.own_syntax(other),
        }
    }

    /// Checks calls that the parser does not represent as functions.
    fn own_syntax(&mut self, expression: &Expr) -> Result<(), Refusal> {
        self.named.syntax(match expression {
            Expr::Extract { .. } => "extract",
            Expr::Ceil { .. } => "ceil",
            Expr::Floor { .. } => "floor",
            Expr::Position { .. } => "position",
            Expr::Substring { shorthand: true, .. } => "substr",
            Expr::Substring { .. } => "substring",
            Expr::Trim { .. } => "trim",
            Expr::Overlay { .. } => "overlay",
            Expr::Cast { kind: CastKind::Cast, .. } => "cast",
            Expr::Convert { .. } => "convert",
            _ => "",
        })?;
        self.uncommon(expression)
    }

    fn uncommon(&mut self, expression: &Expr) -> Result<(), Refusal> {
        match expression {
            Expr::Like { negated: _, any: false, expr, pattern, escape_char }
            | Expr::ILike { negated: _, any: false, expr, pattern, escape_char }
            | Expr::SimilarTo { negated: _, expr, pattern, escape_char } => {
                self.expressions([&**expr, &**pattern])?;
                self.boxed(escape_char)
            }
            Expr::RLike { negated: _, expr, pattern, regexp: _ } => {
                self.expressions([&**expr, &**pattern])
            }
            Expr::AnyOp { left, compare_op, right, is_some: _ }
            | Expr::AllOp { left, compare_op, right } => {
                operator(compare_op)?;
                self.expressions([&**left, &**right])
            }
            Expr::Extract { field: _, syntax: _, expr }
            | Expr::Ceil { expr, field: _ }
            | Expr::Floor { expr, field: _ } => self.expression(expr),
            Expr::AtTimeZone { timestamp, time_zone } => {
                self.expressions([&**timestamp, &**time_zone])
            }
            Expr::Position { expr, r#in } => self.expressions([&**expr, &**r#in]),
            Expr::Substring { expr, substring_from, substring_for, special: _, shorthand: _ } => {
                self.expression(expr)?;
                self.boxed(substring_from)?;
                self.boxed(substring_for)
            }
            Expr::Trim { trim_where: _, trim_what, expr, trim_characters } => {
                self.expression(expr)?;
                self.boxed(trim_what)?;
                trim_characters.as_ref().map_or(Ok(()), |characters| self.expressions(characters))
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                self.expressions([&**expr, &**overlay_what, &**overlay_from])?;
                self.boxed(overlay_for)
            }
            other => self.rare(other),
        }
    }

    /// Checks casts, typed literals and accesses to parts of a value.
    fn rare(&mut self, expression: &Expr) -> Result<(), Refusal> {
        match expression {
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => {
                cast(self.named, data_type)?;
                self.expression(expr)
            }
            Expr::Convert {
                is_try: false,
                expr,
                data_type,
                charset,
                target_before_value: _,
                styles,
            } => {
                if let Some(data_type) = data_type {
                    cast(self.named, data_type)?;
                }
                if let Some(charset) = charset {
                    self.named.object(charset)?;
                }
                self.expressions(styles)?;
                self.expression(expr)
            }
            Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false }) => {
                cast(self.named, data_type)?;
                literal(self.named.dialect(), value)
            }
            Expr::Interval(interval) => self.interval(interval),
            Expr::Collate { expr, collation } => {
                self.named.object(collation)?;
                self.expression(expr)
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                self.expression(root)?;
                access_chain.iter().try_for_each(|access| self.access(access))
            }
            Expr::MatchAgainst { columns, match_value, opt_search_modifier: _ } => {
                self.objects(columns)?;
                literal(self.named.dialect(), match_value)
            }
            Expr::MemberOf(MemberOf { value, array }) => self.expressions([&**value, &**array]),
            _ => no("an expression is not allowed here: write it in plainer SQL"),
        }
    }

    fn interval(&mut self, interval: &Interval) -> Result<(), Refusal> {
        let Interval {
            value,
            leading_field,
            leading_precision: _,
            last_field: _,
            fractional_seconds_precision: _,
        } = interval;
        match (self.named.dialect(), &**value) {
            (Dialect::Postgres, Expr::Value(value)) => literal(self.named.dialect(), value),
            (Dialect::Mysql, value) if leading_field.is_some() => self.expression(value),
            _ => no("an interval has the wrong form: in PostgreSQL it is a text, in MySQL it has \
                a unit"),
        }
    }

    fn boxed(&mut self, expression: &Option<Box<Expr>>) -> Result<(), Refusal> {
        self.expressions(expression.as_deref())
    }

    fn column(&self, ident: &Ident) -> Result<(), Refusal> {
        if ident.quote_style.is_none() && is_value(self.named.dialect(), &ident.value) {
            return self.named.syntax(&ident.value.to_ascii_lowercase());
        }
        self.named.ident(ident)
    }

    fn access(&mut self, access: &AccessExpr) -> Result<(), Refusal> {
        match access {
            AccessExpr::Dot(Expr::Identifier(field)) => self.named.field(field),
            AccessExpr::Dot(_) => no("`(…).` must be followed by a plain name"),
            AccessExpr::Subscript(Subscript::Index { index }) => self.expression(index),
            AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride }) => {
                self.expressions(lower_bound)?;
                self.expressions(upper_bound)?;
                self.expressions(stride)
            }
        }
    }

    fn function(&mut self, function: &Function) -> Result<(), Refusal> {
        let Function {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            within_group,
            filter,
            null_treatment: _,
            over,
        } = function;
        if *uses_odbc_syntax || *parameters != FunctionArguments::None {
            return no("this form of a call is not allowed");
        }
        self.named.function(name)?;
        match args {
            FunctionArguments::None => {}
            FunctionArguments::Subquery(query) => self.query(query)?,
            FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment: _,
                args,
                clauses,
            }) => {
                self.function_arguments(&self.named.last(name), args)?;
                clauses.iter().try_for_each(|clause| self.clause(clause))?;
            }
        }
        self.orders(within_group)?;
        self.boxed(filter)?;
        match over {
            Some(WindowType::WindowSpec(spec)) => self.window(spec),
            Some(WindowType::NamedWindow(name)) => self.named.ident(name),
            None => Ok(()),
        }
    }

    fn clause(&mut self, clause: &FunctionArgumentClause) -> Result<(), Refusal> {
        match clause {
            FunctionArgumentClause::IgnoreOrRespectNulls(_)
            | FunctionArgumentClause::JsonNullClause(_) => Ok(()),
            FunctionArgumentClause::OrderBy(orders) => self.orders(orders),
            FunctionArgumentClause::Separator(separator) => {
                literal(self.named.dialect(), separator)
            }
            FunctionArgumentClause::Limit(limit) => self.expression(limit),
            FunctionArgumentClause::JsonReturningClause(JsonReturningClause { data_type }) => {
                cast(self.named, data_type)
            }
            _ => no("a call has a clause that is not allowed: leave it out"),
        }
    }

    pub(super) fn function_arguments(
        &mut self,
        function: &str,
        arguments: &[FunctionArg],
    ) -> Result<(), Refusal> {
        arguments.iter().try_for_each(|argument| {
            let (name, value) = match argument {
                FunctionArg::Unnamed(value) => (None, value),
                // `xmlparse(CONTENT a)`
                FunctionArg::Named { name, arg, operator: FunctionArgOperator::Space }
                    if has("content document", &name.value) =>
                {
                    (None, arg)
                }
                FunctionArg::Named { name, arg, operator: FunctionArgOperator::RightArrow }
                | FunctionArg::ExprNamed {
                    name: Expr::Identifier(name),
                    arg,
                    operator: FunctionArgOperator::RightArrow,
                } => (Some(name), arg),
                _ => {
                    return no("an argument of a call is named in a way that is not allowed: \
                        write name => value");
                }
            };
            self.idents(name)?;
            match value {
                FunctionArgExpr::Expr(expression) => {
                    if let Some(ident) = bare(expression) {
                        self.rows.argument(self.named, function, ident);
                    }
                    self.expression(expression)
                }
                FunctionArgExpr::QualifiedWildcard(_)
                    if self.named.dialect() == Dialect::Postgres && !has(OF_ROWS, function) =>
                {
                    no("a function is called with a whole row, which may call another function: \
                        name the columns")
                }
                FunctionArgExpr::QualifiedWildcard(name) => self.named.object(name),
                FunctionArgExpr::Wildcard => Ok(()),
                FunctionArgExpr::WildcardWithOptions(options) => plain_wildcard(options),
            }
        })
    }

    pub(super) fn window(&mut self, spec: &WindowSpec) -> Result<(), Refusal> {
        let WindowSpec { window_name, partition_by, order_by, window_frame } = spec;
        self.idents(window_name)?;
        self.expressions(partition_by)?;
        self.orders(order_by)?;
        let Some(WindowFrame { units: _, start_bound, end_bound }) = window_frame else {
            return Ok(());
        };
        self.frame_bound(start_bound)?;
        end_bound.as_ref().map_or(Ok(()), |end_bound| self.frame_bound(end_bound))
    }

    fn frame_bound(&mut self, bound: &WindowFrameBound) -> Result<(), Refusal> {
        match bound {
            WindowFrameBound::CurrentRow => Ok(()),
            WindowFrameBound::Preceding(rows) | WindowFrameBound::Following(rows) => {
                self.boxed(rows)
            }
        }
    }
}

/// Returns the name if the expression is a bare name, with or without parentheses.
pub(super) fn bare(mut expression: &Expr) -> Option<&Ident> {
    while let Expr::Nested(inner) = expression {
        expression = inner;
    }
    match expression {
        Expr::Identifier(ident) => Some(ident),
        _ => None,
    }
}
