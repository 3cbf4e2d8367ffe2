"""A plugin of pytest that writes the ids it collected to the file that `BEHAVIOUR_COLLECTED` names."""

import json
import os
import pathlib

import pytest

COLLECTED = "BEHAVIOUR_COLLECTED"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write all ids, each as often as it was collected."""
    pathlib.Path(os.environ[COLLECTED]).write_text(json.dumps([item.nodeid for item in session.items]))
