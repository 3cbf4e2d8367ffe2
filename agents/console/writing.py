"""Operators' orders: each begins with a dry run that shows its effect, and is done after a confirmation."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Final

from agents.console.access.sessions import SIGN_OUT, Session
from agents.console.actions import Actions
from agents.console.children import Commands
from agents.console.view.requests import MAX_PROMPT, Place
from agents.console.view.view import View
from agents.gateway.signing import Seal
from agents.planner.describing import differences
from planner.policies import DEFAULT, POLICIES
from planner.serving.admission.admission import check
from planner.serving.again import again
from schemas.errors import PochadeError
from schemas.messages import GenerateRequest, OperatorAction, Status
from schemas.record import Delivered, Outgoing
from schemas.topics import PROMPTS, PROMPTS_BATCH
from streams.clock import now_ms
from streams.codec.prompt_file import request_of
from streams.control.topic import await_answer, order
from streams.operator.client import RequestClient
from streams.operator.dead_letters import base_id, ended, redriven
from streams.operator.offered import check_offered
from streams.settings import Settings
from streams.visible import counted

ACK_S: Final = 30.0
CANCEL_WAIT_S: Final = 6.0  # for the result of a cancelled request
POLL_S: Final = 0.05
CONFIRM_MS: Final = 10 * 60_000  # that a dry run may be confirmed
REDRIVE_RPS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The effect of an order, and its confirmation."""

    title: str
    rows: list[tuple[str, str, str]]  # what, as it is, as it would be
    words: str
    confirmation: str  # "": there is nothing to confirm
    back: str  # the page that it was asked for on


class Orders:
    """Dry runs and confirmed orders; used on one event loop."""

    def __init__(
        self,
        settings: Settings,
        view: View,
        client: RequestClient,
        send: Callable[[Outgoing], "Future[Delivered]"],
        actions: Actions,
        commands: Commands,
        key: bytes,
    ) -> None:
        self._settings = settings
        self._view = view
        self._client = client
        self._send = send
        self.actions = actions
        self._commands = commands
        self._seal = Seal(key, "dry-run:")

    async def submit(self, session: Session, fields: Mapping[str, Any]) -> tuple[OperatorAction, str]:
        """Write a request of JSON fields; return the action and its id. Raises PochadeError, also if it is invalid."""
        return await self._submit(session, request_of(dict(fields), now_ms()))

    async def again(self, session: Session, request_id: str, model: str) -> tuple[OperatorAction, str]:
        """Write the request that makes an image again, by `model` if that is not ""; return the action and its id.

        Raises PochadeError, also for an image that no request makes again.
        """
        seen = self._view.requests.get(request_id)
        if seen is None or seen.result is None:
            raise PochadeError(f"{request_id} has no result here: it is made again once it has ended")
        if len(seen.prompt) >= MAX_PROMPT:
            raise PochadeError(f"the console keeps {MAX_PROMPT} characters of a prompt: `pochade again {request_id}`")
        return await self._submit(session, again(seen.request, seen.result, now_ms(), model=model))

    async def _submit(self, session: Session, request: GenerateRequest) -> tuple[OperatorAction, str]:
        now = now_ms()
        check(request, self._settings.requests, now)
        check_offered(request, self._view.catalog)

        async def do() -> tuple[str, Mapping[str, Any]]:
            delivered = await _acknowledged(self._client.submit(request, {}))
            topic = PROMPTS_BATCH if request.tier == "batch" else PROMPTS
            self._view.requests.on_request(request, Place(topic, delivered.partition, delivered.offset, now))
            return f"accepted: prompts {delivered.partition}@{delivered.offset}", {}

        detail = {"tenant": request.tenant, "tier": request.tier, "quality": request.quality}
        return await self.actions.perform(session, "submit", request.request_id, detail, do), request.request_id

    async def sign_out(self, session: Session) -> None:
        """End the session in all consoles; in this one also if the record cannot be written."""

        async def do() -> tuple[str, Mapping[str, Any]]:
            return "signed out", {}

        await self.actions.perform(session, SIGN_OUT, session.id, {}, do)

    async def cancel(self, session: Session, request_id: str) -> OperatorAction:
        """Cancel a request, wait up to CANCEL_WAIT_S, and return the outcome. Raises PochadeError."""
        seen = self._view.requests.get(request_id)
        had_ended = seen.result if seen else None

        async def do() -> tuple[str, Mapping[str, Any]]:
            if had_ended is not None:
                return f"nothing to cancel: it had ended as {had_ended.status}, and keeps that end", {}
            reason = f"cancelled in the console by {self.actions.who(session)}"
            delivered = await _acknowledged(self._client.cancel(request_id, reason))
            result = await self._result(request_id)
            if result is None:
                lies = f"outcomes {delivered.partition}@{delivered.offset}"
                return f"asked for, not ended yet: its cancellation lies on {lies}; the ledger ends it", {}
            if result is Status.CANCELLED:
                return "cancelled", {}
            return f"too late: it ended first, as {result}, and keeps that end", {}

        return await self.actions.perform(session, "cancel", request_id, {}, do)

    async def _result(self, request_id: str) -> Status | None:
        end_s = asyncio.get_running_loop().time() + CANCEL_WAIT_S
        while asyncio.get_running_loop().time() < end_s:
            seen = self._view.requests.get(request_id)
            if seen is not None and seen.result is not None:
                return seen.result.status
            await asyncio.sleep(POLL_S)
        return None

    async def try_pin(self, session: Session, policy: str, parameters: Mapping[str, float]) -> DryRun:
        """Say what a policy would plan now. Raises PochadeError, also for an unknown policy."""
        POLICIES.check(policy)
        found = await self.shadow(policy, parameters)
        detail = {"policy": policy, "parameters": dict(parameters)}
        said = f"{policy} is obeyed until it is unpinned. {found['shadow']['reason']}"
        return self._dry(session, "pin", policy, detail, rows_of(found), said, f"Pin {policy}?", "/plan")

    async def try_unpin(self, session: Session) -> DryRun:
        """Say what the configured policy would plan now. Raises PochadeError."""
        pin = self._view.plans.pin
        if pin is None:
            raise PochadeError("nothing is pinned: the configured policy plans")
        policy = self._settings.planner.policy or DEFAULT
        found = await self.shadow(policy, self._settings.planner.parameters)
        subject = pin.policy or f"plan {pin.plan_version}"
        said = f"The configured policy, {policy}, plans again. {found['shadow']['reason']}"
        return self._dry(session, "unpin", subject, {}, rows_of(found), said, f"Unpin {subject}?", "/plan")

    def try_rollback(self, session: Session, version: int) -> DryRun:
        """Say what an earlier plan decided otherwise. Raises PochadeError if that plan is not kept here."""
        plans = self._view.plans
        target, now = plans.with_version(version), plans.plan
        if target is None or now is None:
            raise PochadeError(
                f"plan {version} is not among the recent ones: `pochade plan rollback {version}` searches further"
            )
        said = f"Plan {version} by {target.policy} is obeyed, for the workers of now, until unpinned: {target.reason}"
        title = f"Roll back to plan {version}?"
        return self._dry(session, "rollback", str(version), {}, differences(now, target), said, title, "/plan")

    async def shadow(self, policy: str, parameters: Mapping[str, float]) -> dict[str, Any]:
        """Return what a policy would plan, as `pochade plan shadow` says it. Raises PochadeError."""
        given = [part for name, value in parameters.items() for part in ("--parameter", f"{name}={value:g}")]
        found: dict[str, Any] = await self._commands.run("plan", "shadow", policy, *given, "-o", "json")
        return found

    async def try_redrive(self, session: Session, positions: list[str]) -> DryRun:
        """Say what would be sent where. Raises PochadeError."""
        rows = await asyncio.to_thread(self._redriven, positions, is_dry=True)
        sent = [row for row in rows if row["to"]]
        shown = [(row["position"], "on the dlq", _redrive_words(row)) for row in rows]
        said = f"{len(sent)} of {len(rows)} would be sent, at most {REDRIVE_RPS:g} a second. The dead letters stay."
        title = f"Redrive {len(sent)} dead letters?" if len(sent) != 1 else "Redrive one dead letter?"
        detail = {"positions": positions}
        dry = self._dry(session, "redrive", counted(len(sent), "record"), detail, shown, said, title, "/dead-letters")
        return dry if sent else replace(dry, confirmation="", title="Nothing to redrive")

    def _redriven(self, positions: list[str], *, is_dry: bool) -> list[dict[str, Any]]:
        chosen = [letter for letter in self._view.letters() if letter.position in set(positions)]
        if not chosen:
            raise PochadeError("none of these dead letters is known here: `pochade dlq ls` lists older ones")
        done = ended(self._settings, {base_id(letter.request_id) for letter in chosen})
        return list(redriven(chosen, done, None if is_dry else self._send, REDRIVE_RPS))

    def _dry(
        self, session: Session, action: str, subject: str, detail: Mapping[str, Any], rows: list[tuple[str, str, str]],
        words: str, title: str, back: str,
    ) -> DryRun:  # fmt: skip
        if not session.may_write:
            return DryRun(title=title, rows=rows, words=words, confirmation="", back=back)
        claims = [action, subject, dict(detail), session.key_id, session.token, now_ms() + CONFIRM_MS]
        return DryRun(title=title, rows=rows, words=words, confirmation=self._seal.sealed(claims), back=back)

    async def confirm(self, session: Session, confirmation: str) -> tuple[OperatorAction, str]:
        """Do what a dry run has shown to this session; return the action and the next page.

        Raises PochadeError if another session saw it, or too long ago.
        """
        claims = self._seal.opened(confirmation)
        if claims is None or claims[3:5] != [session.key_id, session.token] or now_ms() >= claims[5]:
            raise PochadeError("this confirmation is not yours, or too old: begin with the dry run again")
        action, subject, detail = claims[:3]
        who = self.actions.who(session)

        async def ordered() -> tuple[str, Mapping[str, Any]]:
            policy, version = detail.get("policy", ""), int(subject) if action == "rollback" else 0
            at = await asyncio.to_thread(order, self._settings, policy, detail.get("parameters"), version, who)
            return await asyncio.to_thread(await_answer, self._settings, at, policy), {}

        async def redrive() -> tuple[str, Mapping[str, Any]]:
            rows = await asyncio.to_thread(self._redriven, detail["positions"], is_dry=False)
            sent = [row["request_id"] for row in rows if row["sent"]]
            return f"{len(sent)} of {len(rows)} sent", {"sent": sent[:100]}

        do: Callable[[], Awaitable[tuple[str, Mapping[str, Any]]]] = redrive if action == "redrive" else ordered
        back = "/dead-letters" if action == "redrive" else "/plan"
        return await self.actions.perform(session, action, subject, detail, do), back

    async def audit(self, session: Session, since: str) -> OperatorAction:
        """Audit the topics' recent records; the result is kept with the action's record. Raises PochadeError."""

        async def do() -> tuple[str, Mapping[str, Any]]:
            found = await self._commands.run("audit", "--since", since, "--no-images", "-o", "json", may_fail_with=(1,))
            return _audited(found), {"found": _small(found)}

        return await self.actions.perform(session, "audit", f"last {since}", {}, do)


async def _acknowledged(delivery: "Future[Delivered]") -> Delivered:
    try:
        return await asyncio.wait_for(asyncio.wrap_future(delivery), ACK_S)
    except TimeoutError:
        raise PochadeError(f"the broker has not taken the record within {ACK_S:g} s, and may yet") from None


def rows_of(found: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return what a shadow plan decides otherwise than the plan in force."""
    return [(each["what"], each["in_force"], each["shadow"]) for each in found["changes"]]


def _redrive_words(row: Mapping[str, Any]) -> str:
    return f"to {row['to']} as {row['request_id']}" if row["to"] else str(row["reason"])


def _audited(found: Mapping[str, Any]) -> str:
    counted, broken = f"{found.get('accepted', 0)} accepted, {found.get('open', 0)} open", found["broken_promises"]
    return f"{counted}; " + ("no promise is broken" if broken is None else f"broken: {broken}")


def _small(found: Mapping[str, Any]) -> dict[str, Any]:
    text = json.dumps(found)
    return dict(found) if len(text) < 32_000 else {n: v for n, v in found.items() if not isinstance(v, (list, dict))}
