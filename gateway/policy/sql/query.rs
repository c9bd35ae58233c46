//! The walk through a query. Every struct is destructured field by field, so that a field added by
//! a later parser version does not compile until it is handled. Every enum ends in a refusal.

use sqlparser::ast::{
    Cte, Distinct, Fetch, GroupByExpr, GroupByWithModifier, Ident, LimitClause,
    NamedWindowDefinition, NamedWindowExpr, ObjectName, ObjectNamePart, Offset, OrderBy,
    OrderByExpr, OrderByKind, OrderByOptions, OrderBySort, Query, Select, SelectFlavor, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, SetOperator, SetQuantifier, TableWithJoins, Values,
    WildcardAdditionalOptions, With,
};

use super::names::Named;
use super::values::Rows;
use crate::{Refusal, no};

const MAX_DEPTH: usize = 160;

pub(super) struct Walk<'a> {
    pub(super) named: &'a Named,
    /// Names of the common table expressions in scope.
    scope: Vec<String>,
    /// Functions in FROM, and the names that may be calls because of them.
    pub(super) rows: Rows,
    depth: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(named: &'a Named) -> Self {
        Self { named, scope: Vec::new(), rows: Rows::default(), depth: 0 }
    }

    /// Runs a step one level deeper.
    pub(super) fn deeper<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        if self.depth == MAX_DEPTH {
            return no("the SQL statement is nested too deeply: reduce the nesting");
        }
        self.depth += 1;
        let done = step(self);
        self.depth -= 1;
        done
    }

    pub(super) fn query(&mut self, query: &Query) -> Result<(), Refusal> {
        self.deeper(|walk| {
            let known = walk.scope.len();
            let done = walk.whole_query(query);
            walk.scope.truncate(known);
            done
        })
    }

    fn whole_query(&mut self, query: &Query) -> Result<(), Refusal> {
        let Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        if !locks.is_empty() {
            return no("row locks (FOR UPDATE, FOR SHARE) are not allowed: leave the clause out");
        }
        if for_clause.is_some()
            || settings.is_some()
            || format_clause.is_some()
            || !pipe_operators.is_empty()
        {
            return no("the query ends in a clause that is not allowed: leave it out");
        }
        if let Some(with) = with {
            self.with(with)?;
        }
        self.set_expression(body)?;
        if let Some(order_by) = order_by {
            self.order_by(order_by)?;
        }
        match limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) => {
                self.expressions(limit)?;
                if let Some(Offset { value, rows: _ }) = offset {
                    self.expression(value)?;
                }
                if !limit_by.is_empty() {
                    return no("LIMIT … BY is not allowed");
                }
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                self.expression(offset)?;
                self.expression(limit)?;
            }
            None => {}
        }
        if let Some(Fetch { with_ties: _, percent: _, quantity }) = fetch {
            self.expressions(quantity)?;
        }
        Ok(())
    }

    fn with(&mut self, with: &With) -> Result<(), Refusal> {
        let With { with_token: _, recursive, cte_tables } = with;
        for cte in cte_tables {
            let Cte { alias, query, from, materialized: _, closing_paren_token: _ } = cte;
            if from.is_some() {
                return no("this form of WITH is not allowed");
            }
            self.alias(Some(alias))?;
            // Without RECURSIVE, the name refers to the real table inside its own query.
            let name = self.named.scoped(&alias.name);
            if *recursive {
                self.scope.push(name);
                self.query(query)?;
            } else {
                self.query(query)?;
                self.scope.push(name);
            }
        }
        Ok(())
    }

    /// Returns whether a name refers to a common table expression.
    pub(super) fn in_scope(&self, name: &ObjectName) -> bool {
        match name.0.as_slice() {
            [ObjectNamePart::Identifier(ident)] => self.scope.contains(&self.named.scoped(ident)),
            _ => false,
        }
    }

    fn set_expression(&mut self, mut body: &SetExpr) -> Result<(), Refusal> {
        // A chain of UNION nests to the left, so a loop descends into it.
        loop {
            match body {
                SetExpr::SetOperation { left, op, set_quantifier, right } => {
                    match op {
                        SetOperator::Union | SetOperator::Except | SetOperator::Intersect => {}
                        SetOperator::Minus => return no("MINUS is not allowed: write EXCEPT"),
                    }
                    match set_quantifier {
                        SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None => {}
                        SetQuantifier::ByName
                        | SetQuantifier::AllByName
                        | SetQuantifier::DistinctByName => {
                            return no("UNION BY NAME is not allowed");
                        }
                    }
                    self.deeper(|walk| walk.set_expression(right))?;
                    body = left;
                }
                SetExpr::Select(select) => return self.select(select),
                SetExpr::Query(query) => return self.query(query),
                SetExpr::Values(Values { explicit_row: _, value_keyword: _, rows }) => {
                    return rows.iter().try_for_each(|row| self.expressions(&row.content));
                }
                SetExpr::Table(_) => {
                    return no("TABLE is not allowed: write SELECT * FROM the table");
                }
                SetExpr::Insert(_)
                | SetExpr::Update(_)
                | SetExpr::Delete(_)
                | SetExpr::Merge(_) => {
                    return no(
                        "a statement that changes data is not allowed within a query or after WITH",
                    );
                }
            }
        }
    }

    fn select(&mut self, select: &Select) -> Result<(), Refusal> {
        let Select {
            select_token: _,
            optimizer_hints,
            distinct,
            // MySQL keywords that advise the optimiser and do not affect the result.
            select_modifiers: _,
            top,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having,
            named_window,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor,
        } = select;
        if into.is_some() {
            return no("SELECT INTO is not allowed: it writes");
        }
        let foreign = top.is_some() || exclude.is_some() || prewhere.is_some() || qualify.is_some();
        let hive = !(lateral_views.is_empty()
            && cluster_by.is_empty()
            && distribute_by.is_empty()
            && sort_by.is_empty());
        let others =
            !optimizer_hints.is_empty() || !connect_by.is_empty() || value_table_mode.is_some();
        if foreign || hive || others || *flavor != SelectFlavor::Standard {
            return no("the SELECT has a clause that is not allowed: write it in plainer SQL");
        }
        match distinct {
            Some(Distinct::On(columns)) => self.expressions(columns)?,
            Some(Distinct::All | Distinct::Distinct) | None => {}
        }
        self.items(projection)?;
        self.tables(from)?;
        self.expressions(selection)?;
        self.group_by(group_by)?;
        self.expressions(having)?;
        named_window.iter().try_for_each(|NamedWindowDefinition(name, window)| {
            self.named.ident(name)?;
            match window {
                NamedWindowExpr::NamedWindow(name) => self.named.ident(name),
                NamedWindowExpr::WindowSpec(spec) => self.window(spec),
            }
        })
    }

    pub(super) fn items(&mut self, items: &[SelectItem]) -> Result<(), Refusal> {
        items.iter().try_for_each(|item| match item {
            SelectItem::UnnamedExpr(expression) => self.expression(expression),
            SelectItem::ExprWithAlias { expr, alias } => {
                self.named.ident(alias)?;
                self.expression(expr)
            }
            SelectItem::QualifiedWildcard(kind, options) => {
                plain_wildcard(options)?;
                match kind {
                    SelectItemQualifiedWildcardKind::ObjectName(name) => self.named.object(name),
                    SelectItemQualifiedWildcardKind::Expr(expression) => {
                        self.expression(expression)
                    }
                }
            }
            SelectItem::Wildcard(options) => plain_wildcard(options),
            SelectItem::ExprWithAliases { expr: _, aliases: _ } => {
                no("an expression may have one alias only")
            }
        })
    }

    fn group_by(&mut self, group_by: &GroupByExpr) -> Result<(), Refusal> {
        let (expressions, modifiers) = match group_by {
            GroupByExpr::Expressions(expressions, modifiers) => (expressions, modifiers),
            GroupByExpr::All(_) => return no("GROUP BY ALL is not allowed: name the columns"),
        };
        self.expressions(expressions)?;
        modifiers.iter().try_for_each(|modifier| match modifier {
            GroupByWithModifier::Rollup => Ok(()),
            GroupByWithModifier::Cube
            | GroupByWithModifier::Totals
            | GroupByWithModifier::GroupingSets(_) => no("this form of GROUP BY is not allowed"),
        })
    }

    fn order_by(&mut self, order_by: &OrderBy) -> Result<(), Refusal> {
        let OrderBy { kind, interpolate } = order_by;
        match (kind, interpolate) {
            (OrderByKind::Expressions(expressions), None) => self.orders(expressions),
            _ => no("this form of ORDER BY is not allowed: name the columns"),
        }
    }

    pub(super) fn orders(&mut self, orders: &[OrderByExpr]) -> Result<(), Refusal> {
        orders.iter().try_for_each(|order| {
            let OrderByExpr { expr, options: OrderByOptions { sort, nulls_first: _ }, with_fill } =
                order;
            match sort {
                None | Some(OrderBySort::Asc | OrderBySort::Desc) => {}
                Some(OrderBySort::Using(_)) => {
                    return no("ORDER BY … USING is not allowed: write ASC or DESC");
                }
            }
            if with_fill.is_some() {
                return no("ORDER BY … WITH FILL is not allowed");
            }
            self.expression(expr)
        })
    }

    pub(super) fn idents<'i>(
        &self,
        idents: impl IntoIterator<Item = &'i Ident>,
    ) -> Result<(), Refusal> {
        idents.into_iter().try_for_each(|ident| self.named.ident(ident))
    }

    pub(super) fn objects(&self, names: &[ObjectName]) -> Result<(), Refusal> {
        names.iter().try_for_each(|name| self.named.object(name))
    }

    pub(super) fn tables(&mut self, tables: &[TableWithJoins]) -> Result<(), Refusal> {
        tables.iter().try_for_each(|table| self.table_with_joins(table))
    }
}

pub(super) fn plain_wildcard(options: &WildcardAdditionalOptions) -> Result<(), Refusal> {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    let plain = opt_ilike.is_none() && opt_exclude.is_none() && opt_except.is_none();
    if plain && opt_replace.is_none() && opt_rename.is_none() && opt_alias.is_none() {
        return Ok(());
    }
    no("`*` with further words is not allowed: name the columns")
}
