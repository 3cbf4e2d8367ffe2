"""Texts as a terminal shows them."""

from streams.visible import counted


def test_a_noun_has_its_number() -> None:
    assert [counted(n, "broker") for n in (0, 1, 2)] == ["0 brokers", "1 broker", "2 brokers"]
    assert counted(2, "reply", "replies") == "2 replies"
