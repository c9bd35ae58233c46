//! `fuzz-seeds FOLDER`: writes the seed inputs, with a subfolder per target.

fn main() {
    match std::env::args_os().nth(1) {
        Some(folder) => lockgate_tests_fuzz::seeds::write(folder.as_ref()),
        None => std::process::exit(2),
    }
}
