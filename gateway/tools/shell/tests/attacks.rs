//! The corpora through the real tool, with and without Landlock: no attack has an effect, and the
//! benign commands run.

use super::*;

const ATTACKS: &str = include_str!("../../../../tests/corpora/command/attack.txt");
const BENIGN: &str = include_str!("../../../../tests/corpora/command/benign.txt");

fn lines(corpus: &str) -> impl Iterator<Item = &str> {
    corpus
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# ") && !line.starts_with("## "))
}

/// Returns the arguments of the call in a corpus line.
fn call(line: &str) -> Value {
    if let Ok(argv) = serde_json::from_str::<Vec<String>>(line) {
        return json!({ "argv": argv });
    }
    json!({"command": serde_json::from_str::<String>(line).unwrap_or_else(|_| line.to_owned())})
}

async fn no_attack_has_an_effect(landlock: Landlock) {
    let place = TestFolder::new();
    repositories::plain(&place);
    let rig = rig(place.config(landlock));
    let mut ran = Vec::new();
    for line in lines(ATTACKS) {
        if let Ok(result) = rig.call("shell/execute", call(line)).await {
            assert!(!result.to_string().contains(SECRET), "{line}: {result}");
            ran.push(line);
        }
        place.assert_untouched();
    }
    assert!(ran.is_empty(), "not refused: {ran:?}");
    place.assert_quiet().await;
}

#[tokio::test]
async fn no_attack_has_an_effect_with_landlock() {
    no_attack_has_an_effect(Landlock::Required).await;
}

#[tokio::test]
async fn no_attack_has_an_effect_without_landlock() {
    no_attack_has_an_effect(Landlock::Off).await;
}

#[tokio::test]
async fn what_people_mean_runs() {
    let place = TestFolder::new();
    repositories::plain(&place);
    let rig = rig(place.config(Landlock::Required));
    let mut refused = Vec::new();
    let mut ran = 0;
    for line in lines(BENIGN) {
        match rig.call("shell/execute", call(line)).await {
            Ok(result) => {
                ran += 1;
                let words = result["stderr"].as_str().unwrap();
                for sign in [
                    "ermission denied",
                    "not permitted",
                    "cannot fork",
                    "unknown option",
                    "nrecognized",
                    "usage:",
                    "invalid option",
                ] {
                    assert!(!words.contains(sign), "{line}: {words}");
                }
            }
            Err(words) if words.contains("not installed") => {}
            Err(words) => refused.push(format!("{line}: {words}")),
        }
    }
    assert!(refused.is_empty() && ran > 200, "{ran} ran, {refused:#?}");
    place.assert_untouched();
    place.assert_quiet().await;
}

/// Swaps a link during a run, so that the check and the program may see different targets.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_swapped_leads_nowhere() {
    let place = TestFolder::new();
    let root = place.root();
    let (inside, swap) = (root.join("inside"), root.join("swap"));
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(inside.join("secret.txt"), "harmless\n").unwrap();
    symlink("inside", &swap).unwrap();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let done = Arc::clone(&stop);
    let swapper = std::thread::spawn(move || {
        let spare = swap.with_extension("spare");
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            for target in ["../outside", "inside"] {
                symlink(target, &spare).unwrap();
                std::fs::rename(&spare, &swap).unwrap();
            }
        }
    });
    let rig = rig(place.config(Landlock::Required));
    let (mut refused, mut denied, mut read) = (0, 0, 0);
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        match run(&rig, "cat swap/secret.txt").await {
            Ok(result) => {
                assert!(!result.to_string().contains(SECRET), "{result}");
                if result["stdout"] == json!("harmless\n") { read += 1 } else { denied += 1 }
            }
            Err(_) => refused += 1,
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(
        refused > 0 && read > 0 && denied > 0,
        "refused {refused}, denied by the kernel {denied}, read {read}"
    );
}
