//! The walk through FROM: tables, queries, joins and table functions.

use sqlparser::ast::{
    FunctionArg, Ident, Join, JoinConstraint, JoinOperator, JsonTableColumn,
    JsonTableColumnErrorHandling, JsonTableNamedColumn, JsonTableNestedColumn, ObjectName,
    ObjectNamePart, TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs,
    TableIndexHints, TableSample, TableSampleKind, TableSampleMethod, TableSampleModifier,
    TableSampleQuantity, TableSampleSeed, TableWithJoins,
};

use super::expression::bare;
use super::names::{has, is_call};
use super::query::Walk;
use super::spec::Dialect;
use super::values::cast;
use crate::{Refusal, no};

impl Walk<'_> {
    pub(super) fn table_with_joins(&mut self, table: &TableWithJoins) -> Result<(), Refusal> {
        let TableWithJoins { relation, joins } = table;
        self.factor(relation)?;
        joins.iter().try_for_each(|join| {
            let Join { relation, global, join_operator } = join;
            if *global {
                return no("GLOBAL JOIN is not allowed");
            }
            self.factor(relation)?;
            match join_operator {
                JoinOperator::Join(constraint)
                | JoinOperator::Inner(constraint)
                | JoinOperator::Left(constraint)
                | JoinOperator::LeftOuter(constraint)
                | JoinOperator::Right(constraint)
                | JoinOperator::RightOuter(constraint)
                | JoinOperator::FullOuter(constraint)
                | JoinOperator::CrossJoin(constraint)
                | JoinOperator::StraightJoin(constraint) => self.constraint(constraint),
                _ => no(
                    "this kind of join is not allowed: use INNER, LEFT, RIGHT, FULL or CROSS JOIN",
                ),
            }
        })
    }

    fn constraint(&mut self, constraint: &JoinConstraint) -> Result<(), Refusal> {
        match constraint {
            JoinConstraint::On(condition) => self.expression(condition),
            JoinConstraint::Using(columns) => self.objects(columns),
            JoinConstraint::Natural | JoinConstraint::None => Ok(()),
        }
    }

    fn factor(&mut self, factor: &TableFactor) -> Result<(), Refusal> {
        self.deeper(|walk| match factor {
            TableFactor::Table { .. } => walk.table_factor(factor),
            TableFactor::Derived { lateral: _, subquery, alias, sample } => {
                if sample.is_some() {
                    return no("TABLESAMPLE is allowed on tables only");
                }
                walk.alias(alias.as_ref())?;
                walk.query(subquery)
            }
            TableFactor::Function { lateral: _, name, args, with_ordinality: _, alias } => {
                walk.alias(alias.as_ref())?;
                walk.call(name, args, alias.as_ref())
            }
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset,
                with_offset_alias,
                with_ordinality: _,
            } => {
                if *with_offset || with_offset_alias.is_some() {
                    return no("UNNEST … WITH OFFSET is not allowed");
                }
                walk.alias(alias.as_ref())?;
                walk.rows.function(walk.named, "unnest", alias.as_ref());
                for expression in array_exprs {
                    if let Some(ident) = bare(expression) {
                        walk.rows.argument(walk.named, "unnest", ident);
                    }
                }
                walk.expressions(array_exprs)
            }
            TableFactor::JsonTable { json_expr, json_path: _, columns, alias } => {
                walk.alias(alias.as_ref())?;
                walk.json_columns(columns)?;
                walk.expression(json_expr)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                walk.alias(alias.as_ref())?;
                walk.table_with_joins(table_with_joins)
            }
            _ => no("FROM holds something other than tables, queries and joins: write it in \
                plainer SQL"),
        })
    }

    fn table_factor(&mut self, factor: &TableFactor) -> Result<(), Refusal> {
        let TableFactor::Table {
            name,
            alias,
            args,
            with_hints,
            version,
            with_ordinality: _,
            partitions,
            json_path,
            sample,
            index_hints,
        } = factor
        else {
            return no("FROM holds something other than a table");
        };
        if !with_hints.is_empty() || version.is_some() || json_path.is_some() {
            return no("a table has a clause that is not allowed: leave it out");
        }
        self.idents(partitions)?;
        for TableIndexHints { hint_type: _, index_type: _, for_clause: _, index_names } in
            index_hints
        {
            self.idents(index_names.iter().filter(|name| !has("primary", &name.value)))?;
        }
        if let Some(
            TableSampleKind::AfterTableAlias(sample) | TableSampleKind::BeforeTableAlias(sample),
        ) = sample
        {
            self.sample(sample)?;
        }
        self.alias(alias.as_ref())?;
        match args {
            Some(TableFunctionArgs { args, settings: None }) => {
                self.call(name, args, alias.as_ref())
            }
            Some(_) => no("SETTINGS are not allowed"),
            None => {
                if !self.in_scope(name) {
                    self.rows.table(self.named, self.named.last(name), alias.as_ref());
                }
                self.relation(name)
            }
        }
    }

    /// Checks a table function.
    fn call(
        &mut self,
        name: &ObjectName,
        args: &[FunctionArg],
        alias: Option<&TableAlias>,
    ) -> Result<(), Refusal> {
        self.plain(name)?;
        self.named.function(name)?;
        self.rows.function(self.named, &self.named.last(name), alias);
        self.function_arguments(&self.named.last(name), args)
    }

    /// Refuses `FROM current_user t`: in PostgreSQL it is a call, so that `t.f` would be a call as
    /// well. A table with such a name must be quoted.
    fn plain(&self, name: &ObjectName) -> Result<(), Refusal> {
        match name.0.as_slice() {
            [ObjectNamePart::Identifier(Ident { value, quote_style: None, .. })]
                if self.named.dialect() == Dialect::Postgres && is_call(value) =>
            {
                no(format!(
                    "{value} in FROM is a call, not a table: write it as a column, or quote the \
                        name of a table"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Checks a table by name, or the name of a common table expression.
    fn relation(&mut self, name: &ObjectName) -> Result<(), Refusal> {
        self.plain(name)?;
        if self.in_scope(name) { self.named.object(name) } else { self.named.table(name) }
    }

    fn sample(&mut self, sample: &TableSample) -> Result<(), Refusal> {
        let TableSample { modifier, name, quantity, seed, bucket, offset } = sample;
        let method = matches!(name, Some(TableSampleMethod::Bernoulli | TableSampleMethod::System));
        if !method
            || *modifier != TableSampleModifier::TableSample
            || bucket.is_some()
            || offset.is_some()
        {
            return no("use TABLESAMPLE BERNOULLI or SYSTEM");
        }
        if let Some(TableSampleSeed { modifier: _, value: _ }) = seed {}
        match quantity {
            Some(TableSampleQuantity { parenthesized: _, value, unit: None }) => {
                self.expression(value)
            }
            _ => no("TABLESAMPLE needs a plain percentage"),
        }
    }

    pub(super) fn alias(&self, alias: Option<&TableAlias>) -> Result<(), Refusal> {
        let Some(alias) = alias else { return Ok(()) };
        let TableAlias { explicit: _, name, columns, at } = alias;
        if at.is_some() {
            return no("this form of alias is not allowed");
        }
        self.named.ident(name)?;
        columns.iter().try_for_each(|TableAliasColumnDef { name, data_type }| {
            self.named.ident(name)?;
            data_type.as_ref().map_or(Ok(()), |data_type| cast(self.named, data_type))
        })
    }

    fn json_columns(&mut self, columns: &[JsonTableColumn]) -> Result<(), Refusal> {
        columns.iter().try_for_each(|column| match column {
            JsonTableColumn::ForOrdinality(name) => self.named.ident(name),
            JsonTableColumn::Named(JsonTableNamedColumn {
                name,
                r#type,
                path: _,
                exists: _,
                on_empty,
                on_error,
            }) => {
                self.named.ident(name)?;
                for handling in [on_empty, on_error] {
                    match handling {
                        None
                        | Some(
                            JsonTableColumnErrorHandling::Null
                            | JsonTableColumnErrorHandling::Default(_)
                            | JsonTableColumnErrorHandling::Error,
                        ) => {}
                    }
                }
                cast(self.named, r#type)
            }
            JsonTableColumn::Nested(JsonTableNestedColumn { path: _, columns }) => {
                self.deeper(|walk| walk.json_columns(columns))
            }
        })
    }
}
