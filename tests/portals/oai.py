"""A small OAI-PMH repository on loopback that changes, lies and fails."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random
from typing import Any
from xml.sax.saxutils import escape

from aiohttp import web

from tests.portals.catalogs import Changing, Portal, some_words
from tests.portals.site import WORDS

DC = "http://purl.org/dc/elements/1.1/"
OAI_DC = "http://www.openarchives.org/OAI/2.0/oai_dc/"
FORMATS = {
    "oai_dc": OAI_DC,
    "oai_datacite": "http://schema.datacite.org/oai/oai-1.1/",
    "datacite4": "http://datacite.org/schema/kernel-4",
    "marc": "http://www.loc.gov/MARC21/slim",
}


@dataclass(frozen=True)
class Entry:
    """One record: the elements of its Dublin Core, or the whole XML of its metadata."""

    at: datetime
    fields: dict[str, list[str]] = field(default_factory=dict)
    sets: tuple[str, ...] = ("all",)
    deleted: bool = False
    xml: str | None = None
    identifier: str | None = None


HEAD = b'<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><responseDate>2024-01-01T00:00:00Z</responseDate>'


class OaiRepository(Portal):
    """Records by identifier, in the order of identifiers."""

    filter_marks = ("from=",)

    no_listings = (
        HEAD + b"<ListRecords></ListRecords></OAI-PMH>",
        HEAD + b'<error code="noRecordsMatch">Nothing</error></OAI-PMH>',
        HEAD + b'<error code="badArgument">Whatever</error></OAI-PMH>',
        HEAD + b"<ListRecords><record><header><identifier>oai:farm.example:d00001</identifier></header>",
        HEAD,
        b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><OAI-PMH>&b;</OAI-PMH>',
        b"<html><body>Maintenance</body></html>",
        b"<rss/>",
        b"{}",
    )

    def __init__(self) -> None:
        super().__init__()
        self.base = f"{self.url}/oai"
        self.address = f"oai:{self.base}"
        self.records: dict[str, Entry] = {}
        self.page_max = 100
        self.policy = "persistent"
        self.seconds = True
        self.formats = ["oai_dc"]
        self.sized = True
        self.bodies_of: dict[str, bytes] = {}
        self.status = 200
        self.error_status = 200
        self.error_html = False
        self.expired: set[str] = set()
        self.expires_once: set[str] = set()
        self.endless = False
        self.cut_bytes = 0
        self.cut_once = ""
        self.refuses_from = False

    def make(self, name: str, /, title: Any = None, *, tick_h: float = 2, **more: Any) -> None:
        """A record as it is from now on."""
        self.tick(tick_h)
        fields = {
            "title": title if isinstance(title, list) else [title or f"Paper {name}"],
            "creator": ["Reaper, A.", "Sower, B."],
            "subject": ["hay", "clover"],
            "description": [f"All about {name}."],
            "publisher": ["The Farm Press"],
            "date": ["2023-05-01"],
            "identifier": [f"https://farm.example/{name}", f"https://farm.example/files/{name}.pdf"],
            "language": ["en"],
            "format": ["application/pdf"],
            "rights": ["https://creativecommons.org/publicdomain/zero/1.0/"],
            **{word: value for word, value in more.items() if isinstance(value, list)},
        }
        rest = {word: value for word, value in more.items() if not isinstance(value, list)}
        self.records[name] = Entry(self.clock, fields, **rest)

    def make_nested(self, name: str, depth: int) -> None:
        """A record with elements in elements in elements."""
        self.make(name, xml="<n><n/>" * depth + "</n>" * depth)

    def make_twin(self, name: str) -> None:
        """Another record of the same identifier."""
        self.make("twin", identifier=f"oai:farm.example:{name}")

    def spoil(self, name: str) -> None:
        self.make(name, xml="<dc><title>No & entity</title></dc>")

    def remove(self, name: str, *, tick_h: float = 2) -> None:
        """Take a record away as the repository's policy forgets it."""
        self.tick(tick_h)
        if self.policy == "no":
            self.records.pop(name, None)
        elif name in self.records:
            self.records[name] = replace(self.records[name], deleted=True, at=self.clock)

    def names(self) -> set[str]:
        return {name for name, entry in self.records.items() if not entry.deleted}

    def went_on(self, behind: int) -> bool:
        return self.log[1].headers["resumptionToken"] == f"oai_dc|||{behind}"

    def verbs(self) -> list[str]:
        return [asked.headers["verb"] for asked in self.log]

    def _noted(self, request: web.Request) -> dict[str, Any]:
        return {"verb": "", **request.query}

    async def _search(self, request: web.Request) -> web.Response:
        verb = request.query.get("verb", "")
        if request.path != "/oai":
            return web.Response(status=404, text="Not found")
        body = self.body if verb == "ListRecords" and self.body is not None else self.bodies_of.get(verb)
        if body is not None:
            return web.Response(body=body, content_type="text/xml", status=self.status)
        match verb:
            case "Identify":
                return self._told(self._identity())
            case "ListMetadataFormats":
                return self._told("".join(self._format(prefix) for prefix in self.formats), verb)
            case "GetRecord":
                return self._one(request.query["identifier"], request.query["metadataPrefix"])
            case "ListRecords" | "ListIdentifiers":
                return self._list(verb, dict(request.query))
        return self._error("badVerb", "Illegal verb")

    def _one(self, identifier: str, prefix: str) -> web.Response:
        for key, entry in self.records.items():
            if (entry.identifier or f"oai:farm.example:{key}") == identifier:
                return self._told(self._entry(key, "ListRecords", prefix), "GetRecord")
        return self._error("idDoesNotExist", "No such record")

    def _identity(self) -> str:
        granularity = "YYYY-MM-DDThh:mm:ssZ" if self.seconds else "YYYY-MM-DD"
        first = min((entry.at for entry in self.records.values()), default=self.clock)
        return (
            f"<Identify><repositoryName>Farm</repositoryName><baseURL>{self.base}</baseURL>"
            f"<protocolVersion>2.0</protocolVersion><earliestDatestamp>{self._stamp(first)}</earliestDatestamp>"
            f"<deletedRecord>{self.policy}</deletedRecord><granularity>{granularity}</granularity></Identify>"
        )

    @staticmethod
    def _format(prefix: str) -> str:
        return (
            f"<metadataFormat><metadataPrefix>{prefix}</metadataPrefix><schema>urn:x</schema>"
            f"<metadataNamespace>{FORMATS[prefix]}</metadataNamespace></metadataFormat>"
        )

    def _stamp(self, at: datetime) -> str:
        return at.strftime("%Y-%m-%dT%H:%M:%SZ" if self.seconds else "%Y-%m-%d")

    def _told(self, inner: str, verb: str = "") -> web.Response:
        body = f"<{verb}>{inner}</{verb}>" if verb else inner
        text = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<?xml-stylesheet href="x.xsl"?>'
            '<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
            f' xsi:schemaLocation="a b"><responseDate>{self.clock:%Y-%m-%dT%H:%M:%SZ}</responseDate>'
            f"<request>{self.base}</request>{body}</OAI-PMH>"
        ).encode("utf-8", "surrogatepass")
        cut_bytes = 30 if verb and verb == self.cut_once else self.cut_bytes
        self.cut_once = "" if verb == self.cut_once else self.cut_once
        return web.Response(body=text[: len(text) - cut_bytes], content_type="text/xml")

    def _error(self, code: str, words: str) -> web.Response:
        if self.error_html:
            return web.Response(status=500, text="<html>Internal Server Error</html>", content_type="text/html")
        response = self._told(f'<error code="{code}">{words}</error>')
        response.set_status(self.error_status)
        return response

    def _list(self, verb: str, query: dict[str, str]) -> web.Response:
        token = query.get("resumptionToken")
        lost = {*self.expired, *self.expires_once}
        if token is not None and (set(query) != {"verb", "resumptionToken"} or token in lost):
            self.expires_once.discard(token)
            return self._error("badResumptionToken", "No such token")
        if token is not None:
            prefix, since, name, start = token.split("|")
            query = {"metadataPrefix": prefix, "from": since, "set": name}
        else:
            start = "0"
        if query.get("metadataPrefix") not in self.formats:
            return self._error("cannotDisseminateFormat", "No such format")
        if query.get("from") and (self.refuses_from or (not self.seconds and "T" in query["from"])):
            return self._error("badArgument", "No such date")
        found = self._found(query)
        if not found and not self.endless:
            return self._error("noRecordsMatch", "Nothing")
        return self._page(verb, query, found, int(start))

    def _page(self, verb: str, query: dict[str, str], found: list[str], start: int) -> web.Response:
        at = 0 if "start" in self.ignores else start
        size = max(0, len(found) + self.miscount)
        page = [self._entry(key, verb, query["metadataPrefix"]) for key in found[at : at + self.page_max]]
        if self.endless:
            page = []
        rest = start + self.page_max < len(found) or self.endless
        sized = f' completeListSize="{size}" cursor="{start}"' if self.sized else ""
        following = "|".join(
            [query["metadataPrefix"], query.get("from", ""), query.get("set", ""), str(start + self.page_max)]
        )
        if rest or start:
            page.append(f"<resumptionToken{sized}>{escape(following) if rest else ''}</resumptionToken>")
        response = self._told("".join(page), verb)
        if verb == "ListRecords":
            self.turn(start)
        return response

    def _found(self, query: dict[str, str]) -> list[str]:
        since, name = query.get("from") or "", query.get("set") or ""
        if "filter" in self.ignores:
            since = ""
        return [
            key
            for key, entry in sorted(self.records.items())
            if self._stamp(entry.at) >= since and (not name or name in entry.sets)
        ]

    def _entry(self, key: str, verb: str, prefix: str) -> str:
        entry = self.records[key]
        sets = "".join(f"<setSpec>{name}</setSpec>" for name in entry.sets)
        identifier = f"oai:farm.example:{key}" if entry.identifier is None else entry.identifier
        status = ' status="deleted"' if entry.deleted else ""
        named = f"<identifier>{identifier}</identifier>" if identifier else ""
        header = f"<header{status}>{named}<datestamp>{self._stamp(entry.at)}</datestamp>{sets}</header>"
        if verb == "ListIdentifiers":
            return header
        if entry.deleted:
            return f"<record>{header}</record>"
        return f"<record>{header}<metadata>{self._metadata(entry, prefix)}</metadata></record>"

    def _metadata(self, entry: Entry, prefix: str) -> str:
        if entry.xml is not None:
            return entry.xml
        if prefix != "oai_dc":
            return datacite(entry)
        inner = "".join(
            f"<dc:{name}>{escape(value)}</dc:{name}>" for name, values in entry.fields.items() for value in values
        )
        return f'<oai_dc:dc xmlns:oai_dc="{OAI_DC}" xmlns:dc="{DC}" xsi:schemaLocation="c d">{inner}</oai_dc:dc>'


def datacite(entry: Entry) -> str:
    """The record in DataCite's schema, in the envelope of `oai_datacite`."""
    people = "".join(
        f"<creator><creatorName>{escape(name)}</creatorName></creator>" for name in entry.fields["creator"]
    )
    subjects = "".join(f"<subject>{escape(word)}</subject>" for word in entry.fields["subject"])
    return (
        '<oai_datacite xmlns="http://schema.datacite.org/oai/oai-1.1/"><schemaVersion>4.3</schemaVersion><payload>'
        '<resource xmlns="http://datacite.org/schema/kernel-4">'
        '<identifier identifierType="DOI">10.1234/farm</identifier>'
        f"<creators>{people}</creators><titles><title xml:lang='en'>{escape(''.join(entry.fields['title']))}</title>"
        "<title xml:lang='de'>Heu</title><title titleType='Subtitle'>A second crop</title></titles>"
        "<publisher>The Farm Press</publisher><publicationYear>2023</publicationYear>"
        f"<subjects>{subjects}</subjects><dates><date dateType='Issued'>2023-05-01</date>"
        "<date dateType='Coverage'>2001/2002</date><date dateType='Updated'>2023-06-01</date></dates>"
        "<language>en</language><formats><format>text/csv</format></formats><sizes><size>1024 bytes</size></sizes>"
        "<rightsList><rights rightsURI='info:eu-repo/semantics/openAccess'>Open</rights>"
        "<rights rightsURI='https://creativecommons.org/licenses/by/4.0/'>CC BY</rights></rightsList>"
        f"<descriptions><description descriptionType='Abstract'>{escape(entry.fields['description'][0])}</description>"
        "</descriptions><geoLocations><geoLocation><geoLocationPlace>The meadow</geoLocationPlace><geoLocationBox>"
        "<westBoundLongitude>1</westBoundLongitude><eastBoundLongitude>3</eastBoundLongitude>"
        "<southBoundLatitude>2</southBoundLatitude><northBoundLatitude>4</northBoundLatitude></geoLocationBox>"
        "</geoLocation></geoLocations><relatedIdentifiers><relatedIdentifier relatedIdentifierType='URL' "
        "relationType='HasPart'>https://farm.example/data.csv</relatedIdentifier></relatedIdentifiers>"
        "</resource></payload></oai_datacite>"
    )


class ChangingOai(Changing, OaiRepository):
    """A repository for the refresh-equals-rebuild machine."""

    kind = "oai"

    def __init__(self) -> None:
        super().__init__()
        self.page_max = 3

    def change(self, chance: Random) -> None:
        name = f"n{chance.randrange(14)}"
        self.calm()
        match chance.randrange(13):
            case 0 | 1 | 2 | 3:
                self.write(chance, name)
            case 4 | 5:
                self.remove(name, tick_h=chance.choice([0.1, 5]))
            case 6:
                self.spoil(name)
            case 7:
                self.ignores = set(chance.sample(["filter", "start"], chance.randrange(2)))
            case 8:
                self.count_wrongly(chance.choice([0, 0, 1, -1, 100]))
                self.sized = chance.random() < 0.5
            case 9:
                odd = [b"<html>Maintenance</html>", b"<OAI-PMH><ListRecords>", b"", b"<a/>"]
                self.bodies_of = {chance.choice(["ListRecords", "Identify", "ListMetadataFormats"]): chance.choice(odd)}
            case 10:
                self.down = chance.random() < 0.3
                self.cut_bytes = chance.choice([0, 1, 40])
            case 11:
                self.page_max = chance.choice([1, 3, 100])
                self.seconds = chance.random() < 0.5
            case 12:
                self.formats = chance.choice([["oai_dc"], ["oai_dc", "oai_datacite"]])

    def write(self, chance: Random, name: str) -> None:
        text = some_words(chance)
        odd: dict[str, list[str]] = chance.choice([{}, {"creator": []}, {"subject": [text]}, {"rights": [text]}])
        fields = {"description": [text], "publisher": [chance.choice(WORDS)], **odd}
        self.make(name, chance.choice([*WORDS, []]), tick_h=chance.choice([0, 0.01, 0.5, 5]), **fields)

    def calm(self) -> None:
        super().calm()
        self.bodies_of, self.cut_bytes = {}, 0

    def unreadable(self, chance: Random, record: Entry) -> Entry:
        return replace(record, xml="<dc><title>No & entity</title></dc>")

    def is_spoiled(self, record: Entry) -> bool:
        return record.xml is not None and not record.deleted


class ForgetfulOai(ChangingOai):
    """A repository that keeps no word of what it deleted: only its count tells."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = "no"

    def heal(self) -> None:
        super().heal()
        self.sized = True
