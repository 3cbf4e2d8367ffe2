"""Images of containers: two builds are equal, skopeo and umoci read them, each role serves from a read-only root."""

import json
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from infra.images.build import CACHE, IMAGES, ROOT, SERVING, Built, build
from infra.images.rootfs import pins
from infra.images.tools import tool
from schemas.errors import PochadeError
from streams.kafka.topics import create_topics
from streams.settings import Settings
from tests.integration.waiting import ask, poll_until
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.broker, pytest.mark.timeout(3600)]

MB = 1_000_000
READY_CPU_S = 2.0
FEW = {"filelock", "fsspec", "tqdm"}  # of the wheels that `worker` has beside those of `serving`
ROLES = ("planner", "classifier", "router", "worker", "discriminator", "ledger", "gateway", "console")  # in this order

# ROOT HOME COMMAND...: /tmp is writable, and so is the home, where HOME is no "-"; the rest is not
INSIDE = """
set -eu
root=$1 home=$2; shift 2
mount --bind "$root" "$root"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
[ "$home" = - ] || mount --bind "$home" "$root/var/lib/pochade"
mount -t tmpfs tmpfs "$root/dev"
for each in null zero urandom; do touch "$root/dev/$each"; mount --bind "/dev/$each" "$root/dev/$each"; done
mount -t proc proc "$root/proc"
mount -o remount,ro,bind "$root"
exec chroot --userspec=65532:65532 "$root" "$@"
"""
WRITING = """
import sys
for folder in sys.argv[1:]:
    try:
        open(folder + "/file", "w").close()
        print(folder)
    except OSError:
        pass
"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("images")


@pytest.fixture(scope="module")
def built(out: pathlib.Path) -> Built:
    try:
        return build("serving", out)
    except (PochadeError, OSError) as error:
        pytest.skip(f"no image can be built here: {error}")


@pytest.fixture(scope="module")
def root(built: Built, out: pathlib.Path) -> Iterator[pathlib.Path]:
    """The root of the unpacked image."""
    assert built.digest
    done = run(*tool("umoci", CACHE), "unpack", "--image", f"{out}/serving:latest", str(out / "unpacked"))
    assert done.returncode == 0, done.stderr
    yield out / "unpacked" / "rootfs"
    shutil.rmtree(out / "unpacked")


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **variables})


def inside(root: pathlib.Path, home: "pathlib.Path | str", *command: str) -> list[str]:
    return ["unshare", "--mount", "bash", "-c", INSIDE, "inside", str(root), str(home), *command]


@pytest.fixture
def home(root: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder of the image's user; skips where roots cannot be changed."""
    tried = run(*inside(root, "-", "pochade", "--version"), **environment(root, ""))
    if tried.returncode != 0:
        pytest.skip(f"no chroot with mounts of its own is allowed here: {tried.stderr.strip()[-300:]}")
    folder = tmp_path / "home"
    folder.mkdir()
    os.chown(folder, 65532, 65532)
    return folder


def environment(root: pathlib.Path, brokers: str) -> dict[str, str]:
    """What the image's config sets, and which deployment it is."""
    return {
        **stated_by(root.parents[1] / "serving"),
        "POCHADE_KAFKA__BOOTSTRAP_SERVERS": brokers,
        "POCHADE_CATALOG": "profile",
    }


def stated_by(layout: pathlib.Path) -> dict[str, str]:
    """The variables that an image's config sets."""
    (described,) = json.loads((layout / "index.json").read_text())["manifests"]
    manifest = json.loads((layout / "blobs" / described["digest"].replace(":", "/")).read_text())
    config = json.loads((layout / "blobs" / manifest["config"]["digest"].replace(":", "/")).read_text())["config"]
    stated = dict(each.split("=", 1) for each in config["Env"])
    stated["PATH"] += ":/usr/sbin:/bin"  # for what calls chroot
    return stated


def test_serving_is_small_and_mostly_what_others_make(built: Built) -> None:
    total = built.sizes["total"]
    print({name: each._asdict() for name, each in built.sizes.items()})
    assert total.file_bytes <= 250 * MB
    assert total.compressed_bytes <= 90 * MB
    assert built.sizes["pochade"].file_bytes < total.file_bytes / 10


def test_two_builds_have_the_same_digest(built: Built, tmp_path: pathlib.Path) -> None:
    assert build("serving", tmp_path).digest == built.digest


def test_an_image_of_models_shares_the_layers_of_serving_and_adds_its_own(
    built: Built, out: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the recipe of `worker`, with a few small wheels of its lock: all of them are several GB."""
    images = IMAGES["worker"]
    pinned = pins((ROOT / images.lock).read_text())
    few = {name: pin for name, pin in pinned.items() if name in {*pins((ROOT / SERVING).read_text()), *FEW}}
    (tmp_path / "few.lock").write_text("".join(few.values()))
    monkeypatch.setitem(IMAGES, "worker", images._replace(lock=str(tmp_path / "few.lock")))
    other = build("worker", tmp_path)
    assert list(other.sizes) == ["total", "debian", "wheels", "wheels-models", "pochade"]
    ours, theirs = layers_of(out / "serving"), layers_of(tmp_path / "worker")
    assert built.digest != other.digest
    assert [theirs[name] == ours[name] for name in ("debian", "wheels", "pochade")] == [True, True, False]
    assert "filelock" in (tmp_path / "worker.licences.tsv").read_text()


def layers_of(layout: pathlib.Path) -> dict[str, str]:
    """Layer -> digest."""
    (described,) = json.loads((layout / "index.json").read_text())["manifests"]
    manifest = json.loads((layout / "blobs" / described["digest"].replace(":", "/")).read_text())
    return {each["annotations"]["org.opencontainers.image.title"]: each["digest"] for each in manifest["layers"]}


def test_skopeo_reads_it_and_the_bill_has_every_package_with_its_licence(built: Built, out: pathlib.Path) -> None:
    said = run(*tool("skopeo", CACHE), "inspect", f"oci:{out}/serving:latest")
    assert json.loads(said.stdout)["Digest"] == built.digest
    bill = json.loads((out / "serving.cdx.json").read_text())
    names = {each["name"].lower().replace("_", "-") for each in bill["components"]}
    assert {"libc6", "numpy", "pochade", "confluent-kafka"} <= names
    rows = [line.split("\t") for line in (out / "serving.licences.tsv").read_text().splitlines()]
    assert {row[1].lower().replace("_", "-") for row in rows} == names
    assert all(row[3] or row[4] for row in rows)


def test_every_library_finds_what_it_needs(root: pathlib.Path) -> None:
    """Packages that only installation needs are left out, and none other."""
    libraries = [each for each in root.rglob("*.so*") if each.is_file() and not each.is_symlink()]
    loader = root / "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
    where = f"{loader.parent}:{':'.join(map(str, root.glob('usr/local/lib/python3.11/dist-packages/*.libs')))}"
    lacking = {}
    for each in libraries:
        said = run(str(loader), "--inhibit-cache", "--library-path", where, "--list", str(each))
        if missing := re.findall(r"(\S+) => not found", said.stdout):
            lacking[each.name] = missing
    assert len(libraries) > 100
    assert lacking == {}


def test_only_the_home_and_tmp_can_be_written(root: pathlib.Path, home: pathlib.Path) -> None:
    folders = ["/", "/etc", "/usr/bin", "/var", "/var/tmp", "/tmp", "/var/lib/pochade"]
    done = run(*inside(root, home, "/usr/bin/python3", "-c", WRITING, *folders), **environment(root, ""))
    assert done.stdout.split() == ["/tmp", "/var/lib/pochade"]


def test_each_role_is_ready_within_two_seconds_of_a_processor(
    root: pathlib.Path, home: pathlib.Path, settings: Settings, tmp_path: pathlib.Path
) -> None:
    """Against a broker outside of it; the planner stays, as workers are ready once there is a plan."""
    create_topics(settings, ["light", "heavy"])
    used, running = {}, []
    try:
        for role in ROLES:
            process, address = started(root, home, settings, role, tmp_path / f"{role}.log")
            running.append(process)
            poll_until(lambda at=address: ask(f"{at}/readyz")[0] == 200, (tmp_path / f"{role}.log").read_text)  # type: ignore[misc]
            used[role] = cpu_s(process.pid)
        print(", ".join(f"{role} {seconds:.2f} s" for role, seconds in used.items()))
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(PATIENCE_S)
    assert max(used.values()) <= READY_CPU_S, used


def started(
    root: pathlib.Path, home: pathlib.Path, settings: Settings, role: str, log: pathlib.Path
) -> "tuple[subprocess.Popen[bytes], str]":
    """A role that starts in the image, and the address of its health."""
    values = [f"kafka.prefix={settings.kafka.prefix}", "worker.id=one", "gateway.port=0", "console.port=0"]
    command = ["pochade", *(part for each in values for part in ("--set", each)), "serve", role]
    with log.open("wb") as output:
        known = environment(root, settings.broker_address())
        process = subprocess.Popen(inside(root, home, *command), env=known, stdout=output, stderr=output)
    found = poll_until(lambda: re.search(r"metrics on (http://[\d.:]+)", log.read_text()), log.read_text)
    assert found is not None
    return process, found[1]


def cpu_s(pid: int) -> float:
    """The processor time that a process, which was `unshare`, has used with what it waited for."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("role", ["classifier", "router", "discriminator", "gateway"])
def test_a_home_that_cannot_be_written_is_one_sentence(
    root: pathlib.Path, home: pathlib.Path, settings: Settings, role: str
) -> None:
    assert home
    create_topics(settings, ["light", "heavy"])
    words = ["--set", f"kafka.prefix={settings.kafka.prefix}", "--set", "gateway.port=0", "serve", role]
    done = run(*inside(root, "-", "pochade", *words), **environment(root, settings.broker_address()))
    errors = [line for line in done.stderr.splitlines() if not re.match(r"\d{4}-\d\d-\d\dT", line)]
    assert done.returncode == 1
    assert len(errors) == 1
    assert re.match(r"error: .*Read-only file system", errors[0])


@pytest.mark.skipif(
    "TEST_WORKER_IMAGE" not in os.environ, reason="TEST_WORKER_IMAGE names no folder with a built worker"
)
def test_the_worker_generates_with_the_tiny_models_from_a_read_only_root(tmp_path: pathlib.Path) -> None:
    """All roles in one process; 6 GB are unpacked beside the layout, once."""
    out = pathlib.Path(os.environ["TEST_WORKER_IMAGE"])
    if not (out / "unpacked").exists():
        done = run(*tool("umoci", CACHE), "unpack", "--image", f"{out}/worker:latest", str(out / "unpacked"))
        assert done.returncode == 0, done.stderr
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 65532, 65532)
    command = ["pochade", "try", "a red heart", "--out", "/var/lib/pochade/out"]
    tried = run(*inside(out / "unpacked" / "rootfs", home, *command), **stated_by(out / "worker"), OMP_NUM_THREADS="1")
    assert tried.returncode == 0, tried.stderr
    assert "COMPLETED  a red heart" in tried.stdout
    (image,) = (home / "out").glob("a-red-heart-*.png")
    assert image.read_bytes().startswith(b"\x89PNG")
