"""What all parts of infra/stack share: places, steps with a log, and the one way to give up."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("FURIKOMI_STACK_HOME", ROOT / ".stack"))
LOG = HOME / "log"
VENV = HOME / "venv"
BIN = VENV / "bin"
STATE_FILE = HOME / "state.json"

STACK_NAME = "furikomi"
REGION = "ap-northeast-1"

FUNCTIONS = ("accounts", "authorize", "cancel", "confirm", "enroll", "notifier", "relay", "request", "status",
             "sweeper")


class Failure(Exception):
    """Something that the user has to know, in one line or a few."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def aws_environment(endpoint):
    """What the AWS tools need to talk to an emulator and to nothing else."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_PAGER": "",
    }


def step(title, command, log, extra_env=None):
    """Runs a command with its output in a log, says how long it takes, and shows the log's end if it fails."""
    LOG.mkdir(parents=True, exist_ok=True)
    path = LOG / log
    begun = time.monotonic()
    shows_progress = sys.stderr.isatty()
    with open(path, "w") as output:
        try:
            process = subprocess.Popen(
                [str(part) for part in command], cwd=ROOT, env={**os.environ, **(extra_env or {})},
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        except FileNotFoundError:
            raise Failure(f"{command[0]} is missing: it is needed for {title}") from None
        try:
            while process.poll() is None:
                if shows_progress:
                    print(f"\r· {title} … {time.monotonic() - begun:.0f} s ", end="", file=sys.stderr, flush=True)
                try:
                    process.wait(timeout=1)
                except subprocess.TimeoutExpired:
                    pass
        except BaseException:
            # Whatever interrupts this step, nothing that it started stays behind.
            end_group(process.pid)
            raise
    if shows_progress:
        print("\r\033[K", end="", file=sys.stderr)
    if process.returncode != 0:
        end = "\n".join("    " + line for line in path.read_text(errors="replace").splitlines()[-15:])
        raise Failure(f"{title} failed (exit code {process.returncode}); the end of {shown(path)}:\n{end}")
    say(f"· {title}: {time.monotonic() - begun:.1f} s")
    return path


def shown(path):
    try:
        return str(Path(path).relative_to(ROOT))
    except ValueError:
        return str(path)


def alive(pid):
    """Whether the process exists and is no zombie."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    except OSError:
        return True  # no /proc here; the signal found it


def end_group(pid, patience_s=10):
    """Ends a process that leads its own group, and everything in the group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(pid, number)
        except (ProcessLookupError, PermissionError):
            return
        deadline = time.monotonic() + patience_s
        while alive(pid) and time.monotonic() < deadline:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass
            time.sleep(0.1)


def read_state():
    try:
        return json.loads(STATE_FILE.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def write_state(state):
    HOME.mkdir(parents=True, exist_ok=True)
    STATE_FILE.write_text(json.dumps(state, indent=2) + "\n")


def digest_of(paths, *more):
    """A hash of files, by path and content, and of whatever else counts."""
    digest = hashlib.sha256()
    for path in sorted(set(paths)):
        digest.update(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for item in more:
        digest.update(f"\0{item}".encode())
    return digest.hexdigest()
