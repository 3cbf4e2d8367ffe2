"""Which stored pictures are still named by a record, over all deployments of the cluster: they share the store."""

from schemas.errors import PochadeError
from schemas.record import Incoming
from schemas.topics import IMAGES, RESULTS
from streams.kafka import snapshot
from streams.operator import cluster
from streams.operator.gc import Mentions
from streams.settings import Settings


def needed(settings: Settings) -> tuple[set[str], float]:
    """URIs that are still named, and how far back (ms) the results that name them reach.

    Raises:
        PochadeError: the cluster cannot be read, or holds records that this version cannot read.
    """
    mentions = Mentions()

    def add(record: Incoming) -> bool:
        mentions.add(record)
        return False

    kept_ms = []
    for deployment in cluster.deployments(settings):  # such as demos
        kept_ms += [found.retention_ms for name, found in cluster.topics(deployment).items() if name == RESULTS]
        for topic in (IMAGES, RESULTS):  # in this order: whose result is there now was in work before
            snapshot.past(deployment, [topic], keep=add)
    if mentions.unreadable:
        raise PochadeError(
            f"{mentions.unreadable} records of images and results cannot be read, so orphans cannot be told: upgrade "
            "this command to the version of the roles, or run it without --orphans"
        )
    return mentions.needed(), min(kept_ms, default=0.0)
