//! Tests of the CPU time of a child and its descendants, and of ending processes.

use super::*;

fn shell(script: &str, folder: &Path) -> anyhow::Result<Running> {
    Running::start("shell", Command::new("sh").args(["-c", script]), folder)
}

/// Polls a condition for at most ten seconds.
fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if holds() {
            return true;
        }
        sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn charges_the_work_of_grandchildren() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    // The inner loop is finite, in case the test is killed.
    let script = "sh -c 'i=0; while [ $i -lt 30000000 ]; do i=$((i+1)); done' & trap 'kill $!; exit' TERM; wait";
    let mut running = shell(script, folder.path())?;
    assert!(eventually(|| tree(running.child.id()).is_ok_and(|all| all.len() == 2)));
    let before = running.cpu()?;
    assert!(eventually(|| running.cpu().is_ok_and(|now| now.since(&before) > 20_000_000)));
    assert!(running.memory()?.rss > 0);
    running.stop(Duration::from_secs(5))?;
    Ok(())
}

#[test]
fn stops_by_request_and_reports_what_ended_early() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut running = shell("exec sleep 60", folder.path())?;
    assert!(ended_well(running.stop(Duration::from_secs(5))?));
    let mut failing = shell("echo the reason; exit 3", folder.path())?;
    assert!(eventually(|| failing.check().is_err()));
    let words = failing.check().err().map(|error| error.to_string()).unwrap_or_default();
    assert!(words.contains("the reason"), "{words}");
    Ok(())
}

#[test]
fn a_thread_that_ended_is_charged_by_ticks() {
    let cpu =
        |threads: &[(u32, u64)], ticks| Cpu { threads: threads.iter().copied().collect(), ticks };
    let early = cpu(&[(1, 100), (2, 100)], 5);
    assert_eq!(cpu(&[(1, 400), (2, 200), (3, 50)], 6).since(&early), 450);
    assert_eq!(cpu(&[(1, 400)], 8).since(&early), 3 * TICK);
}

#[test]
fn stat_fields_follow_a_name_with_spaces() {
    assert_eq!(fields("7 (a b) c) S 1 7").first(), Some(&"S"));
    assert!(fields("").is_empty());
}
