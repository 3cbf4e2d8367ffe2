"""Opens the vector store that the settings name."""

import hashlib
import re
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from schemas.errors import PochadeError
from streams.security.secrets import secret
from streams.settings import Settings, Vectors
from streams.vectors import lite
from streams.vectors.checking import CheckedVectorStore
from streams.vectors.port import VectorStore

if TYPE_CHECKING:
    from streams.vectors.exact import ExactVectorStore
    from streams.vectors.milvus import MilvusVectorStore

VERSION = 2  # of the fields of a collection; others begin with an empty one. 2: has `scope`
DIGEST = 16  # characters of each hash in a collection's name


def open_vectors(settings: Settings, key: str) -> VectorStore | None:
    """Return the store that `vectors.url` names; None if it is empty. Connects at the first call.

    `key`: digest of the vectors' encoder; each encoder has a collection of its own.

    Raises PochadeError: the local store was never started, a secret cannot be read, or would be sent or shown in clear.
    """
    collection = collection_of(settings.kafka.prefix, key)
    if not settings.vectors.url:
        return None
    if settings.vectors.url == "exact":
        return CheckedVectorStore(_exact(settings, collection))
    return CheckedVectorStore(open_milvus(settings, collection))


def open_all(settings: Settings, timeout_s: float) -> list[VectorStore]:
    """Open every collection of a deployment that is there, of whichever encoder and version; [] without a vector store.

    Raises:
        VectorsUnavailable: the store does not answer.
        PochadeError: as `open_vectors`.
    """
    if not settings.vectors.url:
        return []
    versions = "|".join(_deployment(settings.kafka.prefix, version) for version in range(1, VERSION + 1))
    mine = re.compile(f"(?:{versions})_[0-9a-f]{{{DIGEST}}}")
    if settings.vectors.url == "exact":
        files = sorted(lite.vectors_home(settings).glob("*.jsonl"))
        return [CheckedVectorStore(_exact(settings, file.stem)) for file in files if mine.fullmatch(file.stem)]
    asked = open_milvus(settings, "")
    try:
        names = asked.collections(timeout_s)
    finally:
        asked.close()
    return [CheckedVectorStore(open_milvus(settings, name)) for name in sorted(names) if mine.fullmatch(name)]


def _exact(settings: Settings, collection: str) -> "ExactVectorStore":
    from streams.vectors.exact import ExactVectorStore

    file = lite.vectors_home(settings) / f"{collection}.jsonl"
    return ExactVectorStore(file, max_rows=settings.vectors.max_rows)


def open_milvus(settings: Settings, collection: str) -> "MilvusVectorStore":
    """Open a collection of the Milvus that the settings name, unchecked. Raises as `open_vectors`."""
    from streams.vectors.milvus import MilvusVectorStore  # pymilvus takes 0.6 s to import

    wanted = settings.vectors
    if wanted.url == "lite":
        return MilvusVectorStore(lite.url(settings), collection, is_local=True)
    _check_url(wanted)
    _check_authority(wanted.ca)
    token = secret("vectors.token", wanted.token)
    return MilvusVectorStore(wanted.url, collection, token=token, ca=wanted.ca, database=wanted.database)


def _check_url(wanted: Vectors) -> None:
    parts = urlsplit(wanted.url)
    if not parts.hostname:
        raise PochadeError("vectors.url must be http://HOST:PORT or https://HOST:PORT: it names no host")
    if parts.username or parts.password:
        raise PochadeError("vectors.url holds a password: set vectors.token to USER:PASSWORD, which is hidden")
    if wanted.token and parts.scheme == "http":
        raise PochadeError("vectors.url is http, which would send vectors.token in the clear: use https")


def collection_of(prefix: str, key: str) -> str:
    """The name of a collection: one deployment's, for vectors made by one encoder."""
    return f"{_deployment(prefix, VERSION)}_{_digest(key)}"


def _deployment(prefix: str, version: int) -> str:
    """Return the prefix of a deployment's collections: its own prefix in Milvus' characters, and the hash of it.

    The letters alone would be those of another deployment's too: `a.b` and `a-b` are both `a_b`.
    """
    return f"reuse_v{version}_{re.sub('[^A-Za-z0-9]', '_', prefix):.100}_{_digest(prefix)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST]


def _check_authority(ca: str) -> None:
    try:
        ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError) as error:
        raise PochadeError(f"vectors.ca {ca} cannot be read as certificates in PEM: {error}") from None
