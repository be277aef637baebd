"""The template on the engine: package, create or update, and what an emulator needs beyond it."""

import json
import sys
import time
import uuid

from common import BIN, HOME, REGION, ROOT, STACK_NAME, Failure, aws_environment, digest_of, say, step
from tools import ARCHITECTURE

TEMPLATE = ROOT / "infra" / "template.yaml"
PACKAGED = HOME / "packaged.yaml"
BUCKET = "furikomi-code"
SENDER = "bank@furikomi.example"
ISSUER = "urn:furikomi:local-issuer"
AUDIENCE = "furikomi"
GIVEN_UP_AFTER_S = 300
SUCCESSFUL = ("CREATE_COMPLETE", "UPDATE_COMPLETE")


def client(engine, service):
    """A client of the engine's, and of nothing else's."""
    import boto3
    from botocore.config import Config

    return boto3.client(
        service, endpoint_url=engine["endpoint"], region_name=REGION, aws_access_key_id="test",
        aws_secret_access_key="test", config=Config(retries={"max_attempts": 2}, read_timeout=60))


def parameters(engine, jwks):
    """What the template is given."""
    endpoint = engine["endpoint"]
    if engine["owned"] and engine["kind"] == "localstack":
        # Functions run in containers, where this name is LocalStack's; outside it is the loopback interface.
        endpoint = endpoint.replace("127.0.0.1", "localhost.localstack.cloud")
    return {
        "Stage": "local",
        "Architecture": ARCHITECTURE,
        "EndpointUrl": endpoint,
        "JwtIssuer": ISSUER,
        "JwtAudience": AUDIENCE,
        "JwtAlgorithms": "ES256",
        "LocalJwks": jwks,
        "SenderAddress": SENDER,
        "LogRetentionDays": "7",
    }


def describe(cloudformation):
    """The stack, or None."""
    from botocore.exceptions import ClientError

    try:
        stacks = cloudformation.describe_stacks(StackName=STACK_NAME)["Stacks"]
    except ClientError:
        return None
    return stacks[0] if stacks and stacks[0]["StackStatus"] != "DELETE_COMPLETE" else None


def deploy(engine, jwks, built, deployed, force=False):
    """Deploys what differs from `deployed`, the hash of the last time; gives the hash and the stack's outputs."""
    cloudformation = client(engine, "cloudformation")
    given = parameters(engine, jwks)
    wanted = digest_of([TEMPLATE], built, json.dumps(given, sort_keys=True))
    stack = describe(cloudformation)
    if stack and stack["StackStatus"] in SUCCESSFUL and deployed == wanted and not force:
        say("· stack: deployed already")
        return wanted, outputs_of(stack)
    if stack and stack["StackStatus"] not in SUCCESSFUL:
        say(f"· the stack is {stack['StackStatus']}: deleting it first")
        delete(engine)
        stack = None
    template_url = package(engine)
    begun = time.monotonic()
    stack = apply(cloudformation, stack is not None, template_url, given)
    say(f"· deploying the stack: {time.monotonic() - begun:.1f} s")
    outputs = outputs_of(stack)
    complete(engine, outputs)
    return wanted, outputs


def package(engine):
    """Puts the zips into a bucket and their addresses into the template; that, too large for a call, beside them."""
    s3 = client(engine, "s3")
    if BUCKET not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    step("packaging the template", [
        BIN / "aws", "cloudformation", "package", "--template-file", TEMPLATE, "--s3-bucket", BUCKET,
        "--output-template-file", PACKAGED], "package.log", aws_environment(engine["endpoint"]))
    s3.upload_file(str(PACKAGED), BUCKET, "template.yaml")
    return f"{engine['endpoint']}/{BUCKET}/template.yaml"


def apply(cloudformation, exists, template_url, given):
    """Creates or updates the stack and waits for it. `aws cloudformation deploy` looks every 30 seconds only."""
    from botocore.exceptions import ClientError

    request = {
        "StackName": STACK_NAME,
        "TemplateURL": template_url,
        "Parameters": [{"ParameterKey": name, "ParameterValue": value} for name, value in given.items()],
        "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
        "ClientRequestToken": f"stack-{uuid.uuid4()}",
    }
    try:
        (cloudformation.update_stack if exists else cloudformation.create_stack)(**request)
    except ClientError as error:
        if "No updates are to be performed" in str(error):
            return describe(cloudformation)
        raise Failure(f"the engine refused the stack: {str(error)[:500]}") from None
    deadline = time.monotonic() + GIVEN_UP_AFTER_S
    while time.monotonic() < deadline:
        stack = describe(cloudformation)
        status = stack["StackStatus"] if stack else "missing"
        if status in SUCCESSFUL:
            return stack
        if not status.endswith("_IN_PROGRESS") or "ROLLBACK" in status:
            raise Failure(f"the stack is {status}:\n{failed_events(cloudformation)}")
        if sys.stderr.isatty():
            print(f"\r· deploying the stack … {status} ", end="", file=sys.stderr, flush=True)
        time.sleep(0.5)
    raise Failure(f"the stack is not complete after {GIVEN_UP_AFTER_S} s")


def failed_events(cloudformation):
    """Which resources failed, and why."""
    events = cloudformation.describe_stack_events(StackName=STACK_NAME)["StackEvents"]
    lines = [
        f"    {event['LogicalResourceId']}: {event.get('ResourceStatusReason', event['ResourceStatus'])}"
        for event in events if event["ResourceStatus"].endswith("_FAILED")]
    return "\n".join(lines[:8]) or "    (no event says why)"


def outputs_of(stack):
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}


def api_url(engine, outputs):
    """Where the API is on an emulator; on AWS it is the output ApiUrl."""
    return f"{engine['endpoint']}/_aws/execute-api/{outputs['ApiId']}/live"


def complete(engine, outputs):
    """What belongs to the account rather than to the stack, and what emulators leave out of it."""
    client(engine, "ses").verify_email_identity(EmailAddress=SENDER)
    put_gateway_responses(engine, outputs["ApiId"])


def put_gateway_responses(engine, api):
    """Neither MiniStack nor LocalStack imports the gateway responses that the SAM transform writes into the API's
    definition, so they are put one by one, from the same place in the template, and a deployment makes them count."""
    from samtranslator.yaml_helper import yaml_parse

    gateway = client(engine, "apigateway")
    template = yaml_parse(TEMPLATE.read_text())
    for kind, response in template["Resources"]["Api"]["Properties"]["GatewayResponses"].items():
        headers = response["ResponseParameters"]["Headers"]
        gateway.put_gateway_response(
            restApiId=api, responseType=kind, statusCode=str(response["StatusCode"]),
            responseParameters={f"gatewayresponse.header.{name}": value for name, value in headers.items()},
            responseTemplates=response["ResponseTemplates"])
    gateway.create_deployment(restApiId=api, stageName="live")


def delete(engine):
    """Deletes the stack, and the tables and keys that it retains: for an engine that others started."""
    from botocore.exceptions import ClientError

    cloudformation = client(engine, "cloudformation")
    stack = describe(cloudformation)
    if stack is None:
        return
    outputs = outputs_of(stack)
    cloudformation.delete_stack(StackName=STACK_NAME)
    deadline = time.monotonic() + GIVEN_UP_AFTER_S
    while describe(cloudformation) is not None and time.monotonic() < deadline:
        time.sleep(0.5)
    dynamodb = client(engine, "dynamodb")
    for name in ("CoreTable", "LedgerTable", "OutboxTable", "NotificationsTable"):
        try:
            dynamodb.delete_table(TableName=outputs[name])
        except (ClientError, KeyError):
            pass  # it went with the stack
    say("· the stack is deleted")
