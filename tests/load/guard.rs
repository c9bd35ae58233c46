//! The configuration of a fully guarded gateway: API keys, many policies, rate limits and the audit
//! trail. Some policies apply to this caller and tool, since matching policies cost the most.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

pub const POLICIES: usize = 200;

/// The policies that apply to every call of the benchmark: the permission, two rates and two
/// conditions.
const APPLYING: &str = r#"
  - { name: callers, effect: allow, who: { roles: [caller] }, what: { tools: ["echo/*"] } }
  - { name: rate-principal, effect: deny, what: { tools: ["*"] }, rate: { per_second: 1000000, by: [principal, tool] } }
  - { name: rate-server, effect: deny, what: { tools: ["*"] }, rate: { concurrency: 1000, by: [server] } }
  - { name: suspended, effect: deny, what: { tools: ["*"] }, when: '"suspended" in subject.roles' }
  - { name: strangers, effect: deny, what: { servers: ["echo"] }, when: 'subject.issuer != "key"' }
"#;

/// Returns policies for other callers, servers and tools, of every kind that needs no arguments.
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

/// The caller's key, and the gateway's configuration.
pub struct Guard {
    pub key: String,
    /// Configuration with the policies, the keys file and the audit trail.
    pub config: String,
    /// The same without argument digests in the audit trail.
    pub undigested: String,
}

/// Writes the policies and a key to `folder`.
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
