"""Rights as rows and as commands, and what a person types wrong."""

import shlex

import pytest
from click.testing import CliRunner

from schemas.access import WHO
from schemas.errors import PochadeError
from streams.cli import main
from streams.security.acls import Resource, acls, commands, principals

PREFIX = "pochade"


def test_every_right_is_on_names_of_this_deployment_only() -> None:
    rows = acls(PREFIX, principals((), PREFIX))
    assert {row.who for row in rows} == set(WHO)
    assert all(row.name.startswith("pochade.") for row in rows if row.resource is not Resource.CLUSTER)
    assert {row.operations for row in rows if row.resource is Resource.CLUSTER} == {("DescribeConfigs",)}
    assert all(row.operations and "All" not in row.operations for row in rows)


def test_no_two_roles_share_a_user_unless_somebody_says_so() -> None:
    assert len(set(principals((), PREFIX).values())) == len(WHO)
    assert principals(["router=User:CN=router,O=us"], PREFIX)["router"] == "User:CN=router,O=us"


def test_the_ledger_may_write_in_transactions_and_set_its_groups_timeouts() -> None:
    rows = {(row.resource, row.name): row for row in acls(PREFIX, principals((), PREFIX), ["ledger"])}
    assert rows[Resource.TRANSACTIONAL_ID, "pochade.ledger."].operations == ("Write",)
    assert rows[Resource.TRANSACTIONAL_ID, "pochade.ledger."].pattern == "prefixed"
    assert rows[Resource.GROUP, "pochade.ledger"].operations == ("Read", "AlterConfigs")
    assert rows[Resource.GROUP, "pochade.ledger"].pattern == "literal"


def test_commands_join_what_differs_in_names_only_and_can_be_pasted() -> None:
    rows = acls(PREFIX, principals(["router=User:a b"], PREFIX), ["router"])
    reported = [shlex.split(command) for command in commands(rows, "kafka:9092")]
    assert len(reported) < len(rows)
    assert all(words[:3] == ["kafka-acls.sh", "--bootstrap-server", "kafka:9092"] for words in reported)
    assert all(words[words.index("--allow-principal") + 1] == "User:a b" for words in reported)
    named = [words[at + 1] for words in reported for at, word in enumerate(words) if word == "--topic"]
    assert sorted(named) == sorted(row.name for row in rows if row.resource is Resource.TOPIC)


@pytest.mark.parametrize(
    ("named", "reported"),
    [
        ("rooter=User:x", "did you mean 'router'"),
        ("router", r"ROLE=User:NAME"),
        ("router=x", r"ROLE=User:NAME"),
        ("router=User:", r"ROLE=User:NAME"),
    ],
)
def test_a_principal_that_is_none_is_refused(named: str, reported: str) -> None:
    with pytest.raises(PochadeError, match=reported):
        principals([named], PREFIX)


def test_the_command_prints_without_asking_a_cluster() -> None:
    done = CliRunner().invoke(main, ["--set", "kafka.prefix=p", "topics", "acls", "--role", "router"])
    assert done.exit_code == 0, done.output
    assert "--allow-principal User:p-router" in done.stdout
    table = CliRunner().invoke(main, ["topics", "acls", "--role", "planner", "-o", "jsonl"])
    assert '"resource": "transactional-id"' in table.stdout
    assert CliRunner().invoke(main, ["topics", "acls", "--role", "rooter"]).exit_code == 1
