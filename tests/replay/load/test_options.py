import dataclasses

import pytest

from replay.load.options import LiveOptions, deployment_of, slo_ms
from schemas.errors import PochadeError
from streams.settings import Settings
from tests.builders import a_catalog

PLAIN = LiveOptions(
    name="tuesday", prefix=None, is_production=False, serves=None, catalog=None, engine=None, policy=None, slo_s=None,
    drops=True, report=None,
)  # fmt: skip


def test_roles_that_are_started_get_what_was_asked_for() -> None:
    options = dataclasses.replace(PLAIN, serves=9, catalog="profile", engine="profile", policy="argus", slo_s=2.0)
    own = deployment_of(Settings(), options)
    assert (own.kafka.prefix, own.kafka.jobs_partitions, own.catalog) == ("pochade-replay-tuesday", 9, "profile")
    assert (own.worker.engine, own.planner.policy, own.planner.slo_s) == ("profile", "argus", 2.0)


def test_what_belongs_to_roles_is_refused_where_none_are_started() -> None:
    with pytest.raises(PochadeError, match="--serve"):
        deployment_of(Settings(), dataclasses.replace(PLAIN, policy="argus"))


def test_the_service_level_is_the_setting_s_else_the_catalog_s_else_asked_for() -> None:
    own = deployment_of(Settings(), dataclasses.replace(PLAIN, slo_s=2.0))
    assert slo_ms(own, a_catalog()) == 2000
    assert slo_ms(Settings(), a_catalog(slo_s=3.0)) == 3000
    with pytest.raises(PochadeError, match="give --slo"):
        slo_ms(Settings(), a_catalog())
