"""The commands of infra/stack."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import traceback

import deploy
import engine as engines
import people
from arrangement import arranged
from common import (FUNCTIONS, HOME, LOG, ROOT, STACK_NAME, STATE_FILE, Failure, aws_environment, read_state, say,
                    shown, write_state)
from tools import OPS, build, use_venv

EXAMPLES = """
examples:
  infra/stack up                                    MiniStack at port 4566, a pinned one, without Docker
  infra/stack up --engine localstack                LocalStack 4.14.0 in Docker
  infra/stack up --endpoint http://127.0.0.1:4577   an emulator that runs already, MiniStack or LocalStack
  curl -H "Authorization: Bearer $(infra/stack token aoi)" "$(infra/stack url)/v1/accounts"

Everything lives in .stack/ (or $FURIKOMI_STACK_HOME): tools, keys, logs. `up` is repeatable, and does what is missing.
"""


def arguments():
    parser = argparse.ArgumentParser(
        prog="infra/stack", description="furikomi's full stack on this machine.", epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start, deploy and seed what is not there yet")
    up.add_argument("--engine", choices=("ministack", "localstack"), default=None, help="what to start (ministack)")
    up.add_argument("--port", type=int, default=None, help="where (4566)")
    up.add_argument("--endpoint", help="use the engine that answers there, and start none")
    commands.add_parser("down", help="stop the engine; of one that others started, delete the stack")
    commands.add_parser("redeploy", help="build and deploy again, whether or not something changed")
    test = commands.add_parser("test", help="run the end-to-end tests against the stack")
    test.add_argument("rest", nargs=argparse.REMAINDER, help="arguments for the tests")
    token = commands.add_parser("token", help="print a token of the local issuer's, good for twelve hours")
    token.add_argument("user")
    token.add_argument("session", nargs="?", default="local-session")
    totp = commands.add_parser("totp", help="print a code that was not given out yet; may wait for the next one")
    totp.add_argument("user")
    logs = commands.add_parser("logs", help="print the log of a function")
    logs.add_argument("function", choices=FUNCTIONS)
    logs.add_argument("--since", type=int, default=60, metavar="MINUTES", help="how far back (60)")
    commands.add_parser("outputs", help="print the stack's outputs, as JSON")
    commands.add_parser("url", help="print where the API is")
    return parser.parse_args()


def running():
    """The state of a stack that is up."""
    state = read_state()
    if "outputs" not in state or not engines.is_running(state["engine"]):
        raise Failure("there is no stack: infra/stack up")
    return state


def up(options):
    before = read_state().get("engine", {})
    check_place(options, before)  # before anybody waits for a build
    built = build()
    if options.endpoint:
        current = engines.use(options.endpoint.rstrip("/"))
    else:
        kind, port = wanted_engine(options, before)
        current = engines.start(kind, port, before)
    if current == before:
        deploy_and_seed(read_state(), built)
        return
    write_state({"engine": current})  # so that `down` finds it, whatever comes next
    try:
        deploy_and_seed(read_state(), built)
    except BaseException:
        # What this call started, this call ends; what the functions said is kept.
        keep_logs(current)
        if current["owned"]:
            down()
        raise


def wanted_engine(options, before):
    """Kind and port: as asked for, else as they are, else MiniStack at 4566."""
    owned = before if before.get("owned") else {}
    port = options.port or int(owned.get("endpoint", ":4566").rsplit(":", 1)[1])
    return options.engine or owned.get("kind", "ministack"), port


def check_place(options, before):
    """Whether there is room for what is asked for."""
    ours = before.get("owned") and engines.is_running(before)
    if options.endpoint:
        if ours:
            raise Failure(f"an own {before['kind']} is running at {before['endpoint']}: infra/stack down first")
        engines.use(options.endpoint.rstrip("/"))
        return
    kind, port = wanted_engine(options, before)
    if kind == "localstack":
        engines.check_docker()
    if engines.is_taken(port) and not (ours and before["endpoint"].endswith(f":{port}")):
        raise Failure(f"port {port} is taken: choose another with --port, or use what is there with --endpoint")


def deploy_and_seed(state, built, force=False):
    current = state["engine"]
    deployed, outputs = deploy.deploy(current, people.jwks(), built, state.get("deployed"), force)
    state.update(deployed=deployed, outputs=outputs)
    write_state(state)
    await_ready(deploy.api_url(current, outputs))
    people.seed(current, outputs)
    print_walk(deploy.api_url(current, outputs), current)


def await_ready(url):
    """Ready is what refuses a call without a token in the bank's own words."""
    begun = time.monotonic()
    while time.monotonic() - begun < 60:
        status, body = engines.get(f"{url}/v1/accounts", timeout=30)
        if status == 401 and b"AU001" in body:
            return
        time.sleep(0.5)
    raise Failure(f"the API does not answer as it should at {url}: {status} {body[:300]!r}\n"
                  "    look at `infra/stack logs accounts`")


def print_walk(url, current):
    inbox = "/_ministack/ses/messages" if current["kind"] == "ministack" else "/_aws/ses"
    print(f"""
The bank is open.
  API      {url}/v1
  engine   {current['endpoint']} ({current['kind']})
  mail     {current['endpoint']}{inbox}
  logs     infra/stack logs confirm

A walk through one transfer, to be pasted:

api={url}
token=$(infra/stack token aoi)
auth="Authorization: Bearer $token"
curl -s -H "$auth" $api/v1/accounts; echo
reply=$(curl -s -H "$auth" -H "Idempotency-Key: $(date +%s)-first-transfer" -H 'Content-Type: application/json' \\
  -d '{{"source_account_id":"acct-aoi-0001","destination_account_id":"acct-ren-0002","amount_minor":40000,"currency":"JPY","requester_name":"Aoi Tanaka","memo":"rent"}}' \\
  $api/v1/transfers); echo "$reply"
id=$(echo "$reply" | sed -E 's/.*"request_id":"([^"]*)".*/\\1/')
hash=$(echo "$reply" | sed -E 's/.*"content_hash":"([^"]*)".*/\\1/')
curl -s -H "$auth" -H 'Content-Type: application/json' -d "{{\\"totp_code\\":\\"$(infra/stack totp aoi)\\",\\"content_hash\\":\\"$hash\\"}}" \\
  $api/v1/transfers/$id/authorization; echo
curl -s -X POST -H "$auth" $api/v1/transfers/$id/confirmation; echo
curl -s -H "$auth" $api/v1/transfers/$id; echo
sleep 3; curl -s {current['endpoint']}{inbox}; echo""")


def down():
    state = read_state()
    if "engine" not in state:
        say("· nothing is up")
        return
    current = state["engine"]
    if current["owned"]:
        engines.stop(current)
    elif engines.is_running(current):
        deploy.delete(current)
    STATE_FILE.unlink()


def redeploy():
    state = running()
    (HOME / "built").unlink(missing_ok=True)
    deploy_and_seed(state, build(), force=True)


def test(rest):
    """The tests get the stack by environment variables, and this script for tokens and logs."""
    state = running()
    current, outputs = state["engine"], state["outputs"]
    if current["owned"] and current["kind"] == "localstack":
        raise Failure("the tests hold and kill functions, which have to be processes of this machine and not containers:\n"
                      "    run them on MiniStack, or on a LocalStack without Docker by --endpoint")
    with arranged(current, outputs) as port:
        environment = {
            **os.environ, **people.environment(current, outputs),
            "E2E_API_URL": deploy.api_url(current, outputs), "E2E_ENDPOINT_URL": current["endpoint"],
            "E2E_ENGINE": current["kind"], "E2E_OUTPUTS": json.dumps(outputs), "E2E_GATE_PORT": str(port),
            "E2E_STACK": str(ROOT / "infra" / "stack"), "E2E_OPS": str(OPS),
            "E2E_ISSUER_KEY": str(people.KEY_FILE), "E2E_ISSUER_PUBLIC_KEY": people.public_key(),
        }
        # The same selection of features as `cargo test`, so that nothing is compiled twice.
        command = ["cargo", "test", "--locked", "--workspace", "--test", "e2e", "--", *rest]
        returncode = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    sys.exit(returncode)


def log_lines(engine, function, minutes):
    """What a function printed."""
    client = deploy.client(engine, "logs")
    pages = client.get_paginator("filter_log_events").paginate(
        logGroupName=f"/aws/lambda/{STACK_NAME}-{function}", startTime=int((time.time() - minutes * 60) * 1000))
    try:
        for page in pages:
            yield from (event["message"].rstrip("\n") for event in page["events"])
    except client.exceptions.ResourceNotFoundException:
        return


def keep_logs(engine):
    """Saves what the functions printed, as far as it can be had."""
    for function in FUNCTIONS:
        try:
            lines = list(log_lines(engine, function, 60))
        except Exception:  # the engine may be what failed
            return
        if lines:
            (LOG / f"{function}.log").write_text("\n".join(lines) + "\n")
    say(f"· logs: {shown(LOG)}")


def run(options):
    use_venv()
    if options.command == "up":
        up(options)
    elif options.command == "down":
        down()
    elif options.command == "redeploy":
        redeploy()
    elif options.command == "test":
        test(options.rest)
    elif options.command == "logs":
        for line in log_lines(running()["engine"], options.function, options.since):
            print(line)
    elif options.command == "outputs":
        state = running()
        local = {"LocalApiUrl": deploy.api_url(state["engine"], state["outputs"])}
        print(json.dumps({**state["outputs"], **local}, indent=2))
    else:
        state = running()
        print({"token": lambda: people.token(options.user, options.session),
               "totp": lambda: people.fresh_code(state["outputs"], options.user),
               "url": lambda: deploy.api_url(state["engine"], state["outputs"])}[options.command]())


def interrupted(*_):
    raise KeyboardInterrupt


def main():
    options = arguments()
    # Whoever ends this script ends what it runs: see common.step.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    try:
        run(options)
    except Failure as failure:
        say(f"infra/stack: {failure}")
        sys.exit(1)
    except KeyboardInterrupt:
        say("\ninfra/stack: interrupted")
        sys.exit(130)
    except Exception as error:  # most often the engine's refusal of a call
        LOG.mkdir(parents=True, exist_ok=True)
        (LOG / "stack.log").write_text(traceback.format_exc())
        say(f"infra/stack: {error}\n    see {shown(LOG / 'stack.log')}")
        sys.exit(1)


main()
