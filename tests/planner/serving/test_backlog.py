"""Admission: bounded by the predicted wait, with a way out and a time to come back."""

import math

from planner.serving.backlog import Admitted, Refused, admit, limit_ms


def test_a_wait_within_the_limit_is_admitted_on_the_wanted_level() -> None:
    assert admit("heavy", ["light"], {"heavy": 900, "light": 0}, 1000) == Admitted("heavy")


def test_over_the_limit_a_lower_level_takes_it_where_the_request_allows() -> None:
    assert admit("heavy", ["light"], {"heavy": 1100, "light": 5}, 1000) == Admitted("light")


def test_over_the_limit_without_a_way_out_it_is_refused_with_the_time_until_there_is_room() -> None:
    refused = admit("heavy", [], {"heavy": 2500.5}, 1000)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.retry_after_ms) == ("overloaded", 1501)
    assert "2.5 s of work wait before heavy; up to 1.0 s are admitted" in refused.reason


def test_an_unserved_level_waits_for_a_worker_rather_than_being_refused() -> None:
    assert admit("heavy", [], {"heavy": math.inf}, 1000) == Admitted("heavy")
    assert admit("heavy", ["light"], {"heavy": math.inf, "light": 0}, 1000) == Admitted("light")
    assert admit("heavy", ["light"], {"heavy": math.inf, "light": math.inf}, 1000) == Admitted("heavy")


def test_interactive_requests_may_use_what_is_kept_from_the_others() -> None:
    assert limit_ms(10, "interactive", 0.2) == 10_000
    assert limit_ms(10, "standard", 0.2) == 8_000
