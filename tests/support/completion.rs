//! Completions of the arguments of the fixture's prompts and template, from short lists.

use rmcp::{
    ErrorData,
    model::{CompleteRequestParams, CompleteResult, CompletionInfo, Reference},
};

use crate::{prompts, resources};

const WORDS: [&str; 6] = ["paris", "park", "party", "test", "testing", "tests"];
const IDS: [&str; 4] = ["1", "12", "123", "2"];

pub(crate) fn complete(request: &CompleteRequestParams) -> Result<CompleteResult, ErrorData> {
    let candidates: &[&str] = match &request.r#ref {
        Reference::Prompt(prompt) if prompts::is_known(&prompt.name) => &WORDS,
        Reference::Resource(template) if template.uri == resources::TEMPLATE => &IDS,
        _ => {
            return Err(ErrorData::invalid_params("unknown completion reference", None));
        }
    };
    let values = candidates
        .iter()
        .filter(|candidate| candidate.starts_with(&request.argument.value))
        .map(|candidate| (*candidate).to_owned())
        .collect();
    CompletionInfo::with_all_values(values)
        .map(CompleteResult::new)
        .map_err(|error| ErrorData::internal_error(error, None))
}
