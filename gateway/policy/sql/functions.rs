//! The built-in list of functions that statements may call: those that only compute from their
//! arguments, the clock or chance. Not listed are functions that read files, settings or other
//! tables, run text as SQL, wait, lock, or leave a trace.

use std::collections::HashSet;

use globset::Glob;

use super::spec::{Dialect, Spec};

/// Functions of all three dialects.
const COMMON: &str = "abs avg ceil ceiling char_length character_length coalesce concat concat_ws \
    count cume_dist current_date current_time current_timestamp degrees dense_rank exp first_value \
    floor greatest lag last_value lead least length ln log log10 lower lpad ltrim max min mod \
    nth_value ntile nullif octet_length percent_rank pi pow power radians rank replace round \
    row_number rpad rtrim sign sqrt stddev substr substring sum trim upper acos asin atan atan2 \
    cos sin tan";

const POSTGRES: &str = "acosd acosh age any_value array array_agg array_append array_cat \
    array_dims array_fill array_length array_lower array_ndims array_position array_positions \
    array_prepend array_remove array_replace array_sample array_shuffle array_to_json \
    array_to_string array_to_tsvector array_upper ascii asind asinh atan2d atand atanh bit_and \
    bit_count bit_length bit_or bit_xor bool_and bool_or btrim cardinality cbrt chr \
    clock_timestamp corr cosd cosh cot cotd covar_pop covar_samp current_catalog current_database \
    current_role current_schema current_user date_bin date_part date_trunc daterange \
    datemultirange date decode div encode erf erfc every extract factorial format format_type gcd \
    gen_random_uuid generate_series generate_subscripts get_bit get_byte grouping host initcap \
    int4multirange int4range int8multirange int8range isempty isfinite json json_agg \
    json_agg_strict json_array json_array_elements json_array_elements_text json_array_length \
    json_build_array json_build_object json_each json_each_text json_extract_path \
    json_extract_path_text json_object json_object_agg json_object_keys json_strip_nulls \
    json_typeof jsonb_agg jsonb_array_elements jsonb_array_elements_text jsonb_array_length \
    jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path \
    jsonb_extract_path_text jsonb_insert jsonb_object jsonb_object_agg jsonb_object_keys \
    jsonb_path_exists jsonb_path_match jsonb_path_query jsonb_path_query_array \
    jsonb_path_query_first jsonb_pretty jsonb_set jsonb_set_lax jsonb_strip_nulls jsonb_typeof \
    justify_days justify_hours justify_interval lcm left localtime localtimestamp lower_inc \
    lower_inf make_date make_interval make_time make_timestamp make_timestamptz masklen md5 \
    min_scale mode netmask network normalize now num_nonnulls num_nulls numnode numrange overlay \
    parse_ident percentile_cont percentile_disc pg_typeof phraseto_tsquery plainto_tsquery \
    position querytree quote_ident quote_literal quote_nullable random range_agg \
    range_intersect_agg range_merge regexp_count regexp_instr regexp_like regexp_match \
    regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table regexp_substr \
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy \
    repeat reverse right row row_to_json scale session_user setweight sha224 sha256 sha384 sha512 \
    similarity sind sinh split_part starts_with statement_timestamp stddev_pop stddev_samp \
    string_agg string_to_array string_to_table strip strpos tand tanh timeofday timezone to_ascii \
    to_char to_date to_hex to_json to_jsonb to_number to_timestamp to_tsquery to_tsvector \
    transaction_timestamp translate trim_array trim_scale trunc ts_headline ts_rank ts_rank_cd \
    tsrange tstzrange unnest upper_inc upper_inf user var_pop var_samp variance version \
    websearch_to_tsquery width_bucket word_similarity xml_is_well_formed \
    xml_is_well_formed_content xml_is_well_formed_document xmlagg xmlattributes xmlcomment \
    xmlconcat xmlelement xmlexists xmlforest xmlparse xmlpi xmlroot xmlserialize xpath \
    xpath_exists";

/// PostgreSQL functions that are meant to take a whole row.
pub(super) const OF_ROWS: &str = "array_agg count json_agg json_agg_strict json_build_array \
    json_build_object json_object_agg jsonb_agg jsonb_build_array jsonb_build_object \
    jsonb_object_agg row_to_json to_json to_jsonb";

const MYSQL: &str = "adddate addtime any_value ascii bin bit_and bit_count bit_length bit_or \
    bit_xor cast char coercibility collation conv convert convert_tz cot crc32 curdate curtime \
    current_user database date date_add date_format date_sub datediff day dayname dayofmonth \
    dayofweek dayofyear elt export_set field find_in_set format format_bytes from_base64 from_days \
    from_unixtime get_format group_concat grouping hex hour if ifnull inet6_aton inet6_ntoa \
    inet_aton inet_ntoa insert instr interval is_ipv4 is_ipv6 is_uuid isnull json_array \
    json_array_append json_array_insert json_arrayagg json_contains json_contains_path json_depth \
    json_extract json_insert json_keys json_length json_merge_patch json_merge_preserve \
    json_object json_objectagg json_overlaps json_pretty json_quote json_remove json_replace \
    json_search json_set json_type json_unquote json_valid json_value last_day lcase left \
    localtime localtimestamp locate log2 make_set makedate maketime md5 microsecond mid minute \
    month monthname now oct ord period_add period_diff position quarter quote rand regexp_instr \
    regexp_like regexp_replace regexp_substr repeat reverse right sec_to_time second schema sha \
    sha1 sha2 soundex space std stddev_pop stddev_samp str_to_date strcmp subdate substring_index \
    subtime sysdate time time_format time_to_sec timediff timestamp timestampadd timestampdiff \
    to_base64 to_days to_seconds truncate ucase unhex unix_timestamp user utc_date utc_time \
    utc_timestamp uuid uuid_to_bin bin_to_uuid values var_pop var_samp variance version week \
    weekday weekofyear weight_string year yearweek";

const SQLITE: &str = "acosh asinh atanh bm25 changes char cosh date datetime format glob \
    group_concat hex highlight ifnull iif instr json json_array json_array_length json_each \
    json_error_position json_extract json_group_array json_group_object json_insert json_object \
    json_patch json_pretty json_quote json_remove json_replace json_set json_tree json_type \
    json_valid jsonb jsonb_array jsonb_extract jsonb_group_array jsonb_group_object jsonb_object \
    julianday like likelihood likely log2 median match percentile percentile_cont printf quote \
    random regexp sinh snippet sqlite_version string_agg strftime tanh time timediff total trunc \
    typeof unhex unicode unistr unixepoch unlikely concat";

/// The schema of PostgreSQL's own functions.
const CATALOG: &str = "pg_catalog.";

/// Returns the names of a dialect's functions, in lower case.
pub(super) fn of(dialect: Dialect) -> impl Iterator<Item = &'static str> {
    let own = match dialect {
        Dialect::Postgres => POSTGRES,
        Dialect::Mysql => MYSQL,
        Dialect::Sqlite => SQLITE,
    };
    COMMON.split_whitespace().chain(own.split_whitespace())
}

#[derive(Clone, Debug)]
pub(super) struct Functions {
    allowed: HashSet<String>,
    denied: HashSet<String>,
    /// Functions added by the rule.
    added: HashSet<String>,
}

impl Functions {
    pub(super) fn compile(spec: &Spec) -> Result<Self, String> {
        let mut added = HashSet::new();
        for name in &spec.functions.allow {
            match addition(spec.dialect, name) {
                Ok(lower) => added.insert(lower),
                Err(what) => return Err(format!("functions.allow: {name:?} {what}")),
            };
        }
        let mut allowed = added.clone();
        allowed.extend(of(spec.dialect).map(|name| name.to_owned()));
        let mut denied = HashSet::new();
        for glob in &spec.functions.deny {
            let lower = glob.to_ascii_lowercase();
            let fits = match Glob::new(&lower) {
                Ok(glob) => glob.compile_matcher(),
                Err(error) => {
                    let what = error.kind();
                    return Err(format!("functions.deny: {glob:?} is not a glob: {what}"));
                }
            };
            let found = Vec::from_iter(allowed.iter().filter(|name| fits.is_match(name)));
            if found.is_empty() {
                return Err(format!("functions.deny: {glob:?} {}", unfit(spec.dialect, &lower)));
            }
            denied.extend(found.into_iter().cloned());
        }
        for name in &spec.functions.allow {
            if denied.contains(&name.to_ascii_lowercase()) {
                return Err(format!(
                    "functions.allow: {name:?} is denied by functions.deny: remove it from one of \
                        them"
                ));
            }
        }
        allowed.retain(|name| !denied.contains(name));
        Ok(Self { allowed, denied, added })
    }

    pub(super) fn adds(&self, name: &str) -> bool {
        self.added.contains(name)
    }

    pub(super) fn allows(&self, name: &str) -> bool {
        self.allowed.contains(name)
    }

    /// Returns whether the rule removes a function from the list. For calls with their own grammar,
    /// listed or not.
    pub(super) fn denies(&self, name: &str) -> bool {
        self.denied.contains(name)
    }
}

/// Returns an entry of `allow` in the form for lookups, or the reason why no call can match.
fn addition(dialect: Dialect, name: &str) -> Result<String, String> {
    let lower = name.to_ascii_lowercase();
    if name.contains(['*', '?', '[', ']', '{', '}']) {
        return Err("is a pattern: name each function, after a review of its effects".into());
    }
    let parts: Vec<&str> = lower.split('.').collect();
    let most = if dialect == Dialect::Sqlite { 1 } else { 2 };
    if let ([_, bare], Dialect::Postgres) = (parts.as_slice(), dialect)
        && lower.starts_with(CATALOG)
    {
        return Err(format!("must be written {bare:?}, which matches both"));
    }
    if parts.len() > most || !parts.iter().all(|part| is_name(part)) {
        let or = if most == 2 { " or schema.name" } else { "" };
        return Err(format!(
            "is not the name of a function: write name{or}, without quotes and parentheses"
        ));
    }
    Ok(lower)
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && !part.contains([' ', '(', ')', '"', '\'', '`'])
}

/// Describes the mistake in an entry of `deny` that matches nothing.
fn unfit(dialect: Dialect, lower: &str) -> String {
    if dialect == Dialect::Postgres
        && let Some(bare) = lower.strip_prefix(CATALOG)
    {
        return format!("must be written {bare:?}, which matches both");
    }
    "matches no allowed function: all functions outside of the built-in list and functions.allow \
        are refused anyway; correct the name, or remove it"
        .into()
}
