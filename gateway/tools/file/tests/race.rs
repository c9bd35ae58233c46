//! Names that change during use: folders and files of the root are swapped with links to the
//! outside as fast as possible, while every tool accesses them. `FILE_RACE_SECONDS` is the
//! duration, 1 by default.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::*;

/// Swaps two names atomically until stopped.
fn swap(a: &Path, b: &Path, stop: &AtomicBool, swaps: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        if renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).is_ok() {
            swaps.fetch_add(1, Ordering::Relaxed);
        } else {
            std::thread::yield_now();
        }
    }
}

/// Recreates what tools have moved or deleted. Files are only created, never opened: a folder
/// replaced by a link must not lead this writer to a file outside.
fn repair(yard: &Yard) {
    for folder in ["data/dir/deep", "data/nest/dir"] {
        let _ = std::fs::create_dir_all(yard.path(folder));
    }
    for file in [
        "data/dir/secret.txt",
        "data/dir/deep/secret.txt",
        "data/nest/dir/secret.txt",
        "data/file.txt",
    ] {
        if let Ok(mut made) = std::fs::File::create_new(yard.path(file)) {
            let _ = made.write_all(b"inside");
        }
    }
    for (to, at) in [
        ("../outside", "data/dir-link"),
        ("../../outside", "data/nest/link"),
        ("../secret.txt", "data/file-link"),
    ] {
        let _ = std::os::unix::fs::symlink(to, yard.path(at));
    }
}

async fn work(yard: &Yard, until: Instant, seed: usize) -> u64 {
    let paths = [
        "dir",
        "dir/secret.txt",
        "dir/deep",
        "dir/deep/secret.txt",
        "nest/dir/secret.txt",
        "nest/dir",
        "file.txt",
        "dir/new.txt",
    ];
    let mut calls = 0;
    let mut at = seed;
    while Instant::now() < until {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let path = paths[(at >> 33) % paths.len()];
        let (tool, arguments) = match (at >> 45) % 16 {
            0..5 => ("read", json!({"path": path})),
            5..8 => ("write", json!({"path": path, "content": "from a tool"})),
            8 => ("write", json!({"path": path, "content": "+", "mode": "append"})),
            9 | 10 => ("list", json!({"path": path, "recursive": true})),
            11 => ("search", json!({"path": path, "text": "4711"})),
            12 => ("stat", json!({"path": path})),
            13 => ("move", json!({"from": path, "to": "moved", "overwrite": true})),
            14 => ("move", json!({"from": "moved", "to": path, "overwrite": true})),
            _ => ("delete", json!({"path": path, "recursive": (at >> 50).is_multiple_of(2)})),
        };
        if let Ok(answer) = yard.call(tool, arguments.clone()).await {
            let told = answer.to_string();
            assert!(!told.contains(CANARY), "{tool} {arguments} gave {told}");
            // Only the outside has a file of this name two levels down.
            assert!(!told.contains("only-outside"), "{tool} {arguments} listed {told}");
        }
        calls += 1;
        if calls % 64 == 0 {
            repair(yard);
        }
    }
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn names_that_are_swapped_with_links_lead_nowhere() {
    let seconds = std::env::var("FILE_RACE_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let yard = Arc::new(Yard::new());
    std::fs::write(yard.path("outside/only-outside"), CANARY).unwrap();
    repair(&yard);
    let before = yard.protected();
    let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let pairs = [("dir", "dir-link"), ("nest/dir", "nest/link"), ("file.txt", "file-link")];
    let swappers: Vec<_> = pairs
        .map(|(a, b)| {
            let (a, b) = (yard.path(&format!("data/{a}")), yard.path(&format!("data/{b}")));
            let (stop, swaps) = (Arc::clone(&stop), Arc::clone(&swaps));
            std::thread::spawn(move || swap(&a, &b, &stop, &swaps))
        })
        .into();
    let until = Instant::now() + Duration::from_secs(seconds);
    let workers: Vec<_> = (1..=4)
        .map(|seed| {
            let yard = Arc::clone(&yard);
            tokio::spawn(async move { work(&yard, until, seed).await })
        })
        .collect();
    let mut calls = 0;
    for worker in workers {
        calls += worker.await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    swappers.into_iter().for_each(|swapper| swapper.join().unwrap());
    assert_eq!(yard.protected(), before);
    let swaps = swaps.load(Ordering::Relaxed);
    eprintln!(
        "{calls} calls during {swaps} swaps in {seconds} s: nothing outside was read or changed"
    );
    assert!(calls > 20 && swaps > 20, "{calls} calls, {swaps} swaps");
}
