//! Where the server's things are: in memory, or in a file with its keys and its lock beside it.

use aws_lc_rs::{rand::SystemRandom, signature::ECDSA_P256_SHA256_FIXED_SIGNING, signature::EcdsaKeyPair};
use data_encoding::BASE64;
use dynoxide::Database;
use serde::{Deserialize, Serialize};
use shared::random;
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// What the data file's format is called in its keys' file; another version is refused, not guessed at.
const FORMAT: &str = "furikomi-local.v1";

/// Why the data cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataFault {
    /// Another process has it open.
    #[error("{0} is in use by another process")]
    InUse(String),
    /// The file is not a data file of furikomi's, or its keys are missing or damaged.
    #[error("{0} is not usable as a data file: {1}")]
    NotOurs(String, String),
    /// The file system refused.
    #[error("{0} cannot be used: {1}")]
    Io(String, #[source] io::Error),
}

/// The secrets that belong to the data: tokens and sealed TOTP secrets outlive a restart only with them.
pub(crate) struct Keys {
    /// The issuer's private key: PKCS #8, P-256.
    pub(crate) issuer_pkcs8: Vec<u8>,
    /// The AES-256 key of the TOTP secrets, in base 64 as the configuration takes it.
    pub(crate) cipher_key: String,
}

/// An open place of data.
pub(crate) struct Data {
    pub(crate) database: Database,
    pub(crate) keys: Keys,
    /// Held until the process ends, so that no second one writes to the same file.
    pub(crate) lock: Option<File>,
}

/// The keys as they are written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    format: String,
    issuer_pkcs8: String,
    cipher_key: String,
}

impl Data {
    /// Opens the data at `file`, or an empty place in memory.
    ///
    /// # Errors
    /// [`DataFault`].
    pub(crate) fn open(file: Option<&Path>) -> Result<Self, DataFault> {
        let Some(file) = file else {
            let database = Database::memory().map_err(|error| not_ours("the memory", &error.to_string()))?;
            return Ok(Self { database, keys: Keys::generate(), lock: None });
        };
        let name = file.display().to_string();
        // Looked at first, so that a slip of the hand leaves no files beside something else.
        check(file)?;
        let lock = lock(file)?;
        let keys = keys_of(file)?;
        let path = file.to_str().ok_or_else(|| not_ours(&name, "its path is not UTF-8"))?;
        let database = Database::new(path).map_err(|error| not_ours(&name, &one_line(&error.to_string())))?;
        Ok(Self { database, keys, lock: Some(lock) })
    }
}

impl Keys {
    fn generate() -> Self {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Self {
            issuer_pkcs8: pkcs8.map(|document| document.as_ref().to_vec()).unwrap_or_default(),
            cipher_key: BASE64.encode(&random::bytes::<32>()),
        }
    }
}

/// Takes the lock beside the file. It is the operating system's, so that it ends with the process, however it ends.
fn lock(file: &Path) -> Result<File, DataFault> {
    let path = beside(file, ".lock");
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|error| DataFault::Io(file.display().to_string(), error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(DataFault::InUse(file.display().to_string())),
        Err(TryLockError::Error(error)) => Err(DataFault::Io(file.display().to_string(), error)),
    }
}

/// Whether the file can be ours: a file, and with keys beside it unless it is new.
fn check(file: &Path) -> Result<(), DataFault> {
    let (keys, name) = (beside(file, ".keys"), file.display().to_string());
    match fs::metadata(file) {
        Ok(found) if !found.is_file() => Err(not_ours(&name, "it is not a file")),
        // Keys are never made for data that has some: nothing sealed under the old ones could be opened again.
        Ok(found) if found.len() > 0 && !keys.exists() => {
            Err(not_ours(&name, &format!("it has no {} beside it", keys.display())))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(DataFault::Io(name, error)),
    }
}

/// The keys beside the file, or new ones if there are none.
fn keys_of(file: &Path) -> Result<Keys, DataFault> {
    let path = beside(file, ".keys");
    let io = |error| DataFault::Io(path.display().to_string(), error);
    match fs::read_to_string(&path) {
        Ok(text) => read_keys(&text)
            .ok_or_else(|| not_ours(&file.display().to_string(), &format!("{} is damaged", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            check(file)?;
            let keys = Keys::generate();
            write_keys(&path, &keys).map_err(io)?;
            Ok(keys)
        }
        Err(error) => Err(io(error)),
    }
}

fn read_keys(text: &str) -> Option<Keys> {
    let read: KeyFile = serde_json::from_str(text).ok()?;
    let issuer_pkcs8 = BASE64.decode(read.issuer_pkcs8.as_bytes()).ok()?;
    (read.format == FORMAT).then_some(Keys { issuer_pkcs8, cipher_key: read.cipher_key })
}

/// Written whole under another name first: a process that dies here leaves no half of a key behind.
fn write_keys(path: &Path, keys: &Keys) -> io::Result<()> {
    let text = serde_json::to_string_pretty(&KeyFile {
        format: FORMAT.to_owned(),
        issuer_pkcs8: BASE64.encode(&keys.issuer_pkcs8),
        cipher_key: keys.cipher_key.clone(),
    })?;
    let draft = beside(path, ".new");
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(suffix);
    PathBuf::from(name)
}

fn not_ours(name: &str, why: &str) -> DataFault {
    DataFault::NotOurs(name.to_owned(), why.to_owned())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
