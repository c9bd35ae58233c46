//! Checks clients' answers to servers' questions (elicitation, sampling, roots) against the
//! questions. Answers without a question and unknown members are dropped; an invalid answer is
//! refused and never reaches the server. Pages: basic/patterns/mrtr.mdx, client/elicitation.mdx,
//! client/sampling.mdx, client/roots.mdx (2026-07-28).

mod form;

use std::borrow::Cow;
use std::collections::BTreeMap;

use lockgate_protocol::list;
use lockgate_protocol::method::Method;
use lockgate_protocol::scan::{self, Keys, Members, ScanError, Scanner, Span};
use lockgate_protocol::write::Object;
use serde_json::{Map, Value};

use form::Form;

/// Limit on the serialised questions in a sealed state, in bytes.
const MAX_QUESTIONS: usize = 12 * 1024;

/// The part of a question that its answer is checked against.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Question {
    Form(Form),
    /// An elicitation by URL: its answer has no content.
    Url,
    Sample,
    Roots,
}

/// The questions of a round, by the server's own keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Questions(BTreeMap<String, Question>);

impl Question {
    /// Returns the question of a request, or `None` for methods that clients cannot be asked.
    pub(crate) fn of(method: Method, params: &Value) -> Option<Self> {
        match method {
            Method::Sample => Some(Self::Sample),
            Method::Roots => Some(Self::Roots),
            Method::Elicit if params["mode"] == "url" => Some(Self::Url),
            Method::Elicit => Some(Self::Form(Form::of(params.get("requestedSchema")))),
            _ => None,
        }
    }

    /// Validates an answer and returns it with only its known members, copied verbatim.
    ///
    /// # Errors
    /// Describes the flaw.
    pub(crate) fn take(&self, raw: &[u8]) -> Result<Vec<u8>, String> {
        let answer = Answer::read(raw)?;
        let mut out = Vec::with_capacity(raw.len());
        let mut object = Object::open(&mut out);
        match self {
            Self::Form(_) | Self::Url => self.take_elicited(&answer, &mut object)?,
            Self::Sample => take_sampled(&answer, &mut object)?,
            Self::Roots => take_roots(&answer, &mut object)?,
        }
        object.close();
        Ok(out)
    }

    fn take_elicited(&self, answer: &Answer<'_>, object: &mut Object<'_>) -> Result<(), String> {
        let action = answer.text("action")?;
        if !matches!(&*action, "accept" | "decline" | "cancel") {
            return Err("`action` must be accept, decline or cancel".into());
        }
        object.string("action", &action);
        let Self::Form(form) = self else { return Ok(()) };
        if action != "accept" {
            return Ok(());
        }
        let Some(raw) = answer.member("content") else { return form.check(&Map::new()) };
        let Ok(Value::Object(content)) = serde_json::from_slice(raw) else {
            return Err("`content` must be an object".into());
        };
        form.check(&content)?;
        let scanned = Answer::read(raw)?;
        let mut known = Object::open(object.key("content"));
        for member in &scanned.members {
            if form.names(&member.name(raw)) {
                known.copy(member.key.of(raw), member.value.of(raw));
            }
        }
        known.close();
        Ok(())
    }

    fn sealed(&self) -> Value {
        match self {
            Self::Form(form) => form.sealed(),
            Self::Url => "url".into(),
            Self::Sample => "sample".into(),
            Self::Roots => "roots".into(),
        }
    }

    fn unsealed(value: Value) -> Option<Self> {
        match value.as_str() {
            Some("url") => Some(Self::Url),
            Some("sample") => Some(Self::Sample),
            Some("roots") => Some(Self::Roots),
            Some(_) => None,
            None => Some(Self::Form(Form::unsealed(value)?)),
        }
    }
}

impl Questions {
    /// Parses an `inputRequests`. Returns `None` if it is not an object, is too long for a sealed
    /// state, or has a method that clients cannot be asked.
    pub(crate) fn of(requests: &[u8]) -> Option<Self> {
        let Ok(Value::Object(all)) = serde_json::from_slice(requests) else { return None };
        let mut questions = BTreeMap::new();
        for (key, request) in all {
            let method = Method::parse(request["method"].as_str().unwrap_or(""));
            questions.insert(key, Question::of(method, &request["params"])?);
        }
        let questions = Self(questions);
        if questions.sealed().to_string().len() > MAX_QUESTIONS {
            return None;
        }
        Some(questions)
    }

    /// Serialises the questions for a sealed state.
    pub(crate) fn sealed(&self) -> Value {
        let mut all = Map::new();
        all.extend(self.0.iter().map(|(key, question)| (key.clone(), question.sealed())));
        Value::Object(all)
    }

    pub(crate) fn unsealed(value: Value) -> Option<Self> {
        let Value::Object(all) = value else { return None };
        let mut questions = BTreeMap::new();
        for (key, question) in all {
            questions.insert(key, Question::unsealed(question)?);
        }
        Some(Self(questions))
    }

    /// Validates an `inputResponses` and keeps the answers to these questions. Missing answers are
    /// left to the server to reject.
    ///
    /// # Errors
    /// Describes the first flaw.
    pub(crate) fn take(&self, raw: &[u8]) -> Result<Vec<u8>, String> {
        take_each(raw, |key| self.0.get(key).cloned())
    }
}

/// Filters the answers to questions of a task, which only its server remembers: answers that fit no
/// kind of question are dropped.
///
/// # Errors
/// The answers are not a JSON object.
pub(crate) fn take_unremembered(raw: &[u8]) -> Result<Vec<u8>, String> {
    let all = Answer::read(raw)?;
    take_each(raw, |key| {
        let answer = all.member(key)?;
        let question = guess_question(answer)?;
        question.take(answer).ok()?;
        Some(question)
    })
}

/// Infers the kind of question from the members of an answer.
fn guess_question(answer: &[u8]) -> Option<Question> {
    let answer = Answer::read(answer).ok()?;
    Some(if answer.member("role").is_some() {
        Question::Sample
    } else if answer.member("roots").is_some() {
        Question::Roots
    } else {
        Question::Form(Form::any())
    })
}

fn take_each(raw: &[u8], question: impl Fn(&str) -> Option<Question>) -> Result<Vec<u8>, String> {
    let all = match Answer::read(raw) {
        Ok(all) => all,
        Err(words) => return Err(format!("`params.inputResponses`: {words}")),
    };
    let mut out = Vec::with_capacity(raw.len());
    let mut object = Object::open(&mut out);
    for member in &all.members {
        let key = member.name(raw);
        let Some(question) = question(&key) else { continue };
        match question.take(member.value.of(raw)) {
            Ok(answer) => object.copy(member.key.of(raw), &answer),
            Err(words) => return Err(format!("the answer {}: {words}", list::short(&key))),
        }
    }
    object.close();
    Ok(out)
}

fn take_sampled(answer: &Answer<'_>, object: &mut Object<'_>) -> Result<(), String> {
    let role = answer.text("role")?;
    if !matches!(&*role, "user" | "assistant") {
        return Err("`role` must be user or assistant".into());
    }
    let content = answer.require("content")?;
    let is_content = match serde_json::from_slice(content) {
        Ok(Value::Array(blocks)) => blocks.iter().all(is_block),
        Ok(block) => is_block(&block),
        Err(_) => false,
    };
    if !is_content {
        return Err("`content` must be a content block, or an array of them".into());
    }
    object.string("role", &role);
    object.raw("content", content);
    object.string("model", &answer.text("model")?);
    if answer.member("stopReason").is_some() {
        object.string("stopReason", &answer.text("stopReason")?);
    }
    Ok(())
}

fn is_block(block: &Value) -> bool {
    block["type"].is_string()
}

fn take_roots(answer: &Answer<'_>, object: &mut Object<'_>) -> Result<(), String> {
    let roots = answer.require("roots")?;
    let Ok(Value::Array(roots)) = serde_json::from_slice(roots) else {
        return Err("`roots` must be an array".into());
    };
    let mut known = Vec::with_capacity(roots.len());
    for root in roots {
        let uri = match root["uri"].as_str() {
            Some(uri) if uri.starts_with("file://") => uri,
            _ => return Err("a root must have a `uri` that begins with file://".into()),
        };
        let mut new = Map::new();
        new.insert("uri".into(), uri.into());
        match root.get("name") {
            None => {}
            Some(Value::String(name)) => drop(new.insert("name".into(), name.as_str().into())),
            Some(_) => return Err("the `name` of a root must be a string".into()),
        }
        known.push(Value::Object(new));
    }
    object.raw("roots", Value::Array(known).to_string().as_bytes());
    Ok(())
}

struct Answer<'a> {
    raw: &'a [u8],
    members: Members,
}

impl<'a> Answer<'a> {
    fn read(raw: &'a [u8]) -> Result<Self, String> {
        if !raw.starts_with(b"{") {
            return Err("must be an object".into());
        }
        match scan_members(raw) {
            Ok((_, members)) => Ok(Self { raw, members }),
            Err(flaw) => Err(flaw.to_string()),
        }
    }

    fn member(&self, name: &str) -> Option<&'a [u8]> {
        Some(scan::find(&self.members, self.raw, name)?.of(self.raw))
    }

    fn require(&self, name: &str) -> Result<&'a [u8], String> {
        match self.member(name) {
            Some(member) => Ok(member),
            None => Err(format!("`{name}` is missing")),
        }
    }

    fn text(&self, name: &str) -> Result<Cow<'a, str>, String> {
        if let Some(raw) = self.member(name)
            && let Some(text) = scan::as_str(raw)
        {
            return Ok(text);
        }
        Err(format!("`{name}` must be a string"))
    }
}

fn scan_members(raw: &[u8]) -> Result<(Span, Members), ScanError> {
    Scanner::new(raw, scan::MAX_DEPTH)?.members(Keys::Distinct)
}

#[cfg(test)]
mod tests;
