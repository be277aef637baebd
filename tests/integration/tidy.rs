//! The rules of the repository that the compiler does not check: see docs/ARCHITECTURE.md.

use std::{
    fs,
    path::{Path, PathBuf},
};

const LINES_MAX: usize = 400;
const MAIN_LINES_MAX: usize = 40;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A source file: its path from the root, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The lines that are compiled into a function: code, before the file's tests. With their numbers.
    fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        let product = lines.take_while(|(_, line)| !line.starts_with("#[cfg(test)]"));
        product
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .map(|(index, line)| (index.saturating_add(1), line))
    }

    /// The places where a line of the product satisfies `is_wrong`.
    fn places<'a>(&'a self, is_wrong: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = String> + 'a {
        let wrong = self.product_lines().filter(move |(_, line)| is_wrong(line));
        wrong.map(|(number, line)| format!("{}:{number}: {}", self.path, line.trim()))
    }

    fn is_in(&self, prefixes: &[&str]) -> bool {
        prefixes.iter().any(|prefix| self.path.starts_with(prefix))
    }
}

/// All files under `directory` with the extension, but for what builds make.
fn files(directory: &Path, extension: &str, found: &mut Vec<Source>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" && name != "node_modules" {
                files(&path, extension, found);
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            let relative = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
            found.push(Source { path: relative, text: fs::read_to_string(&path).unwrap() });
        }
    }
}

fn sources(directories: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    for directory in directories {
        let path = root().join(directory);
        if path.exists() {
            files(&path, "rs", &mut found);
        }
    }
    assert!(!found.is_empty());
    found
}

/// What is compiled into functions.
fn product() -> Vec<Source> {
    sources(&["shared/src", "functions"])
}

fn everything() -> Vec<Source> {
    sources(&["shared", "functions", "tests", "tools", "client"])
}

fn manifests() -> Vec<Source> {
    let mut found = Vec::new();
    files(&root(), "toml", &mut found);
    found.retain(|file| file.path.ends_with("/Cargo.toml"));
    assert!(found.len() > 10);
    found
}

fn assert_none(rule: &str, places: impl IntoIterator<Item = String>) {
    let places: Vec<String> = places.into_iter().collect();
    assert!(places.is_empty(), "{rule}:\n{}", places.join("\n"));
}

/// Asserts that no line of `files` has one of `words`.
fn assert_without(rule: &str, files: &[Source], words: &[&str]) {
    let has = |line: &str| words.iter().any(|word| line.contains(word));
    assert_none(rule, files.iter().flat_map(|file| file.places(has)));
}

#[test]
fn the_environment_is_read_in_config_alone() {
    let mut files = product();
    files.retain(|file| file.path != "shared/src/config.rs");
    assert_without("config.rs alone reads the environment", &files, &["std::env", "env::var", "env!(", "FURIKOMI_"]);
}

/// The texts of the constants in a schema's source: attribute names, prefixes and words of keys.
fn names_in(schema: &str) -> Vec<String> {
    let constants = schema.lines().filter(|line| line.contains("const ") && line.contains('"'));
    constants.flat_map(|line| line.split('"').skip(1).step_by(2).map(str::to_owned)).collect()
}

#[test]
fn keys_and_attributes_are_named_in_the_schema_alone() {
    let schema = fs::read_to_string(root().join("shared/src/store/schema.rs")).unwrap();
    let product_part = schema.split("#[cfg(test)]").next().unwrap();
    let mut names = names_in(product_part);
    assert!(names.len() > 60 && names.contains(&"instruction_state".to_owned()), "{names:?}");
    // One word alone is too common to tell an attribute by.
    names.retain(|name| name.contains(['_', '#']) && !SHARED_WITH_JSON.contains(&name.as_str()));
    let mut files = product();
    files.retain(|file| file.path != "shared/src/store/schema.rs");
    let quoted: Vec<String> =
        names.iter().map(|name| format!("\"{name}{}", if name.ends_with('#') { "" } else { "\"" })).collect();
    let quoted: Vec<&str> = quoted.iter().map(String::as_str).collect();
    assert_without("schema.rs alone names keys and attributes", &files, &quoted);
    // In the store, where nothing is JSON, neither bare in an expression.
    files.retain(|file| file.is_in(&["shared/src/store/"]));
    let in_expression =
        |line: &str| line.contains('"') && names.iter().any(|name| name.contains('_') && expression_names(line, name));
    assert_none("expressions name no attribute", files.iter().flat_map(|file| file.places(in_expression)));
}

/// Whether a quoted part of `line` has `name` as a word of its own.
fn expression_names(line: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let bare = |text: &str| text.split(|c: char| !is_part(c) && c != ':' && c != '{').any(|word| word == name);
    line.split('"').skip(1).step_by(2).any(bare)
}

/// Attribute names that the API's JSON has too.
const SHARED_WITH_JSON: [&str; 19] = [
    "source_account_id",
    "destination_account_id",
    "destination_name",
    "amount_minor",
    "requester_name",
    "content_hash",
    "created_at",
    "expires_at",
    "posted_at",
    "balance_minor",
    "holder_name",
    "daily_amount_limit_minor",
    "daily_count_limit",
    "per_transfer_limit_minor",
    "transfer_id",
    "request_id",
    "counterparty_name",
    "recipient_id",
    "failure_code",
];

#[test]
fn http_statuses_of_errors_are_in_problem_alone() {
    let mut files = product();
    files.retain(|file| !file.is_in(&["shared/src/problem/", "shared/src/problem.rs"]));
    // What succeeds has its status where it is answered.
    let success = ["OK", "CREATED", "ACCEPTED"];
    let is_error = |line: &str| {
        line.split("StatusCode::").skip(1).any(|rest| {
            let name: String = rest.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
            rest.starts_with("from_") || !name.is_empty() && !success.contains(&name.as_str())
        }) || line.contains(".status(4")
            || line.contains(".status(5")
    };
    assert_none("problem.rs alone gives errors a status", files.iter().flat_map(|file| file.places(is_error)));
}

/// The names of a manifest's dependencies, development's included.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_dependencies = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            in_dependencies = line.trim_end_matches(']').ends_with("dependencies");
        } else if in_dependencies && line.contains('=') {
            found.push(line.split(['.', '=', ' ']).next().unwrap().to_owned());
        }
    }
    found
}

#[test]
fn functions_never_depend_on_each_other() {
    let functions: Vec<Source> = manifests().into_iter().filter(|file| file.is_in(&["functions/"])).collect();
    let names: Vec<String> = functions.iter().map(|file| file.path.split('/').nth(1).unwrap().to_owned()).collect();
    assert_eq!(names.len(), 10);
    for function in &functions {
        let wanted = dependencies(&function.text);
        assert!(wanted.contains(&"shared".to_owned()), "{}", function.path);
        assert!(!wanted.iter().any(|name| names.contains(name)), "{} depends on {wanted:?}", function.path);
    }
    let shared = fs::read_to_string(root().join("shared/Cargo.toml")).unwrap();
    assert!(!dependencies(&shared).iter().any(|name| names.contains(name)));
}

#[test]
fn versions_are_in_the_workspace_alone() {
    let versioned = |file: &Source| -> Vec<String> {
        let mut in_dependencies = false;
        let mut found = Vec::new();
        for line in file.text.lines() {
            if line.starts_with('[') {
                in_dependencies = line.trim_end_matches(']').ends_with("dependencies");
            } else if in_dependencies && line.contains('=') && !line.contains("workspace = true") {
                found.push(format!("{}: {line}", file.path));
            }
        }
        found
    };
    assert_none("the workspace's manifest alone has versions", manifests().iter().flat_map(versioned));
}

#[test]
fn the_domain_is_pure() {
    let files = sources(&["shared/src/domain"]);
    let foreign = [
        "aws_sdk",
        "aws_config",
        "aws_lambda",
        "lambda_http",
        "lambda_runtime",
        "std::env",
        "SystemTime",
        "Timestamp::now",
        "Zoned::now",
        "Instant::now",
        "tokio",
        "reqwest",
        "crate::store",
        "crate::app",
        "crate::http",
        "crate::problem",
        "crate::config",
        "crate::random",
        "SystemRandom",
        "async fn",
        "serde::",
    ];
    assert_without("the domain names no machinery", &files, &foreign);
}

#[test]
fn the_store_knows_nothing_of_what_is_above_it() {
    let above = ["crate::app", "crate::http", "crate::problem", "crate::auth", "crate::batch", "lambda_http"];
    assert_without("the store is below", &sources(&["shared/src/store"]), &above);
}

#[test]
fn no_file_is_long() {
    let long = |file: &&Source| {
        let is_main = file.is_in(&["functions/"]) && file.path.ends_with("/main.rs");
        file.text.lines().count() > if is_main { MAIN_LINES_MAX } else { LINES_MAX }
    };
    let found = everything();
    assert_none("files are short", found.iter().filter(long).map(|file| file.path.clone()));
}

#[test]
fn nothing_of_the_product_panics_without_a_reason() {
    for file in product() {
        let lines: Vec<&str> = file.text.lines().collect();
        let excused = |number: usize| {
            let before = number.saturating_sub(4)..number.saturating_sub(1);
            lines[before].iter().any(|line| line.contains("#[expect(clippy::"))
        };
        let panics =
            |line: &str| [".unwrap()", ".expect(", "panic!(", "unreachable!("].iter().any(|p| line.contains(p));
        let found = file.product_lines().filter(|(number, line)| panics(line) && !excused(*number));
        assert_none("no panic without a reason", found.map(|(number, line)| format!("{}:{number}: {line}", file.path)));
    }
}

#[test]
fn nothing_is_left_to_do_or_skipped() {
    let words = [["to", "do!("].concat(), ["unimple", "mented!("].concat(), ["#[ig", "nore"].concat()];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_without("everything is done and every test runs", &everything(), &words);
}
