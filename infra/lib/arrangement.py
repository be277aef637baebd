"""What the end-to-end tests need of a stack beyond what is deployed, and that is put back after them."""

import contextlib
import socket

from common import STACK_NAME, say
from deploy import client

# The functions whose calls of the engine pass through the tests' gate.
GATED = ("confirm", "relay", "notifier")

# Redelivery within seconds instead of minutes. It stays longer than a batch takes when all goes well.
VISIBILITY_S = "10"

# How long a record of the outbox's stream is retried before it goes to the failure queue: the least that Lambda takes.
RECORD_AGE_S = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def arranged(engine, outputs):
    """Gives the port that the tests' gate is expected at; what was changed is as before when the tests are over."""
    lambdas, sqs = client(engine, "lambda"), client(engine, "sqs")
    queue, port = outputs["EventsQueueUrl"], free_port()
    visibility = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["VisibilityTimeout"])["Attributes"]
    stream = relay_mapping(lambdas)
    environments = {name: environment_of(lambdas, name) for name in GATED}
    say(f"· arranging the stack for the tests: {', '.join(GATED)} go through a gate at port {port}")
    try:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": VISIBILITY_S})
        lambdas.update_event_source_mapping(
            UUID=stream["UUID"], MaximumRecordAgeInSeconds=RECORD_AGE_S, MaximumRetryAttempts=5)
        for name, variables in environments.items():
            set_environment(lambdas, name, {**variables, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"})
        yield port
    finally:
        for name, variables in environments.items():
            set_environment(lambdas, name, variables)
        lambdas.update_event_source_mapping(
            UUID=stream["UUID"], MaximumRecordAgeInSeconds=stream["MaximumRecordAgeInSeconds"],
            MaximumRetryAttempts=stream["MaximumRetryAttempts"])
        sqs.set_queue_attributes(QueueUrl=queue, Attributes=visibility)
        say("· the stack is as it was before the tests")


def relay_mapping(lambdas):
    return lambdas.list_event_source_mappings(FunctionName=f"{STACK_NAME}-relay")["EventSourceMappings"][0]


def environment_of(lambdas, name):
    return lambdas.get_function_configuration(FunctionName=f"{STACK_NAME}-{name}")["Environment"]["Variables"]


def set_environment(lambdas, name, variables):
    function = f"{STACK_NAME}-{name}"
    lambdas.update_function_configuration(FunctionName=function, Environment={"Variables": variables})
    lambdas.get_waiter("function_updated_v2").wait(FunctionName=function, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
