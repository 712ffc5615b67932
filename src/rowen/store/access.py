"""Store the hashes of access tokens and sessions, the audit log, and answers kept for repeated requests."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg import errors
from psycopg.types.json import Jsonb

from rowen.errors import Hint, NotFoundError, RefusedError, action
from rowen.model.access import AccessToken, AuditLine, Credential, Principal, RepeatedAnswer, Scope
from rowen.store.database import Connection
from rowen.store.rows import all_rows, column, list_of, one, only, scalar


def _token(row: Sequence[Any]) -> AccessToken:
    name, scope, *times = row
    return AccessToken(name, Scope(scope), *times)


async def tokens(c: Connection) -> list[AccessToken]:
    """Return all tokens, by name."""
    statement = "select name, scope, created_at, expires_at, last_used_at from access_token order by name"
    return [_token(row) for row in await all_rows(c, statement)]


async def add_token(
    c: Connection, name: str, *, digest: bytes, scope: Scope, expires_at: datetime | None
) -> AccessToken:
    """Store the hash of a token under a name."""
    try:
        statement = """
            insert into access_token (name, hash, scope, expires_at) values (%s, %s, %s, %s)
            returning name, scope, created_at, expires_at, last_used_at
        """
        row = await only(c, statement, [name, digest, scope, expires_at])
    except errors.UniqueViolation:
        raise RefusedError(f"There is a token {name!r} already. Nothing was changed.") from None
    return _token(row)


async def remove_token(c: Connection, name: str) -> None:
    """Delete a token and the sessions that were opened with it."""
    if await one(c, "delete from access_token where name = %s returning id", [name]) is None:
        raise NotFoundError(f"There is no token {name!r}.", hint=Hint(action("token list"), " lists all."))


# The holder of a valid token. Its last use is stored once a minute, since a write per request is too much.
_HOLDER = """
with token as (
    select id, name, scope, coalesce(last_used_at < now() - interval '1 minute', true) as is_due
      from access_token where hash = %s and (expires_at is null or expires_at > now())
), used as (
    update access_token set last_used_at = now() from token where access_token.id = token.id and token.is_due
)
select name, scope, id from token
"""


async def of_token(c: Connection, digest: bytes) -> tuple[Principal, int] | None:
    """Return the holder of a token and the token's id; None if the token is unknown or expired."""
    row = await one(c, _HOLDER, [digest])
    return (Principal(f"token:{row[0]}", Scope(row[1]), Credential(digest)), row[2]) if row else None


async def add_session(
    c: Connection, principal: Principal, *, digest: bytes, token_id: int | None, expires_at: datetime
) -> datetime:
    """Open a session and return its end, which is not later than the end of its token."""
    ends: datetime = await scalar(
        c,
        "insert into access_session (hash, token_id, name, scope, expires_at)"
        " values (%s, %s, %s, %s, least(%s, (select expires_at from access_token where id = %s))) returning expires_at",
        [digest, token_id, principal.name, principal.scope, expires_at, token_id],
    )
    return ends


# The holder of a valid session. Sessions of earlier versions have bare names: that of a token is read from the token;
# people log in again.
_SESSION = """
select coalesce('token:' || token.name, session.name), session.scope
  from access_session as session left join access_token as token on token.id = session.token_id
 where session.hash = %s and session.expires_at > now()
   and (token.id is not null or session.name like 'email:%%' or session.name like 'sub:%%')
"""


async def of_session(c: Connection, digest: bytes) -> Principal | None:
    """Return the holder of a session; None if it is unknown or expired."""
    row = await one(c, _SESSION, [digest])
    return Principal(row[0], Scope(row[1]), Credential(digest)) if row else None


# The hashes of valid tokens and sessions among the given hashes.
_VALID = """
select hash from access_token where hash = any(%(digests)b) and (expires_at is null or expires_at > now())
 union all
select hash from access_session where hash = any(%(digests)b) and expires_at > now()
"""


async def valid_digests(c: Connection, digests: Sequence[bytes]) -> set[bytes]:
    """Return the hashes in `digests` that belong to a token or session which is neither revoked nor expired."""
    return set(await column(c, _VALID, {"digests": list(digests)}))


async def drop_session(c: Connection, digest: bytes) -> None:
    """Close a session."""
    await c.execute("delete from access_session where hash = %s", [digest])


async def audit(c: Connection, line: Sequence[Any]) -> None:
    """Store a write request in the audit log: principal, address, method, path, status and request id."""
    await c.execute(
        "insert into audit_log (principal, address, method, path, status, request) values (%s, %s, %s, %s, %s, %s)",
        line,
    )


async def audit_lines(c: Connection, *, limit: int, before: int | None, principal: str | None) -> list[AuditLine]:
    """Return the last lines of the audit log, newest first."""
    query = """
        select id, at, principal, address, method, path, status, request from audit_log
         where (%(before)s::bigint is null or id < %(before)s)
           and (%(principal)s::text is null or principal = %(principal)s)
         order by id desc limit %(limit)s
    """
    return await list_of(c, AuditLine, query, {"before": before, "principal": principal, "limit": limit})


# Claims a key, or takes over an expired claim.
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
    """Claim a request key and return None; if the key is taken, return its fingerprint and its answer, if stored.

    A claim older than `longest_s`, the longest request, is left by a process that died, and may be claimed again.
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


# Whether a caller has at least `most` stored answers, and none under this key.
_FULL = """
select not exists (select from idempotent_answer where principal = %(principal)s and key = %(key)s)
       and (select count(*) from (select from idempotent_answer where principal = %(principal)s limit %(most)s) kept)
           >= %(most)s
"""


async def is_full(c: Connection, principal: str, key: str, *, most: int) -> bool:
    """Return whether a caller has the maximum number of stored answers, and none under this key."""
    return bool(await scalar(c, _FULL, {"principal": principal, "key": key, "most": most}))


async def keep_answer(c: Connection, principal: str, key: str, answer: RepeatedAnswer) -> None:
    """Store the answer to a request, for the next request with the same key."""
    await c.execute(
        "update idempotent_answer set status = %s, headers = %s, body = %s where principal = %s and key = %s",
        [answer.status, Jsonb(dict(answer.headers)), answer.body, principal, key],
    )


async def drop_answer(c: Connection, principal: str, key: str) -> None:
    """Delete the claim of a request that failed, so that it can be repeated."""
    await c.execute("delete from idempotent_answer where principal = %s and key = %s", [principal, key])


async def forget_over(c: Connection, *, kept_h: int, audit_days: float) -> None:
    """Delete expired sessions, expired answers and expired lines of the audit log."""
    await c.execute("delete from access_session where expires_at < now()")
    await c.execute("delete from idempotent_answer where created_at < now() - make_interval(hours => %s)", [kept_h])
    await c.execute("delete from audit_log where at < now() - make_interval(days => %s)", [int(audit_days)])
