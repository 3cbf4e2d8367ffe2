"""Uniform random numbers of a request: a function of seed, request and salt, whatever else is drawn."""

import hashlib

import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)  # of splitmix64. Source: Steele, Lea, Flood: Fast Splittable PRNGs, 2014
_MIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def uniform(seed: int, salt: str, first: int, count: int) -> np.ndarray:
    """Float64 [count] in [0, 1) for the requests first .. first + count - 1."""
    return uniform_of(seed, salt, np.arange(first, first + count))


def uniform_of(seed: int, salt: str, numbers: np.ndarray) -> np.ndarray:
    """Float64 [n] in [0, 1) for the requests with these numbers, int [n]."""
    key = np.uint64(int.from_bytes(hashlib.sha256(f"{seed}/{salt}".encode()).digest()[:8], "big"))
    with np.errstate(over="ignore"):
        mixed = numbers.astype(np.uint64) * _STEP + key
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[0]
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[1]
    return np.asarray((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11), dtype=np.float64) / 2**53
