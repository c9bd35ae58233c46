//! Two skills with their files and folders (SEP-2640), all held in memory.

use std::collections::BTreeMap;

use rmcp::{
    ErrorData,
    model::{
        DIRECTORY_MIME_TYPE, Resource, ResourceContents, Skill, SkillFrontmatter, SkillResource,
        SkillResources,
    },
};

const FILES: [(&str, &str); 5] = [
    (
        "skill://git-workflow/SKILL.md",
        "---\nname: git-workflow\ndescription: Conventions for branches\n---\n\nSee \
            references/GUIDE.md.\n",
    ),
    ("skill://git-workflow/references/GUIDE.md", "# Guide\n\nRebase, then merge.\n"),
    ("skill://git-workflow/references/FAQ.md", "# Questions\r\n\r\nNone yet: naïve, 日本語.\r\n"),
    (
        "skill://acme/billing/refunds/SKILL.md",
        "---\nname: refunds\ndescription: Process refunds\nlicense: Apache-2.0\n---\n\nAsk \
            first.\n",
    ),
    ("skill://acme/billing/refunds/examples/email.md", "Dear customer,\n"),
];
const SKILLS: [&str; 2] = ["skill://git-workflow", "skill://acme/billing/refunds"];

pub(crate) fn list() -> Vec<Skill> {
    SKILLS.iter().filter_map(|root| get(&format!("{root}/SKILL.md")).ok()).collect()
}

pub(crate) fn get(uri: &str) -> Result<Skill, ErrorData> {
    let root = uri.strip_suffix("/SKILL.md").filter(|root| SKILLS.contains(root));
    let root = root.ok_or_else(|| missing("skill", uri))?;
    let mut files = Vec::new();
    for (name, text) in FILES {
        if name.starts_with(&format!("{root}/")) {
            files.push(SkillResource::from_bytes(name, text.as_bytes()));
        }
    }
    Ok(Skill::new(uri, frontmatter(uri), SkillResources::Files(files)))
}

fn frontmatter(uri: &str) -> SkillFrontmatter {
    let mut fields = BTreeMap::new();
    let text = FILES.iter().find(|file| file.0 == uri).map_or("", |file| file.1);
    for line in text.lines().skip(1).take_while(|line| *line != "---") {
        fields.extend(line.split_once(": "));
    }
    let name = fields.remove("name").unwrap_or_default();
    let mut matter = SkillFrontmatter::new(name, fields.remove("description").unwrap_or_default());
    for (name, value) in fields {
        matter = matter.with_field(name, value);
    }
    matter
}

pub(crate) fn resources() -> Vec<Resource> {
    FILES.iter().map(|(uri, _)| describe(uri)).collect()
}

fn describe(uri: &str) -> Resource {
    let file = uri.rsplit('/').next().unwrap_or(uri);
    let matter = frontmatter(uri);
    let name = if file == "SKILL.md" { matter.name } else { file.to_owned() };
    let described = Resource::new(uri, name).with_mime_type("text/markdown");
    if matter.description.is_empty() {
        described
    } else {
        described.with_description(matter.description)
    }
}

pub(crate) fn read(uri: &str) -> Option<ResourceContents> {
    let (_, text) = FILES.iter().find(|file| file.0 == uri)?;
    Some(ResourceContents::text(*text, uri).with_mime_type("text/markdown"))
}

/// Returns the children of a folder.
pub(crate) fn children(folder: &str) -> Result<Vec<Resource>, ErrorData> {
    let mut all = BTreeMap::new();
    for (uri, _) in FILES {
        let Some(rest) = uri.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) else {
            continue;
        };
        let resource = match rest.split_once('/') {
            None => describe(uri),
            Some((name, _)) => {
                Resource::new(format!("{folder}/{name}"), name).with_mime_type(DIRECTORY_MIME_TYPE)
            }
        };
        all.insert(resource.uri.clone(), resource);
    }
    if all.is_empty() { Err(missing("folder", folder)) } else { Ok(all.into_values().collect()) }
}

fn missing(what: &str, uri: &str) -> ErrorData {
    ErrorData::invalid_params(format!("no {what} is served at {uri}"), None)
}
