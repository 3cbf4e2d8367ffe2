"""Layers and layouts of images are the same bytes for the same files, and what they are made from is locked."""

import base64
import gzip
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tarfile

import pytest

from infra.images import contents, debian, rootfs
from infra.images.build import IMAGES, ROOT, SERVING, main
from infra.images.layers import MADE_S, USER, Layer, write_layer
from infra.images.layout import Named, write_layout
from schemas.errors import PochadeError

FILES = {"usr/bin/tool": 0o755, "usr/lib/text": 0o640, "etc/other": 0o600}


def a_tree(folder: pathlib.Path, names: "list[str]", made_s: float) -> pathlib.Path:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
        file.chmod(FILES[name])
        os.utime(file, (made_s, made_s))
    (folder / "bin").symlink_to("usr/bin")
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    (folder / "home").mkdir(mode=0o700)
    return folder


def entries(file: pathlib.Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(file) as tar:
        return {each.name: each for each in tar}


def test_a_layer_depends_on_the_files_and_on_neither_times_nor_order(tmp_path: pathlib.Path) -> None:
    one = write_layer(a_tree(tmp_path / "one", list(FILES), 1e9), tmp_path / "1.tar.gz", users=frozenset({"home"}))
    two = write_layer(a_tree(tmp_path / "two", [*FILES][::-1], 2e9), tmp_path / "2.tar.gz", users=frozenset({"home"}))
    assert one == two
    packed = (tmp_path / "1.tar.gz").read_bytes()
    assert packed == (tmp_path / "2.tar.gz").read_bytes()
    assert one.digest == f"sha256:{hashlib.sha256(packed).hexdigest()}"
    assert one.diff_id == f"sha256:{hashlib.sha256(gzip.decompress(packed)).hexdigest()}"
    assert (one.compressed_bytes, one.file_bytes) == (len(packed), sum(map(len, FILES)))


def test_root_owns_all_but_the_folder_that_may_be_written(tmp_path: pathlib.Path) -> None:
    write_layer(a_tree(tmp_path / "tree", list(FILES), 1e9), tmp_path / "layer", users=frozenset({"home"}))
    found = entries(tmp_path / "layer")
    assert list(found) == sorted(found)
    assert {name: each.uid for name, each in found.items() if each.uid or each.gid} == {"home": USER}
    assert {each.mtime for each in found.values()} == {MADE_S}
    modes = {name: oct(each.mode) for name, each in found.items() if not each.issym()}
    assert modes == {
        "etc": "0o755", "etc/other": "0o644", "home": "0o755", "tmp": "0o1777", "usr": "0o755", "usr/bin": "0o755",
        "usr/bin/tool": "0o755", "usr/lib": "0o755", "usr/lib/text": "0o644",
    }  # fmt: skip
    assert found["bin"].linkname == "usr/bin"


def test_a_layer_has_no_whiteout_and_no_device(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/.wh.file").touch()
    with pytest.raises(ValueError, match=r"\.wh\.file is no file, folder or link"):
        write_layer(tmp_path / "tree", tmp_path / "layer")
    (tmp_path / "tree/.wh.file").unlink()
    os.mkfifo(tmp_path / "tree/pipe")
    with pytest.raises(ValueError, match="pipe is no file"):
        write_layer(tmp_path / "tree", tmp_path / "layer")


def test_a_layout_names_every_blob_by_its_digest(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tree").mkdir()
    layer: Layer = write_layer(tmp_path / "tree", tmp_path / "layer")
    config = {"User": "65532:65532"}
    digest = write_layout(tmp_path / "out", "latest", [Named("all", layer, tmp_path / "layer")], config, {"a": "b"})
    blobs = {each.name: each.read_bytes() for each in (tmp_path / "out/blobs/sha256").iterdir()}
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in blobs.items())
    (described,) = json.loads((tmp_path / "out/index.json").read_text())["manifests"]
    assert described["digest"] == digest
    manifest = json.loads(blobs[digest.removeprefix("sha256:")])
    about = json.loads(blobs[manifest["config"]["digest"].removeprefix("sha256:")])
    assert about["config"] == {"User": "65532:65532", "Labels": {"a": "b"}}
    assert about["rootfs"]["diff_ids"] == [layer.diff_id]
    assert [each["digest"] for each in manifest["layers"]] == [layer.digest]
    assert json.loads((tmp_path / "out/oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}


def test_debian_packages_are_locked_by_version_and_hash_and_by_no_address() -> None:
    text = debian.LOCK.read_text()
    names = [each.name for each in debian.locked(text)]
    assert {"python3.11-minimal", "libc6", "libssl3", "ca-certificates"} <= set(names)
    assert len(names) == len(set(names))
    assert not set(names) & debian.LEFT_OUT
    assert not re.search(r"://|deb\.", text)
    with pytest.raises(PochadeError, match="the line 'libc6=1', not NAME=VERSION sha256:HEX"):
        debian.locked("libc6=1\n")


def test_an_image_of_models_has_serving_s_wheels_as_they_are_and_others_besides() -> None:
    serving, worker = (rootfs.pins((ROOT / name).read_text()) for name in (SERVING, IMAGES["worker"].lock))
    assert serving.items() <= worker.items()
    assert {"torch", "diffusers"} <= worker.keys() - serving.keys()
    assert serving["numpy"].count("numpy==") > 1, "markers choose one of several, and all are kept"


def test_a_package_file_that_is_not_the_locked_one_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debian, "download", lambda folder, *_: pathlib.Path(folder, "x_1.deb").write_text("other"))
    with pytest.raises(PochadeError, match=r"x_1\.deb has SHA-256 \w+, which is not the locked one"):
        debian.fetched([debian.Package("x", "1", "0" * 64)], tmp_path)


def test_without_a_torch_for_cpus_one_sentence_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worker-cpu"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("error: there is no requirements-worker-cpu.lock")


def test_a_key_signs_the_digest(tmp_path: pathlib.Path) -> None:
    key, public, signed = (tmp_path / name for name in ("key.pem", "key.pub", "serving.signed.json"))
    subprocess.run(
        ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key], check=True, timeout=60
    )
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True)
    contents.sign("sha256:abc", "pochade-serving", key, signed)
    assert json.loads(signed.read_text())["critical"]["image"] == {"docker-manifest-digest": "sha256:abc"}
    raw = tmp_path / "raw"
    raw.write_bytes(base64.b64decode(signed.with_suffix(".sig").read_text()))
    check = ["openssl", "dgst", "-sha256", "-verify", public, "-signature", raw]
    assert subprocess.run([*check, signed], capture_output=True, check=False).returncode == 0
    signed.write_text(signed.read_text().replace("abc", "abd"))
    assert subprocess.run([*check, signed], capture_output=True, check=False).returncode == 1
    with pytest.raises(PochadeError, match="give a private key in PEM without a password"):
        contents.sign("sha256:abc", "pochade-serving", public, signed)


def test_a_deb_s_licences_are_those_that_its_copyright_file_names(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "usr/share/doc/x/copyright"
    file.parent.mkdir(parents=True)
    file.write_text("Format: 1.0\nLicense: GPL-2+\n text\nLicense: MIT\nLicense: GPL-2+\n")
    (found,) = contents.licences(tmp_path, [debian.Package("x", "1", "0" * 64)], [])
    assert found == ("deb", "x", "1", "GPL-2+; MIT", "/usr/share/doc/x/copyright")


def a_wheel(layer: pathlib.Path, name: str, *files: str) -> None:
    about = layer / rootfs.PACKAGES / f"{name}-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1\n")
    (about / "RECORD").write_text("".join(f"{each},,\n" for each in (f"{name}-1.dist-info/METADATA", *files)))


def test_a_wheel_of_metadata_alone_needs_no_licence_and_one_with_code_does(tmp_path: pathlib.Path) -> None:
    a_wheel(tmp_path, "meta")
    assert contents.licences(tmp_path, [], [tmp_path]) == [("wheel", "meta", "1", contents.METADATA_ALONE, "")]
    a_wheel(tmp_path, "code", "code/__init__.py")
    with pytest.raises(PochadeError, match=r"no licence is stated by code$"):
        contents.licences(tmp_path, [], [tmp_path])
