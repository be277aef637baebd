//! Finding the binaries of functions and tools.
//!
//! A test of one package cannot name the binaries of others, and `cargo test` does not build them by itself. So they are
//! built once per process, by the Cargo that built the caller, in the caller's profile; where they are up to date
//! already, that is over within a second. The selection names a test too: then Cargo unifies features as it does for
//! `cargo test --workspace`, and no dependency is built a second time.

use serde_json::Value;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Variables that Cargo sets for what it runs, and that would make a Cargo inside of it think that something changed.
const OF_CARGO: [&str; 4] = ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PRIMARY_PACKAGE", "LD_LIBRARY_PATH"];

/// Builds every binary of the workspace; their paths by their names.
///
/// # Errors
/// If Cargo cannot be run, or the build fails; then Cargo has said why on standard error.
pub fn build() -> io::Result<BTreeMap<String, PathBuf>> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--workspace", "--bins", "--test", "crash", "--message-format", "json-render-diagnostics"]);
    command.args(["--profile", profile(&std::env::current_exe()?)]).current_dir(env!("CARGO_MANIFEST_DIR"));
    for name in OF_CARGO {
        command.env_remove(name);
    }
    let built = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !built.status.success() {
        return Err(io::Error::other(format!("the workspace's binaries could not be built: {}", built.status)));
    }
    let messages = String::from_utf8_lossy(&built.stdout);
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(artifacts.filter_map(|artifact| binary(&artifact)).collect())
}

/// The name and path of a binary that Cargo tells of.
fn binary(artifact: &Value) -> Option<(String, PathBuf)> {
    let is_binary = artifact["target"]["kind"].as_array()?.iter().any(|kind| kind == "bin");
    let is_test = artifact["profile"]["test"] == true;
    let path = artifact["executable"].as_str().filter(|_| is_binary && !is_test)?;
    Some((artifact["target"]["name"].as_str()?.to_owned(), PathBuf::from(path)))
}

/// The profile of the program at `path`, by the folder that Cargo puts it into: `…/<profile>/deps/<program>`.
fn profile(path: &Path) -> &str {
    let folders = path.ancestors().skip(1).filter_map(|folder| folder.file_name()?.to_str());
    match folders.into_iter().find(|folder| *folder != "deps") {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    }
}

#[cfg(test)]
mod tests {
    use super::profile;
    use std::path::Path;

    #[test]
    fn a_program_lies_in_the_folder_of_its_profile() {
        for (path, expected) in [
            ("/t/debug/deps/crash-1", "dev"),
            ("/t/release/deps/crash-1", "release"),
            ("/t/x86_64-unknown-linux-gnu/quick/deps/crash-1", "quick"),
            ("/t/debug/bench", "dev"),
        ] {
            assert_eq!(profile(Path::new(path)), expected, "{path}");
        }
    }
}
