"""Computes ids and draws from the request alone, so that a repeated decision gives an equal result; sets of ids."""

import hashlib
import uuid

RECORD_NAMESPACE = uuid.UUID("6f1d0f3e-58a1-5e0b-9b0e-0b6a1f6f7c11")
DIGEST_BYTES = 12
SHARDS = 1024  # of a set of digests: 64 KB when empty; a lookup reads one, 3 KB of 250,000 digests


def new_request_id() -> str:
    """A random request id for a producer that brings none."""
    return str(uuid.uuid4())


def request_id_of_record(topic: str, partition: int, offset: int, timestamp_ms: int) -> str:
    """The id of a request whose record states none: each reading of the record gives the same id.

    `timestamp_ms`: the record's time, as a topic that is deleted and made again repeats its offsets.
    """
    return str(uuid.uuid5(RECORD_NAMESPACE, f"{topic}/{partition}/{offset}/{timestamp_ms}"))


def job_id(request_id: str, stage: int, level: str) -> str:
    """Return the id of a request's job at a stage on a level; a redelivered decision gives an equal id."""
    return hashlib.sha256(f"{request_id}/{stage}/{level}".encode()).hexdigest()[:24]


def draw(request_id: str, salt: str) -> float:
    """Return a uniform number in [0, 1), a function of the request id and of `salt`, which names what is drawn."""
    digest = hashlib.sha256(f"{salt}/{request_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def refinement_seed(seed: int, stage: int) -> int:
    """The noise seed (31 bits) for refining a draft at this stage, from the seed of the request's image.

    The draft came from noise of `seed` itself: noise that is independent of the draft is what the model was trained on.
    """
    return int(draw(str(seed), f"paint-over/{stage}") * 2**31)


def seed_of(request_id: str) -> int:
    """The noise seed (31 bits) of a request that names none."""
    return int(draw(request_id, "seed") * 2**31)


def digest_of(request_id: bytes) -> bytes:
    """96 bits of an id."""
    return hashlib.blake2b(request_id, digest_size=DIGEST_BYTES).digest()


class Digests:
    """A set of digests, 18 to 22 bytes each (resident); one of Python takes 120. Others may read while one adds."""

    def __init__(self) -> None:
        self._shards = [bytearray() for _ in range(SHARDS)]  # by the first bits; digests one after the other
        self._count = 0

    def add(self, digest: bytes) -> None:
        """Add a digest of DIGEST_BYTES."""
        if digest not in self:
            self._shard(digest).extend(digest)
            self._count += 1

    def __contains__(self, digest: bytes) -> bool:
        shard = self._shard(digest)
        at = shard.find(digest)
        while at % DIGEST_BYTES and at >= 0:  # found across two digests
            at = shard.find(digest, at + 1)
        return at >= 0

    def __len__(self) -> int:
        return self._count

    def packed(self) -> bytes:
        """Return all digests, one after the other, in no order."""
        return b"".join(self._shards)

    def _shard(self, digest: bytes) -> bytearray:
        return self._shards[int.from_bytes(digest[:2], "big") % SHARDS]


class RecentIds:
    """The ids of a time: at least half of the window is remembered, and at most all of it while ids come.

    They are kept in two halves. When the newer one is as old as half the window, or full, the older one is dropped.
    """

    def __init__(self, window_ms: int, most: int) -> None:
        """`most`: ids that are remembered."""
        self._half_ms, self._half = window_ms // 2, most // 2
        self._newer, self._older, self._since_ms = Digests(), Digests(), 0

    def add(self, request_id: str, at_ms: int) -> None:
        """Add an id that came at a time (epoch ms)."""
        if at_ms - self._since_ms > self._half_ms or len(self._newer) >= self._half:
            self._older, self._newer, self._since_ms = self._newer, Digests(), at_ms
        self._newer.add(digest_of(request_id.encode(errors="replace")))

    def __contains__(self, request_id: object) -> bool:
        digest = digest_of(str(request_id).encode(errors="replace"))
        return digest in self._newer or digest in self._older
