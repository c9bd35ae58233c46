//! The command line without a running gateway: the first configuration, effective settings and
//! their origins, files of several teams, completions and manual pages.

use std::path::Path;
use std::process::Output;

use crate::rig::gate::command;
use crate::rig::upstream::modern;
use crate::rig::{Gate, Upstream, Value, json, until};

/// Runs a command in a folder.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = command();
    command.args(arguments).env("HOME", folder).current_dir(folder);
    command.env("TOKEN", "canary-7f3a").output().unwrap()
}

fn said(output: &Output) -> String {
    let bytes = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[track_caller]
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    said(output)
}

#[test]
fn what_is_in_force_is_shown_with_its_origin_and_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let text = "listen: 127.0.0.1:4000\nservers:\n  a:\n    url: http://127.0.0.1:1/mcp\n    \
        headers: { Authorization: \"Bearer ${TOKEN}\" }\n";
    std::fs::write(folder.path().join("lockgate.yaml"), text).unwrap();
    let all = done(&run(folder.path(), &["config", "show"]));
    let row = |key: &str| {
        let found = all.lines().find(|line| line.split(' ').next() == Some(key));
        found.unwrap_or_else(|| panic!("no {key} in {all}")).split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(row("listen"), ["listen", "127.0.0.1:4000", "lockgate.yaml:1"]);
    assert_eq!(row("servers.a.timeout"), ["servers.a.timeout", "60", "default"]);
    let header = "servers.a.headers.authorization";
    assert_eq!(row(header), [header, "Bearer", "${TOKEN}", "lockgate.yaml:5"]);
    assert!(!all.contains("canary"), "{all}");
    let arguments = ["config", "show", "listen", "--listen", "127.0.0.1:4001", "--json"];
    let one: Value = serde_json::from_slice(&run(folder.path(), &arguments).stdout).unwrap();
    let expected = json!([{
        "key": "listen", "value": "127.0.0.1:4001", "origin": {"flag": "--listen"},
    }]);
    assert_eq!(one["settings"], expected, "{one}");
    let set = done(&run(folder.path(), &["config", "show", "--set"]));
    assert_eq!(set.lines().count(), 4, "a head and three keys: {set}");
    let unknown = run(folder.path(), &["config", "show", "servers.b"]);
    assert!(!unknown.status.success() && said(&unknown).contains("there is no key `servers.b`"));
}

#[tokio::test]
async fn an_included_file_takes_effect_when_it_is_saved() {
    let one = Upstream::http(modern(&["t"])).await;
    let team = |servers: Value| json!({"servers": servers}).to_string();
    let gate = Gate::start(json!({"servers": {"a": one.config()}})).await;
    let file = gate.folder.path().join("teams/b.json");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, team(json!({"b": one.config()}))).unwrap();
    let own = json!({"include": "teams/*.json", "servers": {"a": one.config()}});
    gate.configure(own);
    let lists = async |tool: &str| gate.tools("/mcp").await.0.iter().any(|name| name == tool);
    until("b is listed", async || lists("b__t").await.then_some(())).await;
    // The file is saved with a mistake, corrected, and joined by another file.
    std::fs::write(&file, "{\"servers\": {\n\"b\": {\"comand\": \"x\"}}}").unwrap();
    let mistake = "b.json:2:7: servers.b.comand: there is no such key";
    until("the mistake is told", async || gate.log().contains(mistake).then_some(())).await;
    assert!(lists("b__t").await, "nothing is changed by a mistake");
    std::fs::write(&file, team(json!({"c": one.config()}))).unwrap();
    until("c is listed", async || lists("c__t").await.then_some(())).await;
    assert!(!lists("b__t").await);
    std::fs::write(file.with_file_name("d.json"), team(json!({"d": one.config()}))).unwrap();
    until("d is listed", async || lists("d__t").await.then_some(())).await;
    std::fs::write(file.with_file_name("e.json"), team(json!({"d": {"command": "x"}}))).unwrap();
    let mistake = "another server with this name is defined at";
    until("the conflict is told", async || gate.log().contains(mistake).then_some(())).await;
    assert!(lists("d__t").await && lists("a__t").await);
}

#[test]
fn a_first_file_is_written_once_and_passes_its_check() {
    let folder = tempfile::tempdir().unwrap();
    let first = done(&run(folder.path(), &["init"]));
    assert!(first.starts_with("wrote lockgate.yaml, with the example server"), "{first}");
    assert!(done(&run(folder.path(), &["check"])).contains("ok: 0 servers"));
    assert!(done(&run(folder.path(), &["tools"])).contains("example__echo"));
    let again = run(folder.path(), &["init"]);
    assert!(!again.status.success() && said(&again).contains("nothing was written"));
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("lockgate.toml"), "").unwrap();
    let beside = run(other.path(), &["init"]);
    assert!(!beside.status.success() && said(&beside).contains("lockgate.toml already exists"));
    let named = done(&run(other.path(), &["init", "--config", "team.yaml"]));
    assert!(named.contains("lockgate check --config team.yaml"), "{named}");
    assert!(done(&run(other.path(), &["check", "--config", "team.yaml"])).contains("ok: "));
}

#[test]
fn a_first_file_takes_over_the_servers_of_a_client() {
    let folder = tempfile::tempdir().unwrap();
    for (client, name) in [
        ("claude", ".config/Claude/claude_desktop_config.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".vscode/mcp.json"),
    ] {
        let missing = run(folder.path(), &["init", "--from", client]);
        assert!(!missing.status.success() && said(&missing).contains(name), "{}", said(&missing));
        assert!(!folder.path().join("lockgate.yaml").exists());
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let key = if client == "vscode" { "servers" } else { "mcpServers" };
        let server = json!({"command": "npx", "args": ["-y", "x"], "env": {
            "TOKEN": "canary-token", "OTHER_KEY": "canary-key",
        }});
        std::fs::write(&file, json!({key: {client: server}}).to_string()).unwrap();
        let made = done(&run(folder.path(), &["init", "--from", client]));
        // TOKEN is already set.
        assert!(made.contains("OTHER_KEY  for") && !made.contains("TOKEN  for"), "{made}");
        assert!(made.contains(&format!("currently at {name}:1")), "{made}");
        let written = std::fs::read_to_string(folder.path().join("lockgate.yaml")).unwrap();
        assert!(!(made + &written).contains("canary"), "{written}");
        let checked = command()
            .arg("check")
            .current_dir(folder.path())
            .envs([("TOKEN", "t"), ("OTHER_KEY", "k")])
            .output()
            .unwrap();
        let told = done(&checked);
        assert!(told.contains("ok: 1 server") && !told.contains("1 servers"), "{}", said(&checked));
        let json = run(folder.path(), &["init", "--config", "b.yaml", "--from", name, "--json"]);
        let told: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(told["servers"], json!([client]), "{told}");
        assert_eq!(told["variables"][1]["name"], "TOKEN", "{told}");
        std::fs::remove_file(folder.path().join("lockgate.yaml")).unwrap();
        std::fs::remove_file(folder.path().join("b.yaml")).unwrap();
    }
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let text = done(&run(folder.path(), &["completions", shell]));
        assert!(text.contains("stdio") && text.contains("mcp-servers"), "{shell}: {text}");
    }
    let list = done(&run(folder.path(), &["man", "--list"]));
    let commands: Vec<&str> = list.strip_suffix('\n').unwrap().split('\n').collect();
    assert!(commands.len() > 25 && commands[0].is_empty(), "{commands:?}");
    assert!(commands.contains(&"keys create") && !commands.contains(&"man"), "{commands:?}");
    for line in commands {
        let words: Vec<&str> = ["man"].into_iter().chain(line.split_whitespace()).collect();
        let page = done(&run(folder.path(), &words));
        let name = line.split_whitespace().fold("lockgate".to_owned(), |all, w| all + "-" + w);
        assert!(page.contains(&format!(".TH {name} 1")), "{name}: {page}");
        assert!(page.contains("\n.SH SYNOPSIS"), "{page}");
    }
    assert!(!run(folder.path(), &["man", "nothing"]).status.success());
}

/// A missing server is reported with the reason, and a hung server does not delay the others.
#[test]
fn the_command_line_names_the_servers_that_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lockgate.json");
    let good = crate::rig::fixture(&[]);
    let servers = json!({
        "good": good,
        "gone": {"command": "/nowhere/at/all"},
        "hangs": {"command": "sleep", "args": ["600"], "start_timeout": 120},
    });
    std::fs::write(&file, json!({"servers": servers}).to_string()).unwrap();
    let began = std::time::Instant::now();
    let tools = run(folder.path(), &["tools", "--wait", "3"]);
    assert!(tools.status.success(), "{}", said(&tools));
    let (listed, told) =
        (String::from_utf8_lossy(&tools.stdout), String::from_utf8_lossy(&tools.stderr));
    assert!(
        listed.contains("good__test_simple_text") && !listed.contains("is missing"),
        "{listed}"
    );
    assert!(told.contains("server gone is missing (failed): ") && told.contains("/nowhere/at/all"));
    assert!(told.contains("server hangs is missing (pending): it is still starting"), "{told}");
    let servers = run(folder.path(), &["servers", "--wait", "3"]);
    assert_eq!(servers.status.code(), Some(1), "{}", said(&servers));
    assert!(said(&servers).contains("hangs: it is still starting; --wait"), "{}", said(&servers));
    let call = run(folder.path(), &["call", "gone__x", "--wait", "3"]);
    assert!(!call.status.success() && said(&call).contains("server gone is missing"));
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    std::fs::write(&file, json!({"servers": {"good": good}}).to_string()).unwrap();
    done(&run(folder.path(), &["servers"]));
}

/// Invalid JSON is reported as such, and a port in use comes with a suggestion.
#[test]
fn mistakes_name_their_cause() {
    let folder = tempfile::tempdir().unwrap();
    let check = command()
        .args(["check"])
        .env("LOCKGATE_SERVERS__A__ARGS", "[\"a\", ")
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(said(&check).contains("servers.a.args: is not valid JSON"), "{}", said(&check));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let serve = run(folder.path(), &["serve", "--listen", &address]);
    assert!(said(&serve).contains("choose another with --listen"), "{}", said(&serve));
    let text = "listen: 0.0.0.0:3001\nauth: { key: \"${TOKEN}-long-enough-to-be-a-key-of-this\" }\n\
        http: { hosts: [a.example], tls: { cert: \"${TLS_CERT}\", key: k.pem } }\n";
    std::fs::write(folder.path().join("lockgate.yaml"), text).unwrap();
    let check = said(&run(folder.path(), &["check"]));
    assert!(check.contains("TLS_CERT") && !check.contains("unencrypted"), "{check}");
}

/// A gateway without a configuration file, and the address that it reports.
struct Trial(std::process::Child, String);

impl Trial {
    async fn start(home: &Path, folder: &Path) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let log = folder.join("log");
        let mut command = command();
        command.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(folder).env("HOME", home);
        command.env_remove("XDG_DATA_HOME").stderr(std::fs::File::create(&log).unwrap());
        let child = command.spawn().unwrap();
        let text = until("it listens", async || {
            std::fs::read_to_string(&log).ok().filter(|text| text.contains("listens on"))
        })
        .await;
        let url = text.split("listens on ").nth(1).unwrap().split_whitespace().next().unwrap();
        Self(child, url.to_owned())
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_gateway_without_a_file_says_which_store_it_opened_and_what_is_in_it() {
    let home = tempfile::tempdir().unwrap();
    let (first, second) = (home.path().join("first"), home.path().join("second"));
    let store = home.path().join(".local/share/lockgate/lockgate.db");
    let line = |count: usize| format!("integrations={count} store={}", store.display());
    let trial = Trial::start(home.path(), &first).await;
    let log = std::fs::read_to_string(first.join("log")).unwrap();
    assert!(log.contains("the store is open") && log.contains(&line(0)), "{log}");
    let add = ["servers", "add", "Docs", "http://127.0.0.1:9/mcp", "--url", &trial.1];
    done(&run(home.path(), &add));
    drop(trial);
    let _trial = Trial::start(home.path(), &second).await;
    let log = std::fs::read_to_string(second.join("log")).unwrap();
    assert!(log.contains(&line(1)), "{log}");
}
