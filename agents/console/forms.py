"""Forms of the pages: their fields, and the right to send them."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from agents.console.access.sessions import Role, Session, is_token
from schemas.errors import PochadeError

TYPE: Final = "application/x-www-form-urlencoded"
MAX_BYTES: Final = 64 * 1024
MAX_FIELDS: Final = 500
REPEATED: Final = "position"  # a field that may be there several times


async def fields_of(http: Request) -> dict[str, str]:
    """Return the fields of a form; all values of REPEATED, a line each, as `positions`.

    Raises:
        HTTPException: another type of content, too much of it, or too slow.
    """
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    length = http.headers.get("content-length", "0")
    if kind != TYPE:
        raise HTTPException(415, f"a form of this console sends {TYPE}")
    if not length.isdigit() or int(length[:12]) > MAX_BYTES or "transfer-encoding" in http.headers:
        raise HTTPException(413, f"a form may have {MAX_BYTES} bytes, and says how many it has")
    try:
        form = await http.form(max_fields=MAX_FIELDS)
    except TimeoutError:
        raise HTTPException(408, "the form did not come within console.client_timeout_s") from None
    fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
    repeated = [value for value in form.getlist(REPEATED) if isinstance(value, str)]
    return fields | {"positions": "\n".join(repeated)}


async def form_of(http: Request, needs: Role = Role.OPERATOR) -> tuple[Session, dict[str, str]]:
    """Return a form's session and fields. Raises HTTPException if the token or the role is wrong."""
    session: Session | None = http.scope["state"]["session"]
    fields = await fields_of(http)
    if session is None or not is_token(session, fields.get("token", "")):
        raise HTTPException(403, "this form is of another session, or too old: go back, reload, and send it again")
    if needs is Role.OPERATOR and not session.may_write:
        raise HTTPException(403, "this needs a key of scope operator: yours is a viewer's")
    return session, fields


def parameters_of(text: str) -> dict[str, float]:
    """Return the numbers in "name=number name=number". Raises PochadeError."""
    found: dict[str, float] = {}
    for part in text.replace(",", " ").split():
        name, _, value = part.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise PochadeError(f"{part!r:.60} is not NAME=NUMBER, such as heavy_share=0.3") from None
    return found
