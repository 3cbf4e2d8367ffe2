"""What holds for all tests: nothing is timed, on a loaded machine neither, and no process is left behind."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.left_over import end_left_over

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

collect_ignore = ["nightly"]  # only what is named: `make nightly PART=...`


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail a session that leaves a process in its temporary folder; the first fixture, so that it ends last."""
    folder = tmp_path_factory.getbasetemp()
    yield
    left = end_left_over(folder)
    assert not left, "these processes were left behind, and have been killed:\n" + "\n".join(left)
