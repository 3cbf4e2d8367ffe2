"""Signs the PNG files of images before a worker stores them: what made them stands in a C2PA manifest.

The decision to keep an image is signed apart, from its result (`streams/operator/receipts.py`). `RECEIPTS.md` says why.
"""

from collections.abc import Iterator
from typing import Any

from agents.worker.stages import Opening, Stage
from agents.worker.work import WorkerJob
from planner.serving.admission.inputs import inputs_of
from schemas.messages import Made
from streams.extras import need
from streams.operator.receipts import states_of


class ReceiptStage(Stage):
    """Signs each file with the key that the settings name."""

    def __init__(self, keys: Any) -> None:
        """`keys`: a `streams.security.receipts.KeyFiles`."""
        self._keys = keys

    def seal(self, job: WorkerJob, made: Made, number: int, data: bytes) -> bytes:
        """Return the file with its manifest; nothing else in it changes."""
        signed: bytes = self._keys.signer().image(data, states_of(job.job, made, number), list(_begun(job, number)))
        return signed


def _begun(job: WorkerJob, number: int) -> Iterator[dict[str, str]]:
    """Yield what an image begins with or follows, as C2PA's ingredients; whose a latent is is not recorded."""
    if job.latent is not None:
        yield {"title": "latent"}
    elif job.drafts:
        last = job.job.path[-1]
        draft = [last.image, *last.more][number]
        assert draft is not None, "it was opened"
        yield {"title": "draft", "instance_id": f"sha256:{draft.sha256}"}
    for name, uri in inputs_of(job.request.options):
        yield {"title": name, "instance_id": f"sha256:{uri.rpartition('-')[2].partition('.')[0]}"}  # of it 16 digits


def open_stage(opening: Opening) -> Stage:
    """Return the stage of a worker's process. Raises PochadeError: the extra, a file or a fitting key is missing."""
    if not opening.settings.receipts.certificate:
        return Stage()
    need("c2pa", "cryptography")
    from streams.security.receipts import KeyFiles

    return ReceiptStage(KeyFiles(opening.settings.receipts))
