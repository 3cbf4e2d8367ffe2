"""A cluster of three brokers for tests that break it."""

import contextlib
import pathlib
import uuid
from collections.abc import Callable, Iterator

from replay.verify.chaos.brokers import BrokerCluster
from streams.settings import Settings, load


@contextlib.contextmanager
def running_cluster(new_home: Callable[[], pathlib.Path]) -> Iterator[BrokerCluster]:
    """Three nodes that answer; none is left in the end."""
    cluster = BrokerCluster(new_home() / "kafka")
    try:
        cluster.start_all()
        yield cluster
    finally:
        for node in cluster.nodes:
            cluster.kill(node)  # nobody needs the data: an orderly end takes five seconds


def on(cluster: BrokerCluster, home: pathlib.Path) -> Settings:
    """Settings of a deployment of its own on a cluster, with `home` for what it stores."""
    kafka = {"bootstrap_servers": cluster.bootstrap, "prefix": f"t-{uuid.uuid4().hex[:12]}"}
    return load({"home": home, "kafka": {**kafka, "session_timeout_ms": 3000}})


def leader_of(cluster: BrokerCluster, topic: str, partition: int) -> int:
    """The node that leads a partition (full name of its topic)."""
    leader = cluster.leaders()[topic, partition]
    assert leader >= 0, f"nobody leads partition {partition} of {topic} now"
    return leader
