"""Refuses arrays that do not fit; the error names the array and the reason."""

from collections.abc import Iterable

import numpy as np

from schemas.errors import PochadeError, Unknown


def check_array(what: str, values: np.ndarray, shape: tuple[int | None, ...], kind: str = "") -> None:
    """Raises PochadeError unless of that shape (None: any), of that numpy kind ("b" bool, "i" integer), and finite."""
    fits = len(shape) == values.ndim and all(want in (None, got) for want, got in zip(shape, values.shape, strict=True))
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise PochadeError(f"{what} must be [{wanted}]: got {list(values.shape)}")
    if kind and values.dtype.kind != kind:
        raise PochadeError(f"{what} must be {np.dtype(kind + ('8' if kind == 'i' else '1'))}: got {values.dtype}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise PochadeError(f"{what} must be finite: {int((~np.isfinite(values)).sum())} of {values.size} are not")


def check_share(what: str, values: np.ndarray, shape: tuple[int | None, ...]) -> None:
    """Raises PochadeError unless of that shape and in 0..1."""
    check_array(what, values, shape)
    if values.size and (values.min() < 0 or values.max() > 1):
        raise PochadeError(f"{what} must lie in 0..1: got {values.min():.3g}..{values.max():.3g}")


def check_known(kind: str, name: str, known: Iterable[str]) -> None:
    """Raises Unknown, which lists the known names."""
    names = list(known)
    if name not in names:
        raise Unknown(kind, name, names)
