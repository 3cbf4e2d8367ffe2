"""Values of options of traces: rates, moments, models."""

import datetime
import re
import time

import click

from streams.commands.options import Ago, Number

PER_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Rate(click.ParamType):
    """`2`, `2/s`, `120/m` or `5/h` as requests a second."""

    name = "rate"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the rate in requests per second."""
        number, _, unit = str(value).strip().partition("/")
        try:
            return Number(min=0).convert(number, param, ctx) / PER_S[unit or "s"]
        except (click.BadParameter, KeyError):
            self.fail(f"{value!r} is not a rate: write requests a second, or as 120/m or 5/h", param, ctx)


class RateSpan(click.ParamType):
    """Option type of a range of rates such as `4:32`; its value is the two rates."""

    name = "low:high"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        """The two, in requests a second."""
        if isinstance(value, tuple):
            return value
        low, colon, high = str(value).partition(":")
        if not colon:
            self.fail(f"{value!r} is not two rates: write them as 4:32", param, ctx)
        found = Rate().convert(low, param, ctx), Rate().convert(high, param, ctx)
        if not found[0] <= found[1]:
            self.fail(f"{value!r}: the first rate must not be above the second", param, ctx)
        return found


class Moment(click.ParamType):
    """`2h` ago, or a time as `2026-11-22T09:00`, which is UTC where it names no zone, as epoch ms."""

    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the moment in epoch milliseconds, 0 for one before 1970."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        if re.fullmatch(r"[\d.]+[smhd]", text):
            return max(0, time.time_ns() // 1_000_000 - Ago().convert(text, param, ctx))
        try:
            found = datetime.datetime.fromisoformat(text)
            return max(0, int((found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).timestamp() * 1000))
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a moment: write 2h for so long ago, or 2026-11-22T09:00", param, ctx)


class Renaming(click.ParamType):
    """Option type of `THEIRS=OURS`; its value is the pair."""

    name = "theirs=ours"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The two names; ours may be empty: any model will do."""
        if isinstance(value, tuple):
            return value
        theirs, equals, ours = str(value).partition("=")
        if not equals or not theirs:
            self.fail(f"{value!r} is not THEIRS=OURS, as M0001=heavy, '*=heavy' or '*=' for any", param, ctx)
        return theirs.strip(), ours.strip()
