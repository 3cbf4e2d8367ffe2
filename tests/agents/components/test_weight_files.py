"""The digest of weight files is that of their bytes, and each file is read once for as long as it stays as it is."""

import hashlib
import os
import pathlib

from agents.components.weight_files import digest_of, digest_of_digests


def test_a_file_is_read_again_only_when_its_size_or_time_has_changed(tmp_path: pathlib.Path) -> None:
    known_in, file = tmp_path / "home" / "digests.json", tmp_path / "unet.safetensors"

    def said(data: bytes, at_s: int) -> str:
        file.write_bytes(data)
        os.utime(file, (at_s, at_s))
        return digest_of(file, known_in)

    first = said(b"one", 1)
    assert first == hashlib.sha256(b"one").hexdigest()
    assert said(b"two", 1) == first, "it is remembered by size and time"
    assert said(b"two", 2) == hashlib.sha256(b"two").hexdigest()
    known_in.write_text("no JSON")
    assert said(b"two", 2) == hashlib.sha256(b"two").hexdigest()


def test_a_folder_s_digest_is_of_all_its_weight_files(tmp_path: pathlib.Path) -> None:
    model = tmp_path / "model"
    for part in ("vae", "unet"):
        (model / part).mkdir(parents=True)
        (model / part / "a.safetensors").write_text(part)
    (model / "model_index.json").write_text("{}")
    files = {f"{part}/a.safetensors": hashlib.sha256(part.encode()).hexdigest() for part in ("unet", "vae")}
    assert digest_of(model, tmp_path / "digests.json") == digest_of_digests(files)
    assert digest_of(tmp_path / "home", tmp_path / "digests.json") == ""
