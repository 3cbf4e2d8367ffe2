"""The order of checks on a lookup in a worker, its deadline, and whether the stores are asked at all."""
