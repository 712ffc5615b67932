"""Tokens and sessions by their hashes, the log of writes, and answers that are given again."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg import errors
from psycopg.types.json import Jsonb

from rowen.errors import Hint, NotFoundError, RefusedError, action
from rowen.model.access import AccessToken, AuditLine, Credential, Principal, RepeatedAnswer, Scope
from rowen.store.database import Connection
from rowen.store.rows import all_rows, list_of, one, scalar

_SELECT = "select name, scope, created_at, expires_at, last_used_at from access_token"


def _token(row: Sequence[Any]) -> AccessToken:
    name, scope, *times = row
    return AccessToken(name, Scope(scope), *times)


async def tokens(c: Connection) -> list[AccessToken]:
    """All tokens, by name."""
    return [_token(row) for row in await all_rows(c, f"{_SELECT} order by name".encode())]


async def add_token(
    c: Connection, name: str, *, digest: bytes, scope: Scope, expires_at: datetime | None
) -> AccessToken:
    """Keep the hash of a token under a name."""
    try:
        await c.execute(
            "insert into access_token (name, hash, scope, expires_at) values (%s, %s, %s, %s)",
            [name, digest, scope, expires_at],
        )
    except errors.UniqueViolation:
        raise RefusedError(f"There is a token {name!r} already. Nothing was changed.") from None
    row = await one(c, f"{_SELECT} where name = %s".encode(), [name])
    assert row is not None  # noqa: S101 (it was inserted)
    return _token(row)


async def remove_token(c: Connection, name: str) -> None:
    """Forget a token, and with it the sessions that were made from it."""
    if await one(c, "delete from access_token where name = %s returning id", [name]) is None:
        raise NotFoundError(f"There is no token {name!r}.", hint=Hint(action("token list"), " lists all."))


# Noted once a minute: that a token is in use is worth no write for every request.
_HOLDER = """
with found as (
    select id, name, scope, coalesce(last_used_at < now() - interval '1 minute', true) as is_noted_late
      from access_token where hash = %s and (expires_at is null or expires_at > now())
), noted as (
    update access_token set last_used_at = now() from found where access_token.id = found.id and found.is_noted_late
)
select name, scope, id from found
"""


async def of_token(c: Connection, digest: bytes) -> tuple[Principal, int] | None:
    """Who has this token, and its number; None for one that is unknown or has expired."""
    row = await one(c, _HOLDER, [digest])
    return (Principal(f"token:{row[0]}", Scope(row[1]), Credential(digest)), row[2]) if row else None


async def add_session(
    c: Connection, principal: Principal, *, digest: bytes, token_id: int | None, expires_at: datetime
) -> datetime:
    """Open a session; it ends no later than its token. Returns when."""
    ends: datetime = await scalar(
        c,
        "insert into access_session (hash, token_id, name, scope, expires_at)"
        " values (%s, %s, %s, %s, least(%s, (select expires_at from access_token where id = %s))) returning expires_at",
        [digest, token_id, principal.name, principal.scope, expires_at, token_id],
    )
    return ends


# Sessions of earlier versions have bare names: that of a token is read from the token, a person logs in again.
_SESSION = """
select coalesce('token:' || token.name, session.name), session.scope
  from access_session as session left join access_token as token on token.id = session.token_id
 where session.hash = %s and session.expires_at > now()
   and (token.id is not null or session.name like 'email:%%' or session.name like 'sub:%%')
"""


async def of_session(c: Connection, digest: bytes) -> Principal | None:
    """Whose session this is; None for one that is unknown or over."""
    row = await one(c, _SESSION, [digest])
    return Principal(row[0], Scope(row[1]), Credential(digest)) if row else None


_VALID = """
select hash from access_token where hash = any(%(digests)b) and (expires_at is null or expires_at > now())
 union all
select hash from access_session where hash = any(%(digests)b) and expires_at > now()
"""


async def valid_digests(c: Connection, digests: Sequence[bytes]) -> set[bytes]:
    """Return the hashes of these tokens and sessions that were neither revoked nor have expired."""
    return {row[0] for row in await all_rows(c, _VALID, {"digests": list(digests)})}


async def drop_session(c: Connection, digest: bytes) -> None:
    """Close a session."""
    await c.execute("delete from access_session where hash = %s", [digest])


async def audit(c: Connection, line: Sequence[Any]) -> None:
    """Write down what somebody did: who, from where, method, path, status and the number of the request."""
    await c.execute(
        "insert into audit_log (principal, address, method, path, status, request) values (%s, %s, %s, %s, %s, %s)",
        line,
    )


async def audit_lines(c: Connection, *, limit: int, before: int | None, principal: str | None) -> list[AuditLine]:
    """The last lines of the log, newest first."""
    return await list_of(
        c,
        AuditLine,
        "select id, at, principal, address, method, path, status, request from audit_log"
        " where (%(before)s::bigint is null or id < %(before)s)"
        "   and (%(principal)s::text is null or principal = %(principal)s)"
        " order by id desc limit %(limit)s",
        {"before": before, "principal": principal, "limit": limit},
    )


_CLAIM = """
insert into idempotent_answer (principal, key, fingerprint) values (%(principal)s, %(key)s, %(fingerprint)s)
on conflict (principal, key) do update set fingerprint = excluded.fingerprint, created_at = now(), status = null
 where idempotent_answer.created_at < now() - make_interval(hours => %(kept_h)s)
    or (idempotent_answer.status is null
        and idempotent_answer.created_at < now() - make_interval(secs => %(longest_s)s))
returning true
"""


async def claim_answer(
    c: Connection, principal: str, key: str, *, fingerprint: bytes, kept_h: int, longest_s: float
) -> tuple[bytes, RepeatedAnswer | None] | None:
    """Begin what has not been asked for before, and return None; else what was asked, and its answer if there is one.

    What was begun longer ago than any request takes has died with its process, and may be begun again.
    """
    values = {"principal": principal, "key": key, "fingerprint": fingerprint, "kept_h": kept_h, "longest_s": longest_s}
    if await one(c, _CLAIM, values) is not None:
        return None
    row = await one(
        c,
        "select fingerprint, status, headers, body from idempotent_answer where principal = %s and key = %s",
        [principal, key],
    )
    if row is None:
        return await claim_answer(c, principal, key, fingerprint=fingerprint, kept_h=kept_h, longest_s=longest_s)
    return row[0], None if row[1] is None else RepeatedAnswer(row[1], row[2], row[3])


_FULL = """
select not exists (select from idempotent_answer where principal = %(principal)s and key = %(key)s)
       and (select count(*) from (select from idempotent_answer where principal = %(principal)s limit %(most)s) kept)
           >= %(most)s
"""


async def is_full(c: Connection, principal: str, key: str, *, most: int) -> bool:
    """Return whether so many other answers of a caller are kept that there is no room for one more."""
    return bool(await scalar(c, _FULL, {"principal": principal, "key": key, "most": most}))


async def keep_answer(c: Connection, principal: str, key: str, answer: RepeatedAnswer) -> None:
    """Keep an answer for who asks the same again."""
    headers: Mapping[str, str] = dict(answer.headers)
    await c.execute(
        "update idempotent_answer set status = %s, headers = %s, body = %s where principal = %s and key = %s",
        [answer.status, Jsonb(headers), answer.body, principal, key],
    )


async def drop_answer(c: Connection, principal: str, key: str) -> None:
    """Forget what was begun and came to nothing, so that it can be tried again."""
    await c.execute("delete from idempotent_answer where principal = %s and key = %s", [principal, key])


async def forget_over(c: Connection, *, kept_h: int, audit_days: float) -> None:
    """Forget sessions that are over, answers that nobody asks for again, and what was written long ago."""
    await c.execute("delete from access_session where expires_at < now()")
    await c.execute("delete from idempotent_answer where created_at < now() - make_interval(hours => %s)", [kept_h])
    await c.execute("delete from audit_log where at < now() - make_interval(days => %s)", [int(audit_days)])
