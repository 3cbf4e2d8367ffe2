"""Learns a classifier again when the images of a deployment have become worse, and puts it in the place of the old one.

Source: ARGUS 4.1, 5.5: retraining is triggered by drift, off the critical path. The score of an image is the confidence
of the deployment's discriminator in the first image of a request, which every request of a cascade has, whatever became
of it. Ours: the new one takes over only if it is better on prompts that neither has learned from.
"""

import json
import os
import queue
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from agents.classifier.judges import REFERENCE, open_judge
from agents.learning.catalog import NAME
from agents.learning.learning import Asked, Worth, learn, pair_of, worth_of
from planner.catalog.model import Catalog
from planner.observation.drift import Drift, DriftWatch
from schemas.errors import InvalidRecord, PochadeError
from schemas.record import Incoming
from schemas.topics import RESULTS
from streams.codec.avro import decode_result
from streams.kafka.consumers.consumer import TopicTailer
from streams.settings import Settings
from streams.shipped import INFRA


def drifts(settings: Settings, watch: DriftWatch) -> Iterator[Drift]:
    """Yield each drift of the results that come from now on, for ever."""
    found = queue.SimpleQueue[Drift]()

    def take(record: Incoming) -> None:
        score = first_confidence(record)
        drift = None if score is None else watch.add(score)
        if drift is not None:
            found.put(drift)

    with closing(TopicTailer(settings, [RESULTS], take, since_ms=None).start()):
        while True:
            yield found.get()


def first_confidence(record: Incoming) -> float | None:
    """Return the confidence in the first image of a result; None where it was not judged."""
    try:
        stages = json.loads(decode_result(record.value).path)
    except (InvalidRecord, ValueError):
        return None
    confidence = stages[0].get("confidence") if stages else None
    return None if confidence is None else float(confidence)


def served_folder(catalog: Catalog) -> Path:
    """Return the folder of the learned classifier that the catalog names first. Raises PochadeError without one."""
    for entry in catalog.classifiers.values():
        if entry.engine == "learned":
            return INFRA / entry.folder
    raise PochadeError(f"catalog {catalog.name!r} names no learned classifier to replace: serve one of `pochade learn`")


def retrain(asked: Asked) -> tuple[Worth, Worth, bool]:
    """Learn a classifier in <out>/retrained; return what it and the one in force are worth, and whether it took over.

    Both are measured on the same held-out prompts. Raises as `learn`, and PochadeError where there is none in force.
    """
    folder, out = served_folder(asked.catalog), asked.out / "retrained"
    in_force = open_judge(asked.catalog)
    learned = learn(replace(asked, fitting=asked.fitting._replace(discriminator=""), out=out))
    new = learned.worth["classifier"]
    light, heavy = (learned.found.generated[name].quality for name in pair_of(asked.catalog))
    hardness = np.array([in_force.classify(prompt).hardness for prompt in learned.wanted.asked.prompts])
    old = worth_of(hardness, light, heavy, asked.seed)
    is_better = new.is_promoted and not new.recovery <= old.recovery
    if is_better:
        put_in_place(out / "classifiers" / NAME, folder)
    return new, old, is_better


def put_in_place(new: Path, folder: Path) -> None:
    """Replace the files of a folder one by one, the reference last: then roles open the folder again."""
    files = sorted((file for file in new.rglob("*") if file.is_file()), key=lambda file: file.name == REFERENCE)
    for file in files:
        target = folder / file.relative_to(new)
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f"{target.name}.new")
        beside.write_bytes(file.read_bytes())
        os.replace(beside, target)
