//! A limit on the parser's work. The parser tries alternatives in turn, each over everything nested
//! inside, so that a short text can cost 2⁴⁸ attempts. Its calls to the dialect are counted, and
//! the clock is checked. Once the limit is reached, every fallible call returns the error for
//! excessive nesting, which no alternative of the parser suppresses.

use std::any::TypeId;
use std::cell::{Cell, OnceCell};
use std::convert::identity;
use std::iter::Peekable;
use std::str::Chars;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sqlparser::ast::{ColumnOption, Expr, GranteesType, Ident, ObjectNamePart, Statement};
use sqlparser::dialect::{Dialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};

/// Dialect calls per token. The statements of the tests need 844 in total, or 2 per token of a long
/// statement.
const PER_TOKEN: usize = 20;
/// Additional dialect calls per statement.
const PER_STATEMENT: usize = 4_000;
/// Limit on the CPU time for all statements of a call. Covers expensive work with few dialect
/// calls, and many statements that are each just below the limit.
const MAX_TIME: Duration = Duration::from_millis(500);
/// Dialect calls between two checks of the clock.
const CALLS_PER_CHECK: usize = 16;

/// The parsing time shared by the statements of one call, which are judged by a single thread. It
/// starts with the first statement.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    began: OnceCell<Duration>,
    most: Duration,
}

impl Default for Effort {
    fn default() -> Self {
        Self::new(MAX_TIME)
    }
}

impl Effort {
    pub(super) fn new(most: Duration) -> Self {
        Self { began: OnceCell::new(), most }
    }

    pub(super) fn is_spent(&self) -> bool {
        let began = *self.began.get_or_init(thread_time);
        thread_time().saturating_sub(began) >= self.most
    }
}

/// Returns the CPU time of this thread. A statement must not be refused because the machine is
/// busy.
pub(crate) fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// A dialect with a limited number of calls.
#[derive(Debug)]
pub(super) struct Metered {
    dialect: &'static dyn Dialect,
    left: Cell<usize>,
    is_spent: Cell<bool>,
    effort: Effort,
}

impl Metered {
    pub(super) fn new(dialect: &'static dyn Dialect, tokens: usize, effort: &Effort) -> Self {
        Self {
            dialect,
            left: Cell::new(PER_STATEMENT + PER_TOKEN * tokens),
            is_spent: Cell::new(false),
            effort: effort.clone(),
        }
    }

    /// Returns whether the parser has exceeded its limits. Its result is then unusable.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent.get()
    }

    fn count_question(&self) {
        let left = self.left.get();
        if left == 0 || left.is_multiple_of(CALLS_PER_CHECK) && self.effort.is_spent() {
            self.is_spent.set(true);
        }
        self.left.set(left.saturating_sub(1));
    }

    /// Counts a call that can fail. The parser propagates this error out of its alternatives.
    fn count_or_fail(&self) -> Result<(), ParserError> {
        self.count_question();
        if self.is_spent() { Err(ParserError::RecursionLimitExceeded) } else { Ok(()) }
    }
}

/// Forwards calls that cannot fail.
macro_rules! pass {
    ($($name:ident)*) => { pass! { $($name() -> bool;)* } };
    ($($name:ident($($value:ident: $of:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&self, $($value: $of),*) -> $answer {
            self.count_question();
            self.dialect.$name($($value),*)
        })*
    };
}

/// Forwards calls that can fail; `$wrap` converts an error to the return type.
macro_rules! pass_or_fail {
    ($($name:ident($($value:ident: $of:ty),*) -> $answer:ty, $wrap:expr;)*) => {
        $(fn $name(&self, $($value: $of),*) -> $answer {
            match self.count_or_fail() {
                Ok(()) => self.dialect.$name($($value),*),
                Err(error) => $wrap(Err(error)),
            }
        })*
    };
}

/// Forwards every method, including those of later parser versions: a method that is not forwarded
/// would return its default, which belongs to no dialect.
#[deny(clippy::missing_trait_methods)]
#[rustfmt::skip]
impl Dialect for Metered {
    fn dialect(&self) -> TypeId {
        self.dialect.dialect()
    }

    pass_or_fail! {
        parse_prefix(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>>, Some;
        parse_infix(parser: &mut Parser<'_>, left: &Expr, precedence: u8)
            -> Option<Result<Expr, ParserError>>, Some;
        get_next_precedence(parser: &Parser<'_>) -> Option<Result<u8, ParserError>>, Some;
        get_next_precedence_default(parser: &Parser<'_>) -> Result<u8, ParserError>, identity;
        parse_statement(parser: &mut Parser<'_>) -> Option<Result<Statement, ParserError>>, Some;
        parse_column_option(parser: &mut Parser<'_>)
            -> Result<Option<Result<Option<ColumnOption>, ParserError>>, ParserError>, identity;
    }

    pass! {
        is_delimited_identifier_start(c: char) -> bool;
        is_nested_delimited_identifier_start(c: char) -> bool;
        peek_nested_delimited_identifier_quotes(chars: Peekable<Chars<'_>>)
            -> Option<(char, Option<char>)>;
        identifier_quote_style(identifier: &str) -> Option<char>;
        is_identifier_start(c: char) -> bool;
        is_identifier_part(c: char) -> bool;
        is_custom_operator_part(c: char) -> bool;
        prec_value(precedence: Precedence) -> u8;
        prec_unknown() -> u8;
        is_reserved_for_identifier(word: Keyword) -> bool;
        get_reserved_keywords_for_select_item_operator() -> &[Keyword];
        get_reserved_grantees_types() -> &[GranteesType];
        is_column_alias(word: &Keyword, parser: &mut Parser<'_>) -> bool;
        is_select_item_alias(explicit: bool, word: &Keyword, parser: &mut Parser<'_>) -> bool;
        is_table_factor(word: &Keyword, parser: &mut Parser<'_>) -> bool;
        is_table_alias(word: &Keyword, parser: &mut Parser<'_>) -> bool;
        is_table_factor_alias(explicit: bool, word: &Keyword, parser: &mut Parser<'_>) -> bool;
        is_identifier_generating_function_name(name: &Ident, parts: &[ObjectNamePart]) -> bool;
    }

    pass! {
        supports_string_literal_backslash_escape ignores_wildcard_escapes
        supports_unicode_string_literal supports_filter_during_aggregation
        supports_window_clause_named_window_reference supports_within_after_array_aggregation
        supports_partition_by_after_order_by supports_array_join_syntax
        supports_alter_user_as_alter_role supports_group_by_expr supports_group_by_with_modifier
        supports_left_associative_joins_without_parens supports_outer_join_operator
        supports_cross_join_constraint supports_connect_by supports_execute_immediate
        supports_match_recognize supports_in_empty_list supports_in_unparenthesized_expr
        supports_start_transaction_modifier supports_end_transaction_modifier
        supports_named_fn_args_with_eq_operator supports_named_fn_args_with_colon_operator
        supports_named_fn_args_with_assignment_operator supports_named_fn_args_with_rarrow_operator
        supports_named_fn_args_with_expr_name supports_numeric_prefix
        supports_numeric_literal_underscores supports_window_function_null_treatment_arg
        supports_dictionary_syntax support_map_literal_syntax supports_lambda_functions
        supports_parenthesized_set_variables supports_comma_separated_set_assignments
        supports_update_order_by supports_select_wildcard_except convert_type_before_value
        supports_triple_quoted_string supports_trailing_commas supports_limit_comma
        supports_string_literal_concatenation supports_string_literal_concatenation_with_newline
        supports_projection_trailing_commas supports_from_trailing_commas
        supports_column_definition_trailing_commas supports_object_name_double_dot_notation
        supports_struct_literal supports_empty_projections supports_select_expr_star
        supports_from_first_select supports_from_first_insert supports_pipe_operator
        supports_user_host_grantee supports_match_against supports_select_wildcard_exclude
        supports_select_exclude supports_create_table_multi_schema_info_sources
        supports_select_modifiers describe_requires_table_keyword allow_extract_custom
        allow_extract_single_quotes supports_extract_comma_syntax supports_subquery_as_function_arg
        supports_create_view_comment_syntax supports_array_typedef_without_element_type
        supports_parens_around_table_factor supports_values_as_table_factor
        supports_dollar_placeholder supports_dollar_as_money_prefix
        supports_create_index_with_clause require_interval_qualifier
        supports_explain_with_utility_options supports_asc_desc_in_column_definition
        supports_factorial_operator supports_bitwise_shift_operators supports_nested_comments
        supports_multiline_comment_hints supports_eq_alias_assignment supports_try_convert
        supports_bang_not_operator supports_listen_notify supports_exclude_constraint
        supports_load_data supports_load_extension supports_top_before_distinct
        supports_boolean_literals supports_show_like_before_in supports_comment_on
        supports_create_table_select supports_leading_comma_before_table_options supports_partiql
        supports_unpivot_expr supports_constraint_keyword_without_name supports_key_column_option
        supports_table_sample_before_alias supports_insert_set supports_insert_table_function
        supports_insert_table_query supports_insert_format supports_insert_table_alias
        supports_set_stmt_without_operator supports_table_versioning supports_string_escape_constant
        supports_table_hints requires_single_line_comment_whitespace
        supports_array_typedef_with_brackets supports_geometric_types supports_order_by_all
        supports_order_by_using_operator supports_set_names supports_space_separated_column_options
        supports_alter_column_type_using supports_comma_separated_drop_column_list
        supports_notnull_operator supports_data_type_signed_suffix supports_interval_options
        supports_create_table_like_parenthesized supports_semantic_view_table_factor
        supports_quote_delimited_string supports_comment_optimizer_hint
        supports_double_ampersand_operator supports_binary_kw_as_cast
        supports_select_wildcard_replace supports_select_wildcard_ilike
        supports_select_wildcard_rename supports_select_wildcard_with_alias supports_optimize_table
        supports_install supports_detach supports_prewhere supports_with_fill supports_limit_by
        supports_interpolate supports_settings supports_select_format supports_comma_separated_trim
        supports_cte_without_as supports_select_item_multi_column_alias supports_xml_expressions
        supports_aliased_function_args supports_create_table_using supports_long_type_as_bigint
        supports_map_literal_with_angle_brackets
    }
}
