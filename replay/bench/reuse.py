"""What does approximate caching save over all requests, what does it lose, and what does it cost where nothing repeats?

Worker, index writer, guard and vector store are the product's own; only the topics between them are left out. A process
of its own measures (`agents/lab/reuse_bench`), in a temporary home with a vector store and an object store of its own:
`replay` is a client, and imports no role.
"""

import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from schemas.errors import PochadeError
from streams.settings import Settings
from streams.vectors import lite_server

CHILD: Final = "agents.lab.reuse_bench"
DEFAULT_STORE: Final = "lite"


def run(settings: Settings, effort: Mapping[str, int | None], prompts: Sequence[str], store: str) -> dict[str, Any]:
    """Measure, and return the report. `store`: lite, exact, or "" for what the settings name, else lite.

    Raises:
        PochadeError: Milvus Lite is not installed, a store is away, or it could not be measured, and why.
    """
    with _home(settings, store) as own:
        asked = {"effort": dict(effort), "prompts": list(prompts), "settings": own.model_dump(mode="json")}
        return _measured(json.dumps(asked))


@contextlib.contextmanager
def _home(settings: Settings, store: str) -> Iterator[Settings]:
    """Settings with a temporary home, in which images lie in a folder; with a Milvus Lite that runs meanwhile."""
    with contextlib.ExitStack() as stack:
        home = pathlib.Path(tempfile.mkdtemp(prefix="pochade-bench-"))
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        kafka = settings.kafka.model_copy(update={"prefix": f"{settings.kafka.prefix}-{home.name}"})
        url = store or settings.vectors.url or DEFAULT_STORE
        vectors = settings.vectors.model_copy(update={"url": url})
        images = type(settings.store)()
        own = settings.model_copy(update={"home": home, "kafka": kafka, "vectors": vectors, "store": images})
        if url == "lite":
            stack.callback(lite_server.stop, own)
            lite_server.ensure(own)
        yield own


def _measured(asked: str) -> dict[str, Any]:
    """The report of the process that measures; its progress bar is ours. It ends if this one does."""
    with subprocess.Popen(
        [sys.executable, "-m", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            answer, _ = child.communicate(asked)
        except BaseException:
            child.terminate()
            raise
    if not answer:
        raise PochadeError(f"the process that measures reuse ended with exit status {child.returncode}: see above")
    report: dict[str, Any] = json.loads(answer)
    if "error" in report:
        raise PochadeError(report["error"])
    return report
