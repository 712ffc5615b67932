"""GitHub's REST and GraphQL APIs: sends requests, and translates refusals into errors."""

import json
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from rowen.connectors.github.options import GitHubOptions, RepositoryAddress
from rowen.errors import SourceError, SourceGoneError
from rowen.formats.json import read_json
from rowen.model.url import segment
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response
from rowen.net.target import redact

# GitHub allows 100 concurrent requests, which all clients of one account share.
AT_ONCE = 8
JSON = "application/vnd.github+json"
RAW = "application/vnd.github.raw+json"
SHA = "application/vnd.github.sha"
_VERSION = {"X-GitHub-Api-Version": "2022-11-28"}


class RateLimitedError(SourceError):
    """GitHub refuses requests for a while."""


class GitHubApi:
    """The API of one repository."""

    def __init__(
        self, client: Client, address: RepositoryAddress, options: GitHubOptions, now: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._root = options.api_url or address.api
        self._token = options.token
        self._now = now
        self._repository = f"{self._root}/repos/{segment(address.owner)}/{segment(address.name)}"
        raw = options.raw_url
        if raw is None and address.is_public and not options.api_url and not options.token:
            raw = "https://raw.githubusercontent.com"
        self._raw = f"{raw}/{segment(address.owner)}/{segment(address.name)}" if raw else None
        for root in (self._root, raw):
            if root:
                client.pace(root, delay_s=options.delay_s, concurrency=AT_ONCE)

    async def get(
        self,
        path: str,
        *,
        etag: str | None = None,
        accept: str = JSON,
        max_bytes: int | None = None,
        also: Collection[int] = (),
    ) -> Response:
        """Request a path of the repository; raise `SourceError` unless the status is 2xx, 304 or in `also`."""
        url = f"{self._repository}/{path}"
        response = await self._client.get(
            url, etag=etag, accept=accept, headers=_VERSION, credentials=self._credentials(url), max_bytes=max_bytes
        )
        return self._checked(response, also)

    async def raw(self, commit: str, path: str, *, max_bytes: int) -> bytes | None:
        """Return a file of a commit without using the API's rate limit; None if that is not possible."""
        if self._raw is None:
            return None
        url = f"{self._raw}/{commit}/{path}"
        response = await self._client.get(url, credentials=self._credentials(url), max_bytes=max_bytes)
        response = self._checked(response, {404})
        return response.body if response.ok else None

    async def graphql(self, query: str, variables: dict[str, Any]) -> Any:
        """Send a query to the GraphQL API, and return the `data` of the response."""
        url = self._root.removesuffix("/v3") + "/graphql"
        body = json.dumps({"query": query, "variables": variables}).encode()
        response = await self._client.request(
            "POST", url, body=body, headers={"Content-Type": "application/json"}, credentials=self._credentials(url)
        )
        answer = decoded(self._checked(response))
        if not isinstance(answer, dict) or answer.get("errors") or not answer.get("data"):
            why = "no reason given"
            with suppress(KeyError, TypeError, IndexError):
                why = str(answer["errors"][0]["message"])[:300].rstrip(".")
            raise SourceError(f"{redact(url)} could not answer: {why}.")
        return answer["data"]

    def _credentials(self, url: str) -> Credentials | None:
        return Credentials.of(url, {"Authorization": f"Bearer {self._token}"}) if self._token else None

    def _checked(self, response: Response, also: Collection[int] = ()) -> Response:
        if response.ok or response.not_modified:
            return response
        is_spent = response.headers.get("X-RateLimit-Remaining") == "0" or response.retry_after_s is not None
        is_refused = is_spent or response.status == 429 or b"rate limit" in response.body[:2000].lower()
        if response.status in (403, 429) and is_refused:
            raise self._limit_error(response)
        if response.status in also:
            return response
        url = redact(response.url)
        if response.status in (404, 410, 422, 451):
            raise SourceGoneError(
                f"{url} answered {response.status}: it does not exist, or access is not allowed.",
                hint="Check the name; a private repository needs the option token.",
            )
        hint = f"Check the token in {self._token}." if response.status in (401, 403) and self._token else None
        raise SourceError(f"{url} answered {response.status}.", hint=hint)

    def _limit_error(self, response: Response) -> RateLimitedError:
        until = None
        reset = response.headers.get("X-RateLimit-Reset", "")
        if response.retry_after_s is not None:
            until = self._now() + timedelta(seconds=min(response.retry_after_s, 10**7))
        elif reset.isascii() and reset.isdecimal() and len(reset) < 12:
            until = datetime.fromtimestamp(int(reset), UTC)
        when = f"until {until:%Y-%m-%d %H:%M:%S} UTC" if until else "for a while"
        hint = "The items read so far are kept; the next sync continues from there."
        if not self._token:
            hint += " With a token (--option token=env:GITHUB_TOKEN) far more is allowed."
        return RateLimitedError(f"{redact(response.url)} answers no more requests {when} (rate limit).", hint=hint)


def decoded(response: Response) -> Any:
    """Return the JSON of a response; raise `SourceError` if it is not JSON."""
    try:
        return read_json(response.body, redact(response.url))
    except SourceError:
        raise SourceError(
            f"{redact(response.url)} answered with something that is not JSON ({response.media_type}).",
            hint="Check the option api_url.",
        ) from None
