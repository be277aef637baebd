"""The pinned tools, and the functions that they build."""

import os
import platform
import re
import shutil
import sys
import zipfile

from common import BIN, FUNCTIONS, HOME, ROOT, VENV, Failure, digest_of, say, shown, step

REQUIREMENTS = ROOT / "infra" / "requirements.txt"
ZIPS = ROOT / "target" / "lambda"

# Emulators run functions on this machine's own processor.
IS_ARM = platform.machine() in ("aarch64", "arm64")
ARCHITECTURE = "arm64" if IS_ARM else "x86_64"

# Amazon Linux 2023, which provided.al2023 is made of, has glibc 2.34: the linker is told not to ask for more.
GLIBC_MAX = (2, 34)
TRIPLE = f"{'aarch64' if IS_ARM else 'x86_64'}-unknown-linux-gnu"
TARGET = f"{TRIPLE}.2.34"

# The operators' command line, built in the same run as the functions: no dependency is compiled twice.
OPS = ROOT / "target" / TRIPLE / "release" / "ops"


def use_venv():
    """Installs the pinned tools once, and goes on in their Python."""
    stamp = VENV / ".installed"
    wanted = digest_of([REQUIREMENTS], sys.version_info[:2])
    if not stamp.exists() or stamp.read_text() != wanted:
        HOME.mkdir(parents=True, exist_ok=True)
        if not (BIN / "python").exists():
            step("making .stack/venv", [sys.executable, "-m", "venv", VENV], "venv.log")
        pip = [BIN / "python", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        step("installing the pinned tools", [*pip, "-r", REQUIREMENTS], "install.log")
        stamp.write_text(wanted)
    if os.path.realpath(sys.prefix) != os.path.realpath(VENV):
        os.execv(BIN / "python", [str(BIN / "python"), *sys.argv])


def sources():
    """What the binaries are made of."""
    files = [ROOT / name for name in ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml")]
    for folder in ("shared", "functions", "tools/ops"):
        files += [path for path in (ROOT / folder).rglob("*") if path.suffix in (".rs", ".toml")]
    return files


def build():
    """Builds every function and `ops`, unless nothing changed; gives the hash of what they were built from."""
    wanted = digest_of(sources(), TARGET)
    stamp = HOME / "built"
    zips = [ZIPS / name / "bootstrap.zip" for name in FUNCTIONS]
    if stamp.exists() and stamp.read_text() == wanted and all(path.exists() for path in [*zips, OPS]):
        say("· functions: built already")
        return wanted
    if shutil.which("cargo") is None:
        raise Failure("cargo is missing: install Rust from https://rustup.rs")
    say("· building ten functions and ops; the first time takes a quarter of an hour on two cores")
    packages = [part for name in (*FUNCTIONS, "ops") for part in ("--package", name)]
    # Without the variable, aws-lc gathers 30 to 45 ms of its own entropy at every cold start, beside the kernel's.
    environment = {"AWS_LC_SYS_NO_JITTER_ENTROPY": "1", "PATH": f"{BIN}:{os.environ['PATH']}"}
    step("building the functions", [
        BIN / "cargo-lambda", "lambda", "build", "--release", "--locked", "--output-format", "zip",
        "--target", TARGET, "--lambda-dir", ZIPS, *packages], "build.log", environment)
    for path in zips:
        check_binary(path)
    stamp.write_text(wanted)
    return wanted


def check_binary(path):
    """A binary that needs a newer glibc would not start on Lambda."""
    with zipfile.ZipFile(path) as archive:
        binary = archive.read("bootstrap")
    versions = {tuple(map(int, found.split(b"."))) for found in re.findall(rb"GLIBC_(\d+\.\d+)\0", binary)}
    if max(versions, default=(0,)) > GLIBC_MAX:
        raise Failure(f"{shown(path)} needs glibc {'.'.join(map(str, max(versions)))}; Lambda has 2.34")

