"""HADIS's files."""

import pytest

from planner.catalog.curves import PairRow
from planner.catalog.published.hadis import PromptFeatures, hybrid_configs, prompt_features, scores
from planner.catalog.published.lines import InvalidPublished

HEADER = "light_model,heavy_model,router_ratio,disc_ratio,threshold,latency,fid\n"


def test_a_configuration_becomes_a_row_in_ms_and_of_negated_fid() -> None:
    rows = hybrid_configs(HEADER + "0,1,0.1,0.2,0.28,0.58,28.51\n", "h.csv", ("small", "large"))
    assert rows == (PairRow("small", "large", 0.1, 0.2, 580.0, -28.51),)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("0,2,0.1,0.2,0.28,0.58,28.51", r"h\.csv:2: two of the models 0\.\.1 are needed: got \(0, 2\)"),
        ("1,1,0.1,0.2,0.28,0.58,28.51", "two of the models"),
        ("0,1,1.1,0.2,0.28,0.58,28.51", r"h\.csv:2: router_ratio"),
        ("0,1,0.1,0.2,0.28,-1,28.51", "latency"),
        ("0,1,0.1,0.2,0.28,1,", "fid must be a number: got ''"),
    ],
)
def test_an_impossible_configuration_is_refused_with_its_line(line: str, told: str) -> None:
    with pytest.raises(InvalidPublished, match=told):
        hybrid_configs(HEADER + line + "\n", "h.csv", ("small", "large"))


def test_scores_are_by_model_prompt_and_image() -> None:
    text = "a,b\n0.1,0.5\n0.2,0.6\n0.3,0.7\n0.4,0.8\n"
    assert scores(text, "s.csv", images=2) == {"a": ((0.1, 0.2), (0.3, 0.4)), "b": ((0.5, 0.6), (0.7, 0.8))}
    with pytest.raises(InvalidPublished, match=r"s\.csv: a must have a multiple of 4 rows"):
        scores("a\n0.1\n", "s.csv")


def test_features_are_the_counts_of_each_prompt() -> None:
    header = ",".join(PromptFeatures._fields)
    (found,) = prompt_features(f'{header}\n"a cat, red",8,2,2,2,2,2,1,0\n', "p.csv")
    assert (found.prompt, found.prompt_length, found.named_entities) == ("a cat, red", 8, 0)
    with pytest.raises(InvalidPublished, match=r"p\.csv:2: token_rarity"):
        prompt_features(f"{header}\na,8,-2,2,2,2,2,1,0\n", "p.csv")
