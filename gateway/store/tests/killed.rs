//! Tests of SIGKILL during changes: each change is complete or absent, and all acknowledged changes
//! are present.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::{agent, integration};
use crate::{Store, StorePlace};

const FOLDER: &str = "STORE_TEST_FOLDER";
const NAME: &str = "tests::killed::a_killed_program_leaves_changes_whole";

#[tokio::test]
async fn a_killed_program_leaves_changes_whole() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        write_for_ever(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut said = 0;
    for round in 1..=3 {
        said = kill_after(folder.path(), said + round * 5);
    }
    let store = Store::new(StorePlace::File(folder.path().join("lockgate.db")));
    let found = store.load_changed(0).await.unwrap().remove(0);
    assert!(found.integrations.len() >= said, "{} of {said}", found.integrations.len());
    assert_eq!(found.integrations.len(), found.agents.len());
    assert_eq!(found.integrations.len(), found.assignments.len());
    assert_eq!(usize::try_from(found.revision).unwrap(), found.integrations.len());
}

/// Starts a writer, and kills it after this many changes. Returns the number it has reported.
fn kill_after(folder: &Path, changes: usize) -> usize {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = 0;
    for line in BufReader::new(writer.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(number) = line.rsplit("made ").next().and_then(|number| number.parse().ok()) {
            said = number;
        }
        if said >= changes {
            break;
        }
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert!(said >= changes, "the writer ended by itself");
    said
}

/// Makes changes of three rows each until the process is killed.
async fn write_for_ever(folder: &Path) {
    let store = Store::new(StorePlace::File(folder.join("lockgate.db")));
    let there = store.load_changed(0).await.unwrap().pop().unwrap_or_default();
    for number in there.integrations.len() + 1.. {
        let wanted = integration("acme", &format!("s{number}"));
        let own = agent("acme", &format!("a{number}"));
        let mut change = store.begin("acme").await.unwrap();
        change.insert_integration(&wanted).await.unwrap();
        change.insert_agent(&own).await.unwrap();
        change.assign(&own.id, &wanted.id).await.unwrap();
        change.commit().await.unwrap();
        let mut out = std::io::stdout();
        writeln!(out, "made {number}").unwrap();
        out.flush().unwrap();
    }
}
