import pytest

from replay.load.place import prefix_of
from schemas.errors import PochadeError
from streams.settings import Settings


def place(prefix: str | None = None, *, is_production: bool = False, serves: bool = False) -> str:
    return prefix_of(Settings(), "tuesday", prefix, is_production=is_production, serves=serves)


def test_production_is_not_touched_unless_it_is_told() -> None:
    assert place() == "pochade-replay"
    assert place(serves=True) == "pochade-replay-tuesday"
    assert place("sandbox") == place("sandbox", serves=True) == "sandbox"
    assert place(is_production=True) == place("pochade", is_production=True) == "pochade"


def test_production_by_its_prefix_alone_is_refused() -> None:
    with pytest.raises(PochadeError, match="say --production"):
        place("pochade")


@pytest.mark.parametrize("asked", [{"prefix": "sandbox"}, {"serves": True}])
def test_production_and_a_sandbox_at_once_are_refused(asked: dict) -> None:  # type: ignore[type-arg]
    with pytest.raises(PochadeError, match="give one of them"):
        place(is_production=True, **asked)
