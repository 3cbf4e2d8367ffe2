"""Drift as it shows in the results of a deployment."""

import json
import pathlib
from collections.abc import Callable, Sequence

import pytest

from agents.learning import retraining
from agents.learning.retraining import drifts, first_confidence, put_in_place, served_folder
from planner.observation.drift import DriftWatch
from schemas.errors import PochadeError
from schemas.record import Incoming
from schemas.topics import RESULTS
from streams.codec.avro import encode_result
from streams.settings import Settings, load
from tests.agents.gateway.deployment import ended
from tests.builders import a_catalog


def a_record(*confidences: float | None, offset: int = 0) -> Incoming:
    """A result whose stages have these confidences."""
    path = json.dumps([{"level": "light", "confidence": each} for each in confidences])
    value = encode_result(ended(path=path), "avro")
    return Incoming(topic=RESULTS, partition=0, offset=offset, timestamp_ms=0, key=b"r", value=value)


def test_the_first_image_s_confidence_counts_whatever_became_of_it() -> None:
    assert first_confidence(a_record(0.25, None)) == 0.25
    assert first_confidence(a_record(None)) is None
    assert first_confidence(a_record()) is None
    unreadable = Incoming(topic=RESULTS, partition=0, offset=0, timestamp_ms=0, key=b"r", value=b"nothing of ours")
    assert first_confidence(unreadable) is None


def test_results_that_become_worse_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Topic:
        """Hands over records at once, and knows whether it was closed."""

        is_closed = False

        def __init__(
            self, _settings: Settings, _topics: Sequence[str], take: Callable[[Incoming], None], *, since_ms: int | None
        ) -> None:
            assert since_ms is None, "the past is of other classifiers"
            self._take = take

        def start(self) -> "Topic":
            for confidence in [0.8, 0.9] * 10 + [0.1, 0.2] * 5:
                self._take(a_record(confidence))
            return self

        def close(self) -> None:
            Topic.is_closed = True

    monkeypatch.setattr(retraining, "TopicTailer", Topic)
    following = drifts(load({}), DriftWatch(10, error=0.01))
    drift = next(following)
    assert (drift.median, drift.before) == pytest.approx((0.15, 0.85))
    following.close()  # type: ignore[attr-defined]
    assert Topic.is_closed


def test_files_are_put_in_place_with_the_reference_last(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, served = tmp_path / "new", tmp_path / "served"
    for name in ("reference.json", "config.json", "network/model.safetensors"):
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        (new / name).write_text(f"new {name}")
    written: list[str] = []
    replace = retraining.os.replace
    monkeypatch.setattr(retraining.os, "replace", lambda old, to: (written.append(to.name), replace(old, to)))
    put_in_place(new, served)
    assert written[-1] == "reference.json"
    assert (served / "network" / "model.safetensors").read_text() == "new network/model.safetensors"
    assert sorted(each.name for each in served.iterdir()) == ["config.json", "network", "reference.json"]


def test_a_deployment_without_a_learned_classifier_has_none_to_replace() -> None:
    with pytest.raises(PochadeError, match="names no learned classifier to replace"):
        served_folder(a_catalog())
