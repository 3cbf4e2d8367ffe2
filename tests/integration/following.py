"""When followers of this process have read their past, and one client reads on for all of them."""

from streams.kafka.consumers import shared_reader
from streams.kafka.consumers.consumer import TopicTailer
from tests.integration.waiting import poll_until


def await_reading_on(*followers: TopicTailer) -> None:
    """Wait until one client reads on for these."""
    inboxes = {follower._inbox for follower in followers}

    def is_served() -> bool:
        return any({each.inbox for each in reader._served} >= inboxes for reader in [*shared_reader._READERS.values()])

    poll_until(is_served, "one client that reads on for all")
