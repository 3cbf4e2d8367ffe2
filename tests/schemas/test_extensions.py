"""Tables of parts: those that ship without a look at what is installed, those of packages by their entry points."""

import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from planner.catalog.engines import ENGINES
from planner.policies import POLICIES
from schemas import extensions
from schemas.errors import PochadeError, Unknown
from schemas.extensions import Table
from tests.paths import ROOT

GROUP = "pochade.tests"
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a package on the path: its module's text and its lines of entry points."""

    def put(package: str, points: str, text: str = "part = 'theirs'") -> None:
        folder = tmp_path / package
        about = folder / f"{package}-1.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        (about / "entry_points.txt").write_text(points)
        (folder / f"{package}.py").write_text(text)
        monkeypatch.syspath_prepend(str(folder))
        extensions._installed.cache_clear()

    extensions._installed.cache_clear()
    yield put
    extensions._installed.cache_clear()


def a_table() -> Table[str]:
    return Table("part", GROUP, {"own": "string:digits"})


def points(*lines: str) -> str:
    return "\n".join((f"[{GROUP}]", *lines, ""))


def test_a_part_of_an_installed_package_is_named_beside_those_that_ship(install: Install) -> None:
    install("first_parts", points("first = first_parts:part"))
    install("second_parts", points("second = second_parts:part"))
    table = a_table()
    assert table.names() == ["first", "own", "second"]
    assert (table.load("own"), table.load("first"), table.load("second")) == ("0123456789", "theirs", "theirs")
    assert list(table) == ["own"], "as a mapping it is what ships"


def test_an_unknown_name_says_what_is_known_the_nearest_and_the_group_that_was_looked_at(install: Install) -> None:
    install("first_parts", points("first = first_parts:part"))
    with pytest.raises(Unknown) as raised:
        a_table().load("fisrt")
    assert str(raised.value) == (
        "unknown part 'fisrt': did you mean 'first'? known are first, own; "
        f"looked for it in the entry-point group {GROUP} of the installed packages, too"
    )


def test_a_part_that_cannot_be_imported_says_whose_it_is_and_stops_no_other(install: Install) -> None:
    install("broken_parts", points("broken = broken_parts:part", "gone = nowhere:part"), "raise ValueError('no GPU')")
    install("first_parts", points("first = first_parts:part"))
    table = a_table()
    assert table.load("first") == "theirs"
    with pytest.raises(PochadeError, match=r"part 'broken' of package broken_parts .*broken_parts:part: .*no GPU"):
        table.load("broken")
    with pytest.raises(PochadeError, match=r"part 'gone' of package broken_parts .*No module named 'nowhere'"):
        table.load("gone")


def test_a_package_whose_entry_points_cannot_be_read_is_named_and_hides_no_other(install: Install) -> None:
    install("first_parts", points("first = first_parts:part"))
    install("unreadable_parts", points("a line without its sign"))
    assert a_table().load("first") == "theirs"
    with pytest.raises(Unknown, match=r"cannot be read: .*unreadable_parts-1.dist-info: "):
        a_table().check("second")


def test_a_name_of_two_packages_is_nobodys_and_one_that_ships_stays_ours(install: Install) -> None:
    install("first_parts", points("shared = first_parts:part", "own = first_parts:part"))
    install("second_parts", points("shared = second_parts:part"))
    table = a_table()
    with pytest.raises(PochadeError, match="named by package second_parts and package first_parts: uninstall"):
        table.load("shared")
    assert table.load("own") == "0123456789"


def test_a_package_that_an_earlier_folder_of_the_path_hides_is_no_second_one(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("first_parts", points("first = first_parts:part"))
    monkeypatch.setattr(sys, "path", [*sys.path, sys.path[0] + "/."])
    assert a_table().load("first") == "theirs"


def test_a_name_that_ships_looks_at_no_package() -> None:
    code = (
        "import sys; from planner.catalog.engines import ENGINES; from planner.policies import POLICIES\n"
        "ENGINES.check('diffusers'); POLICIES.check('joint'); POLICIES.load('random-split')\n"
        "from schemas.extensions import _installed\n"
        "print('importlib.metadata' in sys.modules, _installed.cache_info().misses)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False 0\n"


def test_every_part_that_ships_can_be_loaded() -> None:
    assert all(callable(policy) for policy in POLICIES.values())
    assert all(callable(ENGINES.load(name)) for name in ("profile", "chaos"))
