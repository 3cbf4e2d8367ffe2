"""Who a command says it is."""

import getpass
import os

import pytest

from streams.security.process_user import process_user


def test_a_user_without_a_name_is_told_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert process_user() == str(os.getuid())
