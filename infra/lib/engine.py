"""The emulator: MiniStack as a process, LocalStack in Docker, or whatever answers at a given address."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from common import BIN, HOME, LOG, REGION, ROOT, Failure, alive, end_group, say, shown, step

COMPOSE = ["docker", "compose", "--project-name", "furikomi", "--file", ROOT / "localstack.yml"]
READY_S = 120


def get(url, timeout=5):
    """Status and body; status 0 where nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except (urllib.error.URLError, ConnectionError, TimeoutError, OSError):
        return 0, b""


def kind_of(endpoint):
    """Which engine answers there, or None."""
    if get(f"{endpoint}/_ministack/ready")[0] == 200:
        return "ministack"
    if get(f"{endpoint}/_localstack/health")[0] == 200:
        return "localstack"
    return None


def is_taken(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def use(endpoint):
    """An engine that is running already, and that `down` leaves running."""
    kind = kind_of(endpoint)
    if kind is None:
        raise Failure(f"no MiniStack or LocalStack answers at {endpoint}")
    return {"kind": kind, "endpoint": endpoint, "owned": False}


def start(kind, port, before):
    """Starts an engine of our own, unless the one that `before` tells of still runs."""
    endpoint = f"http://127.0.0.1:{port}"
    if before.get("owned") and before.get("kind") == kind and before.get("endpoint") == endpoint:
        if is_running(before) and kind_of(endpoint) == kind:
            say(f"· {kind} runs already at {endpoint}")
            return before
    if before.get("owned"):
        stop(before)
    if is_taken(port):
        raise Failure(f"port {port} is taken by something else; choose another with --port")
    return start_ministack(port, endpoint) if kind == "ministack" else start_localstack(port, endpoint)


def start_ministack(port, endpoint):
    """MiniStack checks every call against the caller's policies (AUTH), listens on the loopback interface alone, and
    hands its own environment on to functions: so it gets nothing of ours."""
    LOG.mkdir(parents=True, exist_ok=True)
    scratch = HOME / "tmp"
    shutil.rmtree(scratch, ignore_errors=True)  # the code of functions of earlier runs
    scratch.mkdir(parents=True)
    log = LOG / "ministack.log"
    environment = {
        "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin", "HOME": str(HOME), "TMPDIR": str(scratch), "LANG": "C.UTF-8",
        "BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "AUTH": "true",
        "MINISTACK_REGION": REGION, "AWS_DEFAULT_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true",
        "IOT_MTLS_ENABLED": "0", "SFTP_ENABLED": "0", "DOCKER_HOST": "unix:///nonexistent",
    }
    begun = time.monotonic()
    with open(log, "w") as output:
        process = subprocess.Popen(
            [BIN / "ministack"], cwd=scratch, env=environment, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    engine = {"kind": "ministack", "endpoint": endpoint, "owned": True, "pid": process.pid}
    try:
        while process.poll() is None and time.monotonic() - begun < READY_S:
            if kind_of(endpoint):
                say(f"· starting MiniStack: {time.monotonic() - begun:.1f} s")
                return engine
            time.sleep(0.2)
    except BaseException:
        end_group(process.pid)
        raise
    end_group(process.pid)
    raise Failure(f"MiniStack did not start; see {shown(log)}")


def start_localstack(port, endpoint):
    """LocalStack from its image."""
    environment = {"LOCALSTACK_PORT": str(port)}
    step("starting LocalStack", [*COMPOSE, "up", "--detach", "--wait"], "localstack.log", environment)
    return {"kind": "localstack", "endpoint": endpoint, "owned": True}


def check_docker():
    """Says what is missing before anything else is stopped for it."""
    if shutil.which("docker") is None:
        raise Failure("Docker is missing: --engine localstack needs it; --engine ministack does not")
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0:
        raise Failure("Docker does not answer: start it, or use --engine ministack, which needs none")
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0:
        raise Failure("Docker has no compose plugin: install docker-compose-plugin, or use --engine ministack")


def is_running(engine):
    """Whether the engine is there; for one of ours, whether its process is, and not another of the same number."""
    if "pid" in engine and not alive(engine["pid"]):
        return False
    return kind_of(engine["endpoint"]) == engine["kind"]


def is_ours(pid):
    """Whether the process is a MiniStack; where it cannot be told, it is believed."""
    try:
        return b"ministack" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return alive(pid)


def stop(engine):
    """Ends an engine of ours, with the functions that it runs."""
    if "pid" in engine:
        if is_ours(engine["pid"]):
            end_group(engine["pid"])
            say("· MiniStack is stopped")
    elif engine.get("owned"):
        port = engine["endpoint"].rsplit(":", 1)[1]
        step("stopping LocalStack", [*COMPOSE, "down", "--volumes"], "localstack.log", {"LOCALSTACK_PORT": port})


def answer_json(url):
    """A JSON answer, or None."""
    status, body = get(url)
    try:
        return json.loads(body) if status == 200 else None
    except json.JSONDecodeError:
        return None
