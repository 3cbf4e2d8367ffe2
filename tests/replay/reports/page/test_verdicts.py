"""What a report comes to, in sentences."""

import pytest

from replay.reports.page.verdicts import best, bests, headline, remarks
from tests.replay.reports.samples import CHANCE, a_policy, a_report

SURE = {"good": a_policy(quality=[0.95, 0.951, 0.952]), "poor": a_policy(quality=[0.90, 0.901, 0.902])}


def test_the_best_is_the_best_of_those_that_keep_the_limit() -> None:
    report = a_report({"late": a_policy(quality=[0.99], violation_rate=[0.2]), "kept": a_policy(quality=[0.9])})
    assert best(report, 0.02).policy == "kept"
    assert best(report, 0.5).policy == "late"
    assert best(report, 0.005).policy is None
    assert [found.policy for found in bests(report)] == [None, "kept", "kept", "kept"]


def test_of_fid_the_lowest_is_best() -> None:
    report = a_report({"high": a_policy(fid=[20.0], quality=[-20.0]), "low": a_policy(fid=[18.0], quality=[-18.0])})
    assert best(report, 0.02).policy == "low"
    assert headline(report).startswith("With at most 2 % violations low is best: FID 18.00, 2.00 better than high")


def test_the_title_has_the_difference_to_the_next_best_and_how_sure_it_is() -> None:
    assert headline(a_report(SURE)) == (
        "With at most 2 % violations good is best: quality 0.9510, 0.0500 better than poor "
        "(95 % interval 0.0500 to 0.0500)"
    )


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        (
            {"a": a_policy(quality=[0.90, 0.95]), "b": a_policy(quality=[0.93, 0.91])},
            "which cannot be distinguished from b",
        ),
        ({"a": a_policy(quality=[0.95]), "b": a_policy(quality=[0.9])}, "0.0500 better than b in the one seed"),
        ({"a": a_policy(quality=[0.95001]), "b": a_policy(quality=[0.95])}, "level with b in the one seed"),
        ({"a": a_policy(quality=[0.95]), "b": a_policy(quality=[0.95])}, "the same as b"),
        ({"a": a_policy()}, "no other policy keeps that limit"),
        ({"a": a_policy(violation_rate=[0.4])}, "No policy keeps violations under 2 %: the fewest are a's, 40.00 %"),
    ],
)
def test_the_title_does_not_claim_more_than_was_found(policies: dict[str, object], said: str) -> None:
    assert said in headline(a_report(policies))


def test_the_best_policy_is_compared_with_the_split_by_chance() -> None:
    policies = {"ours": a_policy(quality=[0.90, 0.91]), CHANCE: a_policy(quality=[0.95, 0.961])}
    (ours,) = remarks(a_report({"ours": a_policy(quality=[0.9, 0.9]), CHANCE: a_policy(quality=[0.8, 0.8])}))
    assert CHANCE in ours
    assert ours.endswith("ours beside by-chance: quality better, violations equal.")
    assert remarks(a_report(policies)) == [], "the split by chance is the best"


def test_a_report_without_the_split_by_chance_says_what_it_cannot_tell() -> None:
    assert "was not simulated" in remarks(a_report({"ours": a_policy()}))[0]


def test_a_policy_that_chance_equals_is_called_so() -> None:
    policies = {"ours": a_policy(quality=[0.90, 0.94]), CHANCE: a_policy(quality=[0.91, 0.92])}
    assert remarks(a_report(policies))[0].endswith("quality not distinguishable, violations equal.")


def test_a_policy_beside_chance_is_judged_by_violations_too() -> None:
    policies = {
        "ours": a_policy(quality=[0.93, 0.94], violation_rate=[0.0, 0.0]),
        CHANCE: a_policy(quality=[0.94, 0.93], violation_rate=[0.11, 0.1134]),
    }
    assert remarks(a_report(policies))[0] == (
        f"{CHANCE}, which routes requests to the heavy model at random, has quality 0.9350 at 11.17 % violations; "
        f"ours has quality 0.9350 at 0.00 % violations. "
        f"ours beside {CHANCE}: quality not distinguishable, violations fewer."
    )


def test_one_seed_says_nothing_on_being_distinguishable() -> None:
    policies = {"ours": a_policy(quality=[0.9]), CHANCE: a_policy(quality=[0.6], violation_rate=[0.0033])}
    said = [headline(a_report(policies)), *remarks(a_report(policies))]
    assert not any("distinguish" in sentence for sentence in said), said
    assert said[1].endswith("has quality 0.6000 at 0.33 % violations; ours has quality 0.9000 at 1.00 % violations.")
    assert said[-1] == "One seed was run, which does not show how much of a difference is chance. Add --seeds 10."


def test_a_single_seed_is_warned_of() -> None:
    assert any("One seed was run" in remark for remark in remarks(a_report()))
    assert not any("One seed" in remark for remark in remarks(a_report(SURE)))


def test_where_the_baseline_answered_another_share_than_it_was_asked_for_both_are_said() -> None:
    """One worker cannot hold two models: the baseline answers all by one level, whatever share was asked for."""
    policies = {"ours": a_policy(heavy_share=[0.29]), CHANCE: a_policy(heavy_share=[0.0], quality=[0.5])}
    policies["ours"]["by_level"] = {"light": 71, "heavy": 29}
    asked = {"ours": {}, CHANCE: {"heavy_share": 0.29}}
    said = f"{CHANCE} was asked to answer 29 % of the requests by the best level, but 0.0 % of its answers are"
    assert remarks(a_report(policies, parameters=asked, workers=1))[1] == (
        f"{said} by that level: one worker cannot hold two models."
    )
    (found,) = [each for each in remarks(a_report(policies, parameters=asked)) if each.startswith(said)]
    assert "a request that one level would end too late goes to another" in found
    one_level = {name: row | {"by_level": {"heavy": 100}} for name, row in policies.items()}
    assert not any("was asked" in each for each in remarks(a_report(one_level, parameters=asked)))
    ran = policies | {CHANCE: a_policy(heavy_share=[0.3], quality=[0.5])}
    assert not any("was asked" in each for each in remarks(a_report(ran, parameters=asked)))
