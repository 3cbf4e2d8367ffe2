"""A classifier whose files are replaced while it serves."""

import os
import pathlib

import pytest

from agents.classifier.judges import Judgement
from agents.classifier.renewing import EVERY_S, RenewedClassifier
from schemas.errors import PochadeError


class Fixed:
    """A classifier with one answer."""

    def __init__(self, name: str, hardness: float) -> None:
        self.name, self._hardness = name, hardness

    def classify(self, prompt: str) -> Judgement:
        return Judgement(self._hardness, {}, prompt)


class Folder:
    """A folder with one file, which says the hardness; and a clock."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.file, self.now_s, self._writes = folder / "reference.json", 0.0, 0
        self.write("0.1")

    def write(self, text: str) -> None:
        self._writes += 1
        self.file.write_text(text)
        os.utime(self.file, ns=(self._writes, self._writes))

    def load(self) -> Fixed:
        text = self.file.read_text()
        if text == "broken":
            raise PochadeError("it is broken")
        return Fixed(f"v{text}", float(text))

    def open(self) -> RenewedClassifier:
        return RenewedClassifier(self.load, self.file, lambda: self.now_s)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Folder:
    return Folder(tmp_path)


def test_files_that_were_replaced_are_opened_at_the_next_look(folder: Folder) -> None:
    classifier = folder.open()
    folder.write("0.9")
    assert classifier.classify("a").hardness == 0.1
    folder.now_s = EVERY_S
    assert classifier.classify("a").hardness == 0.9
    assert classifier.name == "v0.9"


def test_the_old_one_goes_on_where_the_new_one_cannot_be_opened(folder: Folder) -> None:
    classifier = folder.open()
    folder.write("broken")
    folder.now_s = EVERY_S
    assert classifier.classify("a").hardness == 0.1
    folder.write("0.5")
    folder.now_s = 2 * EVERY_S
    assert classifier.classify("a").hardness == 0.5


def test_a_folder_that_went_away_changes_nothing(folder: Folder) -> None:
    classifier = folder.open()
    folder.file.unlink()
    folder.now_s = EVERY_S
    assert classifier.classify("a").hardness == 0.1
