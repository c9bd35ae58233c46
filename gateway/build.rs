//! Lets the linker store equal functions once, and place those of a forwarded call next to each
//! other (`gateway/order.txt`): they are a hundredth of the program, and would otherwise be spread
//! over all of it. Names that the program does not have are ignored, so that another compiler only
//! loses the order. `lockgate-load order` writes the file.

#![expect(
    clippy::disallowed_methods,
    reason = "cargo passes its settings to build scripts in the environment"
)]

use std::env;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo:rerun-if-changed=gateway/order.txt");
    println!("cargo:rerun-if-env-changed=CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER");
    if setting("TARGET") != "x86_64-unknown-linux-gnu" || setting("PROFILE") != "release" {
        return;
    }
    let order = Path::new(&setting("CARGO_MANIFEST_DIR")).join("gateway/order.txt");
    let arguments = [
        "-Wl,--icf=all".to_owned(),
        format!("-Wl,--symbol-ordering-file={}", order.display()),
        "-Wl,--no-warn-symbol-ordering".to_owned(),
    ];
    // LLD knows the options, which is the default, and other linkers do not.
    if links(&arguments) {
        for argument in arguments {
            println!("cargo:rustc-link-arg-bins={argument}");
        }
    }
}

/// Returns a variable that cargo sets for build scripts, or an empty text.
fn setting(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// Returns whether an empty program can be linked with these arguments.
fn links(arguments: &[String]) -> bool {
    let mut command = Command::new(setting("RUSTC"));
    command
        .args(["-", "--crate-name", "linked", "--crate-type", "bin", "--out-dir"])
        .arg(setting("OUT_DIR"));
    let linker = setting("RUSTC_LINKER");
    if !linker.is_empty() {
        command.arg("-C").arg(format!("linker={linker}"));
    }
    let flags = setting("CARGO_ENCODED_RUSTFLAGS");
    command.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    for argument in arguments {
        command.arg("-C").arg(format!("link-arg={argument}"));
    }
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.is_ok_and(|mut child| {
        let written =
            child.stdin.take().is_some_and(|mut input| input.write_all(b"fn main() {}").is_ok());
        written && child.wait().is_ok_and(|status| status.success())
    })
}
