//! A gateway with everything that judges a call switched on: API keys, many policies, rate limits,
//! the audit trail. Refuses to make it cheap: policies about this caller and this tool are among
//! those that fit nobody.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// Policies that are loaded.
pub const POLICIES: usize = 200;

/// Of the policies, those that are about every call of the bench: what allows it, two rates, two
/// conditions.
const APPLYING: &str = r#"
  - { name: callers, effect: allow, who: { roles: [caller] }, what: { tools: ["echo/*"] } }
  - { name: rate-principal, effect: deny, what: { tools: ["*"] }, rate: { per_second: 1000000, by: [principal, tool] } }
  - { name: rate-server, effect: deny, what: { tools: ["*"] }, rate: { concurrency: 1000, by: [server] } }
  - { name: suspended, effect: deny, what: { tools: ["*"] }, when: '"suspended" in subject.roles' }
  - { name: strangers, effect: deny, what: { servers: ["echo"] }, when: 'subject.issuer != "key"' }
"#;

/// Policies about other callers, other servers and other tools, of every kind that needs no
/// arguments.
fn others(count: usize) -> String {
    let mut text = String::new();
    for number in 0..count {
        let line = match number % 4 {
            0 => format!(
                "effect: allow, who: {{ roles: [team-{number}] }}, what: {{ servers: [server-{number}] }}"
            ),
            1 => {
                format!(
                    "effect: deny, what: {{ tools: ['server-{number}/*_{{delete,drop}}*', '*__purge_{number}'] }}"
                )
            }
            2 => format!(
                "effect: allow, who: {{ principals: ['key|agent-{number}-*'] }}, what: {{ tools: ['*/read_*'] }}"
            ),
            _ => format!(
                "effect: deny, who: {{ organisations: [org-{number}] }}, what: {{ tools: ['*'] }}, rate: {{ per_minute: {} }}",
                60 + number
            ),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  - {{ name: other-{number}, {line} }}");
    }
    text
}

/// What a caller needs, and what the gateway's configuration needs.
pub struct Guard {
    pub key: String,
    /// Configuration that uses the policies and the key and writes the audit trail.
    pub config: String,
    /// The same without the arguments' digests in the audit trail.
    pub undigested: String,
}

/// Writes policies and a key to `folder`.
pub fn prepare(program: &Path, folder: &Path) -> anyhow::Result<Guard> {
    let keys = folder.join("keys.yaml");
    let made = Command::new(program)
        .args([
            "keys",
            "create",
            "load",
            "--role",
            "caller",
            "--organisation",
            "bench",
            "--json",
            "--file",
        ])
        .arg(&keys)
        .current_dir(folder)
        .output()
        .context("run `lockgate keys create`")?;
    ensure!(
        made.status.success(),
        "`lockgate keys create`: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).context("read the key")?;
    let key = made
        .get("key")
        .and_then(serde_json::Value::as_str)
        .context("no key in the answer")?
        .to_owned();
    let applying = APPLYING.trim_start_matches('\n');
    let count = POLICIES - applying.lines().count();
    fs::write(folder.join("policies.yaml"), format!("policies:\n{applying}{}", others(count)))
        .context("write the policies")?;
    let config = |audit: &str| {
        format!(
            "auth: {{ keys_file: keys.yaml }}\npolicy: {{ files: [policies.yaml] }}\naudit: {{ {audit} }}\n"
        )
    };
    let undigested = config("file: undigested.jsonl, arguments: omitted");
    Ok(Guard { key, config: config("file: audit.jsonl"), undigested })
}
