"""The order of the checks before a lookup, and how much of what it found is read."""

import pytest

from planner.catalog.options import resolve_options
from planner.reuse.eligibility import Consent, Refusal
from planner.reuse.guard import Comparison, Verdict
from planner.reuse.lookups.lookup import (
    Found,
    Lookup,
    LookupJob,
    asked_of,
    before_lookup,
    choose,
    described,
    job_of,
    outcome_of,
    unfit_latent,
    without_answer,
)
from planner.reuse.neighbour import Miss, Neighbour, Wanted, is_named_for, latent_name
from planner.reuse.steps import FullRun, Reuse
from planner.reuse.terms import terms_of
from schemas.messages import GenerateOptions, ReuseGuard, StageReuse
from tests.builders import a_request, a_reuse_plan, a_variant

TERMS = terms_of(a_reuse_plan())  # .2 from a cosine of .7 on, .5 from .9 on
VARIANT = a_variant(steps=10, latency_ms={1: 1000.0})
WANTED = Wanted(tenant="a", model="m", width=32, height=32, dimension=4)
NOW = 1000.0


def a_lookup_job(share: float = 0.5, attempt: int = 1, **asked: object) -> LookupJob:
    request = a_request(**asked)
    return job_of(request, VARIANT, resolve_options(request.options, VARIANT), share, attempt=attempt)


def unasked(_one: str, _other: str) -> Comparison:
    raise AssertionError("no facts are to be compared")


def found(similarity: float, prompt: str = "other", **changes: object) -> Found:
    values = {"tenant": "a", "model": "m", "width": 32, "height": 32, "dimension": 4, "expires_ms": 2000}
    return Found(Neighbour(similarity=similarity, **(values | changes)), prompt)  # type: ignore[arg-type]


def test_a_lookup_has_the_time_that_its_largest_saving_is_worth() -> None:
    assert before_lookup(TERMS, a_lookup_job(0.2), is_there=True, is_open=False) == Lookup(0.2, 60.0)
    assert before_lookup(TERMS, a_lookup_job(0.9), is_there=True, is_open=False) == Lookup(0.5, 100.0)


def test_the_first_check_that_fails_is_the_reason() -> None:
    """Each of these fails all the checks below it, too."""
    order = [
        (FullRun(Miss.ROUTE), a_lookup_job(0.0, attempt=2, seed=1), False),
        (FullRun(Miss.INELIGIBLE, Refusal.SEED), a_lookup_job(0.05, attempt=2, seed=1), False),
        (FullRun(Miss.RETRY), a_lookup_job(0.05, attempt=2), False),
        (FullRun(Miss.STEPS), a_lookup_job(0.05), False),
        (FullRun(Miss.ABSENT), a_lookup_job(), False),
        (FullRun(Miss.BREAKER), a_lookup_job(), True),
    ]
    for expected, job, is_there in order:
        assert before_lookup(TERMS, job, is_there=is_there, is_open=True) == expected


def test_a_consent_that_nobody_knows_is_none() -> None:
    asked = asked_of(a_request(options=GenerateOptions(reuse="pool")), VARIANT, has_draft=False)
    assert asked.consent is Consent.OFF


def chosen(*candidates: Found, share: float = 0.5) -> tuple[Reuse | FullRun, list[str]]:
    """The decision, and the prompts that the guard read; those that begin with "same" state equal facts."""
    read: list[str] = []

    def compare(_one: str, other: str) -> Comparison:
        read.append(other)
        return Comparison(Verdict.EQUAL if other.startswith("same") else Verdict.UNSURE)

    return choose(TERMS, a_lookup_job(share), candidates, WANTED, compare, NOW), read


def test_prompts_are_compared_only_as_far_as_it_can_matter() -> None:
    assert chosen(found(0.95, "same"), found(0.92, "same too")) == (Reuse(5, 10, 0.95, 0), ["same"])
    assert chosen(found(0.95, "not"), found(0.92, "same")) == (Reuse(5, 10, 0.92, 1), ["not", "same"])
    assert chosen(found(0.95, "not"), found(0.8, "same"))[0] == Reuse(2, 10, 0.8, 1)
    assert chosen(found(0.5, "same")) == (FullRun(Miss.FLOOR), [])
    assert chosen(found(0.95, "not")) == (FullRun(Miss.GUARD), ["not"])


def test_an_equal_prompt_needs_no_reader() -> None:
    assert chosen(found(1.0, "a red heart")) == (Reuse(5, 10, 1.0, 0), [])


def test_the_prompt_of_a_neighbour_that_may_not_be_used_is_never_read() -> None:
    assert chosen(found(0.99, "same", tenant="b"), found(0.95, "same")) == (Reuse(5, 10, 0.95, 1), ["same"])
    assert chosen(found(0.99, "same", tenant="b")) == (FullRun(Miss.TENANT), [])


def test_without_a_guard_nothing_is_compared() -> None:
    terms = terms_of(a_reuse_plan(guard=None))
    decision = choose(terms, a_lookup_job(), [found(0.95, "not")], WANTED, lambda *_: pytest.fail("read"), NOW)
    assert decision == Reuse(5, 10, 0.95, 0)


def test_a_guard_that_allows_more_for_unsure_ones_is_obeyed() -> None:
    terms = terms_of(a_reuse_plan(guard=ReuseGuard(equal=0.5, unsure=0.3)))
    compare = Comparison(Verdict.UNSURE)
    assert choose(terms, a_lookup_job(), [found(0.95)], WANTED, lambda *_: compare, NOW) == Reuse(3, 10, 0.95, 0)


def test_that_somebody_elses_image_was_near_is_counted_but_never_said() -> None:
    assert outcome_of(FullRun(Miss.TENANT)) == "tenant"
    assert described(FullRun(Miss.TENANT), 10) == described(FullRun(Miss.NONE), 10) == StageReuse(steps=10, miss="none")
    assert described(FullRun(Miss.INELIGIBLE, Refusal.SEED), 10).miss == "ineligible/seed"
    assert described(Reuse(4, 10, 0.9, 2), 10) == StageReuse(step=4, steps=10, similarity=0.9)


def test_why_nothing_was_left_is_the_worst_that_was_returned() -> None:
    for dropped, miss in (
        ({}, Miss.NONE),
        ({"expired": 1, "tenant": 1}, Miss.TENANT),
        ({"damaged": 3}, Miss.RUBBISH),
    ):
        assert choose(TERMS, a_lookup_job(), [], WANTED, unasked, NOW, dropped) == FullRun(miss)
    assert choose(TERMS, a_lookup_job(), [found(0.1)], WANTED, unasked, NOW, {"tenant": 1}) == FullRun(Miss.FLOOR)
    assert [unfit_latent(kind) for kind in ("autoencoder", "shape", "broken", "values")] == [
        Miss.MODEL, Miss.DIMENSION, Miss.RUBBISH, Miss.RUBBISH,
    ]  # fmt: skip


def test_an_error_that_comes_as_the_time_ends_is_a_timeout_and_an_earlier_one_a_failure() -> None:
    assert without_answer(50.0, 100.0, is_cut=False).why is Miss.FAILED
    assert without_answer(10.0, 100.0, is_cut=False).why is Miss.TIMEOUT
    assert without_answer(50.0, 100.0, is_cut=True).why is Miss.TIMEOUT


def test_an_objects_name_says_whose_latent_it_is() -> None:
    uri = f"file:///images/ab/{latent_name('ann', 'job')}-0123456789abcdef.safetensors"
    assert is_named_for(uri, "ann")
    assert not is_named_for(uri, "bob")
    assert not is_named_for("file:///images/ab/job-0123456789abcdef.safetensors", "ann")
