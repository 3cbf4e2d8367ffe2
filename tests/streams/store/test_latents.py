"""Latents: what they must be, the bytes they are stored as, and that damaged bytes never become a latent."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from streams.store.latents import EXTENSION, Latent, LatentSpace, UnfitLatent, from_bytes, to_bytes
from tests.memory_store import MemoryImageStore

SPACE = LatentSpace("0ddba11", channels=8, factor=4)


def a_latent(dtype: type = np.float32, autoencoder: str = "0ddba11", side: int = 12) -> Latent:
    values: np.ndarray = np.random.default_rng(1).normal(size=(8, side, side)).astype(dtype)
    return Latent(values=values, autoencoder=autoencoder)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_latent_comes_back_from_its_bytes_as_it_was(dtype: type) -> None:
    latent = a_latent(dtype)
    back = from_bytes(to_bytes(latent))
    assert back.values.dtype == dtype
    assert np.array_equal(back.values, latent.values)
    assert back.autoencoder == latent.autoencoder


def test_values_that_lie_otherwise_in_memory_are_stored_in_their_order() -> None:
    latent = a_latent()
    turned = Latent(values=np.asfortranarray(latent.values), autoencoder=latent.autoencoder)
    assert to_bytes(turned) == to_bytes(latent)


def test_equal_latents_have_equal_bytes_in_every_process_and_so_one_key() -> None:
    store, latent = MemoryImageStore(), a_latent()
    uri = store.put("job", to_bytes(latent), EXTENSION)
    assert uri.endswith(".safetensors")
    assert {store.put("job", to_bytes(a_latent()), EXTENSION) for _ in range(20)} == {uri}
    script = "import sys; from tests.streams.store.test_latents import *; sys.stdout.write(to_bytes(a_latent()).hex())"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == to_bytes(latent).hex()


def test_any_reader_of_safetensors_can_open_it() -> None:
    latent = a_latent()
    (values,) = load(to_bytes(latent)).values()
    assert np.array_equal(values, latent.values)


@given(at=st.integers(0, 10_000), to=st.integers(0, 255))
def test_a_damaged_byte_is_noticed_or_changes_nothing(at: int, to: int) -> None:
    latent = a_latent(np.float16, side=4)
    data = bytearray(to_bytes(latent))
    data[at % len(data)] = to
    try:
        back = from_bytes(bytes(data))
    except UnfitLatent:
        return
    assert np.array_equal(back.values, latent.values)
    assert back.autoencoder == latent.autoencoder


@given(length=st.integers(0, 600))
def test_a_latent_that_was_cut_short_is_broken(length: int) -> None:
    data = to_bytes(a_latent(np.float16, side=4))
    with pytest.raises(UnfitLatent, match="are no stored latent") as refused:
        from_bytes(data[: min(length, len(data) - 1)])
    assert refused.value.kind == "broken"


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n" + bytes(64),
        save({"latent": np.zeros((8, 4, 4), np.float16)}),
        save({"latent": np.zeros((8, 4, 4), np.float16)}, {"latent": "0ddba11"}),
        save({"other": np.zeros((8, 4, 4), np.float16)}, {"latent": "0ddba11 00"}),
        save({"latent": np.zeros((8, 4, 4), np.float16)}, {"other": "0ddba11 00"}),
        (23).to_bytes(8, "little") + b'{"__metadata__":null}  ',
        (81).to_bytes(8, "little")
        + b'{"__metadata__":null,"latent":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}  ab',
    ],
)
def test_bytes_of_something_else_are_broken(data: bytes) -> None:
    with pytest.raises(UnfitLatent) as refused:
        from_bytes(data)
    assert refused.value.kind == "broken"


@given(data=st.binary(max_size=200))
def test_any_other_bytes_are_refused_and_raise_nothing_else(data: bytes) -> None:
    with pytest.raises(UnfitLatent):
        from_bytes(data)


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        (np.zeros((8, 4, 4)), "dtype", "must be float16 or float32: got float64"),
        (np.zeros((8, 4, 4), np.int32), "dtype", "got int32"),
        (np.zeros((8, 4, 4), ">f4"), "dtype", "got >f4"),
        (np.zeros((1, 8, 4, 4), np.float16), "shape", r"got \[1, 8, 4, 4\]"),
        (np.full((8, 4, 4), np.nan, np.float16), "values", "not a number"),
        (np.full((8, 4, 4), -np.inf, np.float32), "values", "infinite"),
    ],
)
def test_what_is_no_latent_is_refused_with_the_reason(values: np.ndarray, kind: str, said: str) -> None:
    with pytest.raises(UnfitLatent, match=said) as refused:
        Latent(values=values, autoencoder="0ddba11")
    assert refused.value.kind == kind


def test_a_latent_fits_images_of_its_own_size_only() -> None:
    SPACE.check(a_latent(), 48, 48)
    with pytest.raises(UnfitLatent, match=r"48 x 64 px cannot begin with a latent of \[8, 12, 12\], not \[8, 16, 12\]"):
        SPACE.check(a_latent(), 48, 64)


def test_a_latent_of_another_autoencoder_is_refused_though_its_shape_fits() -> None:
    with pytest.raises(UnfitLatent, match="latent of autoencoder c0ffee, not 0ddba11") as refused:
        SPACE.check(a_latent(autoencoder="c0ffee"), 48, 48)
    assert refused.value.kind == "autoencoder"
