"""What holds for all tests: nothing is timed, on a loaded machine neither."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

collect_ignore = ["nightly"]  # only what is named: `make nightly PART=...`
