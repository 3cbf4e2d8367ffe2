"""Who reads and writes: held against the topic table and against what roles may not do."""

from schemas import topics
from schemas.access import (
    ACCESS,
    GROUPS,
    OF_VARIANTS,
    OPERATOR,
    PRODUCER,
    ROLES,
    TRANSACTIONS,
    WHO,
    read_by,
    written_by,
)


def test_every_topic_of_the_table_has_its_writers_and_readers() -> None:
    assert set(ACCESS) == {topic.name for topic in topics.TABLE} | OF_VARIANTS
    for topic in topics.topics_of("light", 1):
        assert topic.name.removesuffix("light.v1") in OF_VARIANTS
        roles = {*ACCESS[topic.name.removesuffix("light.v1")].written_by} & set(ROLES)
        assert all(role in topic.written_by for role in roles)
    for topic, rows in ACCESS.items():
        assert all((rows.written_by, rows.read_by)), topic
        assert {*rows.written_by, *rows.read_by} <= set(WHO), topic


def test_the_prose_of_the_table_names_the_roles_that_may_write() -> None:
    for topic in topics.TABLE:
        if "everyone" in topic.written_by:
            continue
        for who in set(ACCESS[topic.name].written_by) & set(ROLES):
            assert who in topic.written_by, f"{who} writes {topic.name}, whose row says {topic.written_by!r}"


def test_only_the_ledger_ends_requests_and_only_the_planner_leads() -> None:
    assert [who for who in WHO if topics.RESULTS in written_by(who)] == ["ledger"]
    assert [role for role in ROLES if topics.PLAN in written_by(role)] == ["planner", "console"]  # the latter: orders
    assert {"ledger", "planner"} == set(TRANSACTIONS) & set(ROLES)


def test_no_role_makes_keys_and_only_those_that_serve_http_read_them() -> None:
    assert [who for who in WHO if topics.KEYS in written_by(who)] == [OPERATOR]
    assert [role for role in ROLES if topics.KEYS in read_by(role)] == ["gateway", "console"]


def test_no_role_but_the_gateway_sees_where_tenants_want_to_be_told() -> None:
    assert [role for role in ROLES if topics.WEBHOOKS in {*written_by(role), *read_by(role)}] == ["gateway"]


def test_a_producer_may_only_ask() -> None:
    assert written_by(PRODUCER) == [topics.PROMPTS, topics.PROMPTS_BATCH]
    assert read_by(PRODUCER) == []


def test_everybody_is_told_which_groups_are_theirs() -> None:
    assert set(GROUPS) == set(WHO)
