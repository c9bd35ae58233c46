//! Statements that change rows, for rules that allow them. Forms that do more than their keyword
//! indicates (REPLACE, MERGE, several tables) are refused.

use sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, DoUpdate, Expr, FromTable, Insert,
    OnConflict, OnConflictAction, OnInsert, TableAliasWithoutColumns, TableObject, Update,
    UpdateTableFromKind,
};

use super::query::Walk;
use crate::{Refusal, no};

impl Walk<'_> {
    pub(super) fn insert(&mut self, insert: &Insert) -> Result<(), Refusal> {
        if is_special(insert) {
            return no(
                "this form of INSERT is not allowed: write INSERT INTO table (columns) VALUES …",
            );
        }
        match &insert.table {
            TableObject::TableName(name) => self.named.table(name)?,
            TableObject::TableFunction(_) | TableObject::TableQuery(_) => {
                return no("INSERT must name a table");
            }
        }
        if let Some(TableAliasWithoutColumns { explicit: _, alias }) = &insert.table_alias {
            self.named.ident(alias)?;
        }
        self.objects(&insert.columns)?;
        if let Some(source) = &insert.source {
            self.query(source)?;
        }
        self.assignments(&insert.assignments)?;
        self.conflict(insert.on.as_ref())?;
        self.items(insert.returning.as_deref().unwrap_or(&[]))
    }

    fn conflict(&mut self, on: Option<&OnInsert>) -> Result<(), Refusal> {
        match on {
            Some(OnInsert::DuplicateKeyUpdate(assignments)) => self.assignments(assignments)?,
            Some(OnInsert::OnConflict(OnConflict { conflict_target, action })) => {
                match conflict_target {
                    Some(ConflictTarget::Columns(columns)) => self.idents(columns)?,
                    Some(ConflictTarget::OnConstraint(name)) => self.named.object(name)?,
                    None => {}
                }
                match action {
                    OnConflictAction::DoNothing => {}
                    OnConflictAction::DoUpdate(DoUpdate { assignments, selection }) => {
                        self.assignments(assignments)?;
                        self.expressions(selection)?;
                    }
                }
            }
            Some(_) => return no("this form of INSERT is not allowed"),
            None => {}
        }
        Ok(())
    }

    pub(super) fn update(&mut self, update: &Update, needs_where: bool) -> Result<(), Refusal> {
        let Update {
            update_token: _,
            optimizer_hints,
            table,
            assignments,
            from,
            selection,
            returning,
            output,
            or,
            order_by,
            limit,
        } = update;
        if !optimizer_hints.is_empty() || output.is_some() || or.is_some() {
            return no("this form of UPDATE is not allowed");
        }
        needs(selection.as_ref(), needs_where, "UPDATE")?;
        self.table_with_joins(table)?;
        self.assignments(assignments)?;
        match from {
            Some(UpdateTableFromKind::AfterSet(tables)) => self.tables(tables)?,
            Some(UpdateTableFromKind::BeforeSet(_)) => {
                return no("this form of UPDATE is not allowed");
            }
            None => {}
        }
        self.expressions(selection)?;
        self.items(returning.as_deref().unwrap_or(&[]))?;
        self.orders(order_by)?;
        self.expressions(limit)
    }

    pub(super) fn delete(&mut self, delete: &Delete, needs_where: bool) -> Result<(), Refusal> {
        let Delete {
            delete_token: _,
            optimizer_hints,
            tables,
            from,
            using,
            selection,
            returning,
            output,
            order_by,
            limit,
        } = delete;
        if !optimizer_hints.is_empty() || !tables.is_empty() || output.is_some() {
            return no("this form of DELETE is not allowed: write DELETE FROM table WHERE …");
        }
        needs(selection.as_ref(), needs_where, "DELETE")?;
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
        // MySQL deletes from all listed tables.
        if from.len() != 1 {
            return no("this form of DELETE is not allowed: name one table after FROM");
        }
        self.tables(from)?;
        self.tables(using.as_deref().unwrap_or(&[]))?;
        self.expressions(selection)?;
        self.items(returning.as_deref().unwrap_or(&[]))?;
        self.orders(order_by)?;
        self.expressions(limit)
    }

    fn assignments(&mut self, assignments: &[Assignment]) -> Result<(), Refusal> {
        assignments.iter().try_for_each(|Assignment { target, value }| {
            match target {
                AssignmentTarget::ColumnName(name) => self.named.object(name)?,
                AssignmentTarget::Tuple(names) => self.objects(names)?,
            }
            self.expression(value)
        })
    }
}

/// Returns whether an INSERT has a clause that is not walked. All fields are named, so that a field
/// added by a later parser version is not missed.
fn is_special(insert: &Insert) -> bool {
    let Insert {
        insert_token: _,
        optimizer_hints,
        or,
        ignore: _,
        into: _,
        table: _,
        table_alias: _,
        columns: _,
        overwrite,
        source: _,
        assignments: _,
        partitioned,
        after_columns,
        has_table_keyword,
        on: _,
        returning: _,
        output,
        replace_into,
        priority,
        insert_alias,
        settings,
        format_clause,
        multi_table_insert_type,
        multi_table_into_clauses,
        multi_table_when_clauses,
        multi_table_else_clause,
    } = insert;
    let several = multi_table_insert_type.is_some()
        || multi_table_else_clause.is_some()
        || !(multi_table_into_clauses.is_empty() && multi_table_when_clauses.is_empty());
    let other = *overwrite
        || *has_table_keyword
        || *replace_into
        || partitioned.is_some()
        || !after_columns.is_empty();
    let more =
        output.is_some() || settings.is_some() || format_clause.is_some() || priority.is_some();
    several
        || other
        || more
        || or.is_some()
        || insert_alias.is_some()
        || !optimizer_hints.is_empty()
}

fn needs(selection: Option<&Expr>, needed: bool, word: &str) -> Result<(), Refusal> {
    if needed && selection.is_none() {
        return no(format!("{word} without WHERE is not allowed: add WHERE"));
    }
    Ok(())
}
