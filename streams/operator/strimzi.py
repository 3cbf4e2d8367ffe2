"""The topic table and the rights of roles and clients as objects of Strimzi, which keeps a Kafka in Kubernetes."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from schemas.access import WHO
from schemas.topics import Topic, full_name, table, topics_of
from streams.security.acls import Acl, acls, principals
from streams.settings import Kafka

VERSION = "kafka.strimzi.io/v1"


def objects(kafka: Kafka, variants: Iterable[str], cluster: str, authentication: str) -> Iterator[str]:
    """Yield a KafkaTopic a topic and a KafkaUser a role or client of Strimzi's Kafka `cluster`, as YAML documents.

    Copies of a topic are as many as the brokers make by default. A user's password (`scram-sha-512`) or certificate
    (`tls`) is kept by Strimzi in a Secret of the user's name.
    """
    of_variants = [row for name in variants for row in topics_of(name, kafka.jobs_partitions)]
    for row in (*table(kafka.flow_partitions), *of_variants):
        yield _object("KafkaTopic", full_name(kafka.prefix, row.name), cluster, _topic(row, kafka.prefix))
    for who in WHO:
        rights = [_right(row) for row in acls(kafka.prefix, principals((), kafka.prefix), [who])]
        spec = {"authentication": {"type": authentication}, "authorization": {"type": "simple", "acls": rights}}
        yield _object("KafkaUser", f"{kafka.prefix}-{who}", cluster, spec)


def _topic(row: Topic, prefix: str) -> dict[str, Any]:
    return {"topicName": full_name(prefix, row.name), "partitions": row.partitions, "config": row.config}


def _right(row: Acl) -> dict[str, Any]:
    kind = {"transactional-id": "transactionalId"}.get(row.resource, str(row.resource))
    pattern = "prefix" if row.pattern == "prefixed" else row.pattern
    named = {} if kind == "cluster" else {"name": row.name, "patternType": pattern}
    return {"resource": {"type": kind, **named}, "operations": list(row.operations)}


def _object(kind: str, name: str, cluster: str, spec: dict[str, Any]) -> str:
    valid = re.sub(r"[^a-z0-9.-]", "-", name.lower()).strip("-.")  # as Kubernetes takes names
    metadata = {"name": valid, "labels": {"strimzi.io/cluster": cluster}}
    return "---\n" + json.dumps({"apiVersion": VERSION, "kind": kind, "metadata": metadata, "spec": spec})
