"""Repositories of publications and data, by OAI-PMH 2.0: a whole walk by resumption tokens first, then only changes."""

import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from rowen.connectors.base import Known, parse_stored, unread_url
from rowen.connectors.catalog.connector import CatalogConnector
from rowen.connectors.catalog.cursor import Noted, noted, stamp
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.listing import Listing, ListingPage, Row, Tokens, UnparsedRecord
from rowen.connectors.catalog.options import CatalogOptions, web_url
from rowen.connectors.catalog.portal_client import LONGEST_LIMIT_S, PortalClient
from rowen.connectors.catalog.records import one_by_one, parsed
from rowen.connectors.oai.answer import (
    BadTokenError,
    Broken,
    NothingError,
    OaiAnswer,
    OaiRecord,
    OaiRefusalError,
    Plain,
    StatusError,
    read,
    read_stream,
)
from rowen.connectors.oai.record import dataset_of
from rowen.connectors.plain_options import option
from rowen.connectors.probe import Probe
from rowen.errors import BodyTooLargeError, SourceError
from rowen.formats import UnreadableError
from rowen.formats.xml import XmlElement, local, said, written
from rowen.model.hashes import Hash, body_hash
from rowen.model.items import Failed, Fetched, Gone, Observation, Validators
from rowen.model.url import address, quoted
from rowen.net.client import Client

log = logging.getLogger(__name__)
_VERBS = "Identify|ListMetadataFormats|ListSets|ListIdentifiers|ListRecords|GetRecord"
_TELLING = re.compile(
    rf"[?&]verb=(?:{_VERBS})\b|/(?:oai2?d?|oai-?pmh2?|oai/request|oaihandler)/?(?:\?|$)", re.IGNORECASE
)
_ARGUMENTS = frozenset({"verb", "metadataprefix", "from", "until", "set", "identifier", "resumptiontoken"})
_SCHEME = re.compile(r"https?://", re.IGNORECASE)


def accept(address: str) -> str | None:
    """Return the base URL of any web address, without the arguments of a request; None for other text."""
    url = web_url(address, "oai")
    if url is None:
        return None
    parts = urlsplit(url)
    parameters = [(name, value) for name, value in parse_qsl(parts.query) if name.lower() not in _ARGUMENTS]
    return urlunsplit(parts._replace(query=urlencode(parameters), fragment=""))


def ask(base: str, verb: str, **arguments: str | None) -> str:
    """Return the URL of a request; the argument `from_` stands for `from`, which is a keyword of Python."""
    named = {name.rstrip("_"): value for name, value in arguments.items() if value is not None}
    query = urlencode({"verb": verb, **named}, quote_via=quote, safe="", errors="surrogatepass")
    return f"{base}{'&' if '?' in base else '?'}{query}"


def item_url(base: str, identifier: str) -> str:
    """Return the URL of a record's item: the request for it in the format that every repository supports.

    If the identifier is a web address, the URL is the base URL with a fragment. The fragment omits the scheme, because
    repositories change it.
    """
    if _SCHEME.match(identifier):
        return f"{base}#/{quoted(_SCHEME.sub('', identifier, count=1))}"
    return ask(base, "GetRecord", metadataPrefix="oai_dc", identifier=identifier)


def _listed(value: Any) -> Any:
    return tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value


class OaiOptions(CatalogOptions):
    """Options of kind `oai`; the repository chooses the page size."""

    secret_neutral: ClassVar[frozenset[str]] = CatalogOptions.secret_neutral | {"prefix", "sets"}

    prefix: str | None = option(
        default=None, pattern=r"^[A-Za-z0-9\-_.!~*'()]+$", description="the metadata format to ask for"
    )
    sets: tuple[str, ...] = option(default=(), prepare=_listed, description="the sets to read, instead of all records")

    def reading(self) -> dict[str, Any]:
        """Return the options that affect the mapping of a record; another format yields another record."""
        return {**super().reading(), "prefix": self.prefix}


# The limit for a streamed response; repositories that return all records at once fit about 100,000 of 5 kB into it.
MOST_BYTES = 512 << 20
# The limit for restarts of a list whose token expired: each restart reads the list from its beginning, and with a token
# that always expires no restart reaches the end.
MOST_RESTARTS = 3
# Consecutive answers with a token but no record: a filter by set leaves some answers empty, a loop all of them.
MOST_EMPTY = 100
_ACCEPT = "text/xml, application/xml;q=0.9, */*;q=0.5"
_TRIES = 2  # a body that is truncated twice is not the fault of the connection
_PAYLOAD_CHARS = 1 << 20  # the part of a record that quarantine stores
_FORMATS = (
    ("http://datacite.org/schema/kernel-4", "oai_datacite4", "datacite4"),
    ("http://schema.datacite.org/oai/oai-1.1", "http://schema.datacite.org/oai/oai-1.0", "oai_datacite", "datacite"),
    ("http://datacite.org/schema/kernel-3", "oai_datacite3", "datacite3"),
    ("http://www.openarchives.org/OAI/2.0/oai_dc", "oai_dc"),
)


@dataclass(frozen=True, slots=True)
class Habits:
    """The stored properties of a repository; `prefix` is the metadata format in which it is read.

    `timed` contains True if datestamps have a time, False if they have none, and both values for both forms, as seen
    in the last whole walk. A repository that changes this form does not report its records as modified, so only a
    whole walk updates the stored datestamps.
    """

    prefix: str = "oai_dc"
    deleted: str = "no"
    seconds: bool = False
    earliest: str | None = None
    timed: list[bool] = field(default_factory=list)


class Repository(Listing):
    """The listing of a repository."""

    version = OaiOptions.record_version
    dated = True
    counts_changes = False
    resolution = timedelta(days=1)

    def __init__(self, portal: PortalClient, url: str, options: OaiOptions) -> None:
        self.habits = Habits()
        self._portal = portal
        self._url = url
        self._options = options
        self._is_identified = False
        self._timed: set[bool] = set()
        self._sets: tuple[str | None, ...] = options.sets or (None,)

    def notes(self) -> Mapping[str, Any]:
        """Return the properties to store, so that the next run need not request them."""
        return asdict(self.habits)

    async def open(self, known: Noted) -> None:
        """Choose the metadata format; if it has changed, discard the cursor, so that all records are read again."""
        prefix = self._options.prefix or await self._best_format()
        habits = parse_stored(known.notes, Habits) if known.notes else None
        if habits is None or habits.prefix != prefix:
            known.forget()
            await self._identify(prefix)
        else:
            self._settle(habits)

    def _settle(self, habits: Habits) -> None:
        self.habits = habits
        self.tells_deletions = habits.deleted in ("persistent", "transient")

    async def _best_format(self) -> str:
        """Return the richest supported format, else Dublin Core, which is mandatory, else the first format."""
        try:
            answer = await self._ask(ask(self._url, "ListMetadataFormats"))
        except OaiRefusalError:
            return "oai_dc"
        offered = {
            said(tree.find("{*}metadataPrefix")): said(tree.find("{*}metadataNamespace")) for tree in answer.others
        }
        for names in _FORMATS:
            for prefix, namespace in offered.items():
                if namespace.rstrip("/") in names or prefix in names:
                    return prefix
        return next(iter(offered), "oai_dc")

    async def _identify(self, prefix: str) -> None:
        self._is_identified = True
        self._settle(Habits(prefix))
        try:
            answer = await self._ask(ask(self._url, "Identify"))
        except OaiRefusalError as problem:
            log.warning("a repository would not identify itself: %s", problem)
            return
        for tree in answer.others:
            granularity = said(tree.find("{*}granularity")).upper()
            deleted = said(tree.find("{*}deletedRecord")).lower()
            earliest = moment(said(tree.find("{*}earliestDatestamp")))
            first = stamp(earliest) if earliest else None
            self._settle(Habits(prefix, deleted or "no", "T" in granularity, first))

    async def read_pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """Yield the pages of all sets, one after the other."""
        if since is None and place is None and not self._is_identified:
            await self._identify(self.habits.prefix)
        first, token = (place["set"], place["token"]) if place else (0, None)
        for number in range(first, len(self._sets)):
            async for page in self._chain(number, since, token):
                yield page
            token = None

    async def count(self, since: datetime | None = None) -> int | None:
        """Return the number of records; with `since`, the declared count or, if larger, the number on the first page.

        With several sets the number of all records is unknown, and None is returned.
        """
        if since is not None:
            return max([await self._count_since(name, since) for name in self._sets])
        if len(self._sets) > 1:
            return None
        try:
            answer = await self._ask(self._first_url("ListIdentifiers", self._sets[0], None))
        except NothingError:
            return 0
        is_declared = answer.token is None or answer.size is not None
        return max(answer.size or 0, len(answer.records)) if is_declared else None

    async def read_record(self, url: str, handle: str | None = None) -> Row | None:
        """Request one record by its identifier `handle`; return None if the identifier is unknown.

        A record outside the chosen sets is a `Failed` row.
        """
        if handle is None or item_url(self._url, handle) != url:
            return None
        request = ask(self._url, "GetRecord", metadataPrefix=self.habits.prefix, identifier=handle)
        answer = await read(await self._portal.request(request, accept=_ACCEPT, once=True), self._url)
        for record in answer.records:
            if self._options.sets and not isinstance(record, Broken):
                tree = record.cut.look() if isinstance(record, Plain) else record.tree
                # A set contains the sets below it.
                names = [f"{said(name)}:" for name in tree.findall("{*}header/{*}setSpec")]
                if not any(name.startswith(f"{chosen}:") for name in names for chosen in self._options.sets):
                    continue
            if (row := self._row(record)).url == url:
                return row
        return Row(Failed(url, "The repository does not show this record."), handle=handle)

    async def _count_since(self, name: str | None, since: datetime) -> int:
        try:
            answer = await self._ask(self._first_url("ListRecords", name, since))
        except NothingError:
            return 0
        except SourceError as problem:
            log.info("a repository did not count what was modified: %s", problem)
            return 0
        return max(answer.size or 0, len(answer.records))

    async def _chain(self, number: int, since: datetime | None, token: str | None) -> AsyncGenerator[ListingPage]:
        """Yield the pages of one set; begin again if the repository no longer knows a token of this run."""
        records = passed = restarts = empty = 0
        while True:
            try:
                answer = await self._listed(number, since, token)
            except BadTokenError:
                restarts += 1
                if not records or restarts > MOST_RESTARTS:
                    raise
                log.warning("a token was no longer known: the list was begun anew")
                token, passed = None, 0
                continue
            except (OaiRefusalError, StatusError) as problem:
                if since is None or token:
                    raise
                yield ListingPage([], doubt=str(problem))
                return
            passed += len(answer.records)
            empty = 0 if answer.records else empty + 1
            is_over = answer.token is None or (answer.token == token and empty > 0) or empty > MOST_EMPTY
            if answer.token is None and token is None and answer.size is None:
                answer.size = len(answer.records)
            # A list of changes is incomplete if its datestamps have a form that the last whole walk did not have. A
            # whole walk stores the forms that this run finds; a resumed walk keeps the forms found before.
            is_other = False
            if since is not None:
                is_other = bool(self.habits.timed) and not _timed(answer) <= set(self.habits.timed)
            else:
                self._timed |= _timed(answer)
                self.habits = replace(self.habits, timed=sorted(self._timed))
            if is_over or passed > records:
                records = passed
                following = (number + 1, None) if is_over else (number, answer.token)
                declared = answer.size if len(self._sets) == 1 else None
                doubt = None
                if is_over and answer.token is not None:
                    doubt = "The list does not end: tokens come without records."
                elif any(isinstance(record, Broken) and record.identifier is None for record in answer.records):
                    doubt = "A record is no XML, and its identifier cannot be made out."
                elif restarts and declared is None:
                    doubt = "A token expired, and the number of records is not declared."
                elif is_other:
                    doubt = "The repository writes its dates in another form than before."
                yield ListingPage(
                    await one_by_one(self._row, answer.records),
                    place=None if following[0] == len(self._sets) else {"set": following[0], "token": following[1]},
                    declared=declared,
                    clock=answer.clock,
                    doubt=doubt,
                )
            if is_over:
                return
            token = answer.token

    async def _listed(self, number: int, since: datetime | None, token: str | None) -> OaiAnswer:
        if token:
            return await self._ask(ask(self._url, "ListRecords", resumptionToken=token))
        try:
            return await self._ask(self._first_url("ListRecords", self._sets[number], since))
        except NothingError:
            return OaiAnswer(size=0)

    def _first_url(self, verb: str, name: str | None, since: datetime | None) -> str:
        """Return the URL of the first page of a list; a start date is written in the repository's granularity."""
        begin = None
        if since is not None:
            # Some repositories reject a date before their earliest datestamp.
            earliest = moment(self.habits.earliest)
            at = max(since, earliest) if earliest else since
            begin = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ" if self.habits.seconds else "%Y-%m-%d")
        return ask(self._url, verb, metadataPrefix=self.habits.prefix, set=name, from_=begin)

    async def _ask(self, url: str) -> OaiAnswer:
        """Return the answer to a request; repeat the request if the answer cannot be read."""
        for _ in range(_TRIES - 1):
            try:
                return await self._ask_once(url)
            except UnreadableError as problem:
                log.info("an answer could not be read, and was requested again: %s", problem)
        return await self._ask_once(url)

    async def _ask_once(self, url: str) -> OaiAnswer:
        try:
            return await read(await self._portal.request(url, accept=_ACCEPT), self._url)
        except BodyTooLargeError as problem:
            log.info("an answer was too large, and was read in pieces: %s", problem)
        async with self._portal.stream(url, accept=_ACCEPT, max_bytes=MOST_BYTES) as stream:
            return await read_stream(stream, self._url)

    def _row(self, record: OaiRecord) -> Row:
        match record:
            case Plain(identifier, datestamp, cut):
                # The record is parsed only if its text changed.
                url, digest = item_url(self._url, identifier), body_hash(cut.letters())
                seen = UnparsedRecord(address(url), digest, lambda: self._read(url, cut.found(), digest))
                return Row(seen, moment(datestamp), handle=identifier)
            case Broken(body, why, name):
                url = item_url(self._url, name) if name else self._nowhere(body)
                payload = body[:_PAYLOAD_CHARS].encode("utf-8", "replace")
                failed = Failed(url, f"The record cannot be read: {why}", payload=payload)
                return Row(failed, named=name is not None, handle=name)
        tree = record.tree
        header = tree if local(tree.tag) == "header" else tree.find("{*}header")
        identifier = said(header.find("{*}identifier")) if header is not None else ""
        if header is None or not identifier:
            url = self._nowhere(" ".join(tree.itertext()))
            return Row(Failed(url, "The record has no identifier.", payload=written(tree)), named=False)
        modified, url = moment(said(header.find("{*}datestamp"))), item_url(self._url, identifier)
        if header.get("status") == "deleted":
            return Row(Gone(url, "The repository says that it was deleted."), modified, handle=identifier)
        return Row(self._read(url, record), modified, handle=identifier)

    def _read(self, url: str, element: XmlElement, digest: Hash | None = None) -> Fetched | Failed:
        metadata = element.tree.find("{*}metadata")
        why = element.why or ("The record has no metadata." if metadata is None or not len(metadata) else None)
        if why:
            return Failed(url, why, payload=written(element.tree))
        options = self._options
        return parsed(
            url,
            lambda: dataset_of(element.tree, url, language=options.language),
            Validators(body_hash=digest),
            payload=lambda: written(element.tree),
            options=options,
        )

    def _nowhere(self, body: str) -> str:
        return unread_url(self._url, body.encode("utf-8", "replace"))


def _timed(answer: OaiAnswer) -> set[bool]:
    """Return which forms the datestamps of an answer have: with a time (True), without (False), or both."""
    trees = [record.tree for record in answer.records if isinstance(record, XmlElement)]
    read = (said(stamp) for tree in trees for stamp in tree.iterfind("{*}header/{*}datestamp"))
    plain = (record.stamp for record in answer.records if isinstance(record, Plain))
    return {"T" in stamp.upper() for stamps in (read, plain) for stamp in stamps}


_EXPLAINED = frozenset(range(400, 600)) - {401, 403, 408, 425, 429, 503}
_MARKS = (b"<OAI-PMH", b":OAI-PMH")


class Oai(CatalogConnector):
    """Connector for OAI-PMH repositories."""

    kind = "oai"
    Options = OaiOptions
    accept = staticmethod(accept)

    @staticmethod
    def is_typical(address: str) -> bool:
        """Return whether the address alone identifies an OAI-PMH repository."""
        return bool(_SCHEME.match(address) and _TELLING.search(address.partition("#")[0]))

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the repository at an address, identified by its page or by its answer to `Identify`."""
        if probe.page is not None and _is_oai(probe.page.body):
            return accept(probe.url)
        base = accept(probe.base if probe.base != probe.origin else f"{probe.origin}/oai")
        answer = await probe.get(ask(base, "Identify"), accept="text/xml, */*;q=0.5") if base else None
        return base if answer is not None and _is_oai(answer.body) else None

    async def _observe(self, client: Client, known: Known) -> AsyncGenerator[Observation]:
        noted_state = Noted(known)
        portal = PortalClient(client, self._url, self._options, now=self._tools.now, explained=_EXPLAINED)
        # OAI-PMH has no page size, so only the time limit can be increased.
        portal.size.limit_s = LONGEST_LIMIT_S
        repository = Repository(portal, self._url, self._options)
        await repository.open(noted_state)
        async with aclosing(noted(self._refresh(repository, noted_state), repository.notes)) as observations:
            async for observation in observations:
                yield observation


def _is_oai(body: bytes) -> bool:
    return body.lstrip()[:1] in (b"<", b"\xef") and any(mark in body[:2000] for mark in _MARKS)
