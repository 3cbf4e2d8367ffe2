"""Celery's task on Redis, acknowledged when it is done, none fetched ahead: as its own guide has it for long tasks.

A task whose process is killed goes to another one, as the guide has it for tasks that may run twice.
"""

import os

from celery import Celery
from work import generate

REDIS = os.environ.get("PEER_REDIS", "redis://127.0.0.1:6379/0")
app = Celery("peers", broker=REDIS, backend=REDIS)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
)


@app.task
def image(prompt: str, seconds: float) -> str:
    """One image."""
    return generate(prompt, seconds)
