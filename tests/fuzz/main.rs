//! `fuzz-seeds FOLDER` writes the inputs that fuzzing begins with, into a folder for each target.

fn main() {
    match std::env::args_os().nth(1) {
        Some(folder) => lockgate_tests_fuzz::seeds::write(folder.as_ref()),
        None => std::process::exit(2),
    }
}
