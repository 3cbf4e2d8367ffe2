"""Has the cluster describe consumer groups, asked by a process of its own.

librdkafka ends the process that asks (`eonce->refcnt > 0`) where the coordinator of a group goes away before it has
answered, also seconds after the question was given up (its pull request 5397, open in November 2026). A role that asks
so would die with a broker.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from streams.kafka.clients import ANSWER_LIMIT_S

START_S = 15.0  # of a Python on a busy machine, and its client; .2 s of a processor


class Member(NamedTuple):
    """A member of a group, as the cluster describes it."""

    client_id: str
    host: str
    partitions: int  # that the cluster has given it


class Group(NamedTuple):
    """A group, as the cluster describes it."""

    members: dict[str, Member]  # by id
    operations: set[str] | None  # that this user may do on it; None where it was not asked for


def described(
    config: Mapping[str, str], groups: Sequence[str], *, with_operations: bool = False, limit_s: float = ANSWER_LIMIT_S
) -> dict[str, Group | KafkaError]:
    """Return each group, or why it is not described.

    `config`: of a client. `limit_s`: longest time for the cluster's answer.

    Raises:
        KafkaException: nothing answers in time.
    """
    asked = json.dumps([dict(config), list(groups), with_operations, limit_s])
    command = [sys.executable, "-P", "-m", __name__]  # the file is not run from where we are
    try:
        done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=limit_s + START_S)
    except subprocess.TimeoutExpired:
        raise _unanswered(groups) from None
    if done.returncode != 0:
        raise _unanswered(groups, done.stderr)
    return {
        name: KafkaError(*found["error"])
        if "error" in found
        else Group(
            {member_id: Member(*each) for member_id, each in found["members"].items()},
            None if found["operations"] is None else set(found["operations"]),
        )
        for name, found in json.loads(done.stdout).items()
    }


def _unanswered(groups: Sequence[str], said: str = "") -> KafkaException:
    why = f"no broker described {', '.join(groups)} in time; {' '.join(said.splitlines()[-1:])[-200:]}".rstrip("; ")
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, why))


def _ask(config: dict[str, str], groups: list[str], operations: bool, limit_s: float) -> dict[str, dict[str, Any]]:
    from confluent_kafka.admin import AdminClient

    client = AdminClient(config)  # must live until the answers are here
    answers = client.describe_consumer_groups(groups, include_authorized_operations=operations, request_timeout=limit_s)
    found = dict[str, dict[str, Any]]()
    for name, future in answers.items():
        try:
            group = future.result(limit_s)
        except KafkaException as failure:
            if (error := failure.args[0]).code() == KafkaError._TIMED_OUT:
                raise
            found[name] = {"error": [error.code(), error.str()]}
            continue
        found[name] = {
            "members": {
                each.member_id: [each.client_id, each.host.lstrip("/"), len(each.assignment.topic_partitions)]
                for each in group.members
            },
            "operations": group.authorized_operations and [each.name for each in group.authorized_operations],
        }
    return found


if __name__ == "__main__":
    print(json.dumps(_ask(*json.load(sys.stdin))), flush=True)
    os._exit(0)  # an end of the client would wait for answers that are owed
