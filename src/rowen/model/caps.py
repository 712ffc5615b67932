"""How long a field may be that stands in an index, or again in every passage: what is beyond is left out, and told.

Text has no limit: it is cut into passages, and costs as much as it is long. These fields do not: PostgreSQL copies a
title into the index entry of each passage, refuses what is too long for an index, and writes links and validators anew
with each check. All here is a function of the value alone, so that a refresh leaves out what a rebuild would.
"""

import hashlib
from collections.abc import Iterable, Iterator

__all__ = [
    "LONGEST_ANCHOR",
    "LONGEST_HEADING",
    "LONGEST_URL",
    "LONGEST_VALIDATOR",
    "MOST_LINK_CHARS",
    "Remarks",
    "anchor_within",
    "error_within",
    "heading_within",
    "language_within",
    "links_within",
    "media_type_within",
    "name_within",
    "tags_within",
    "title_within",
]

LONGEST_TITLE = 1_000
"""Characters. Of 30,000 titles in recorded answers of portals the longest has 345; a passage has up to 1,500, so that a
title at most doubles its index entry. A title of 0.4 MB took minutes and half a gigabyte."""

LONGEST_HEADING = 200
"""Characters of each heading in a passage's path, of which there are at most six: together no more than a passage."""

LONGEST_ANCHOR = 256
"""Characters. An anchor is a heading's words, with a number where they were there before, or an id of twenty."""

MOST_TAGS = 1_000
"""The recorded portals have up to 71 an item."""
LONGEST_TAG = 300
"""Characters; the longest one recorded has 87."""
MOST_TAG_CHARS = 20_000
"""Of all tags together. They are stored with each revision; the recorded ones come to 757 an item at most."""

LONGEST_URL = 8_192
"""Characters. Servers refuse longer request lines (RFC 9110 4.1 asks for 8,000); the longest recorded one has 1,328."""

MOST_LINKS = 50_000
"""Links of one item. Python's general index, as large as a page gets, has 20,000."""
MOST_LINK_CHARS = 4_000_000
"""Of all links of an item together: they are stored in one value, which each check may write anew."""

LONGEST_LANGUAGE = 35
"""Characters (RFC 5646 4.4.1). An index over languages refuses 2,704 bytes."""
LONGEST_MEDIA_TYPE = 255
"""Characters: 127 for either half (RFC 6838 4.2)."""
LONGEST_VALIDATOR = 1_024
"""Characters of an ETag or a date. It is sent back with each request; without it a body costs what it costs."""

LONGEST_ERROR = 2_000
"""Characters of an error or a hint: origins are quoted in it, and it is kept for every item that fails."""


class Remarks(list[str]):
    """What was left out of an item, one sentence each."""

    def cut(self, what: str, length: int, kept: int) -> None:
        """Note a value of which only the beginning is kept."""
        self.append(f"Its {what} has {length:,} characters; the first {kept:,} are kept.")

    def left_out(self, what: str) -> None:
        """Note a value, or some, that are not kept at all."""
        self.append(f"{what} left out.")


def title_within(title: str, remarks: Remarks) -> str:
    """A title, or its beginning."""
    if len(title) <= LONGEST_TITLE:
        return title
    remarks.cut("title", len(title), LONGEST_TITLE)
    return _beginning(title, LONGEST_TITLE)


def tags_within(tags: tuple[str, ...], remarks: Remarks) -> tuple[str, ...]:
    """The first tags, without those that are too long to be any."""
    if len(tags) <= MOST_TAGS and sum(map(len, tags)) <= min(LONGEST_TAG, MOST_TAG_CHARS):
        return tags
    kept = tuple(_within((tag for tag in tags if len(tag) <= LONGEST_TAG), MOST_TAGS, MOST_TAG_CHARS))
    if len(kept) < len(tags):
        remarks.left_out(f"{len(tags) - len(kept):,} of its {len(tags):,} tags were too long or too many, and are")
    return kept


def links_within(links: tuple[str, ...], remarks: Remarks) -> tuple[str, ...]:
    """The first links, without those that no server would answer."""
    if len(links) <= MOST_LINKS and sum(map(len, links)) <= LONGEST_URL:
        return links
    kept = tuple(_within((link for link in links if len(link) <= LONGEST_URL), MOST_LINKS, MOST_LINK_CHARS))
    if len(kept) < len(links):
        remarks.left_out(f"{len(links) - len(kept):,} of its {len(links):,} links were too long or too many, and are")
    return kept


def language_within(language: str | None, remarks: Remarks) -> str | None:
    """A language tag that may be one."""
    if language is None or len(language) <= LONGEST_LANGUAGE:
        return language
    remarks.left_out("Its language is no language tag, and is")
    return None


def media_type_within(media_type: str | None, remarks: Remarks) -> str | None:
    """A media type that may be one."""
    if media_type is None or len(media_type) <= LONGEST_MEDIA_TYPE:
        return media_type
    remarks.left_out("Its media type is too long to be one, and is")
    return None


def heading_within(heading: str) -> str:
    """A heading, or its beginning."""
    return heading if len(heading) <= LONGEST_HEADING else _beginning(heading, LONGEST_HEADING)


def anchor_within(anchor: str | None) -> str | None:
    """An anchor that a browser can be sent to; half of one leads nowhere."""
    return anchor if anchor is None or len(anchor) <= LONGEST_ANCHOR else None


def error_within(words: str) -> str:
    """An error or a hint, or its beginning."""
    return words if len(words) <= LONGEST_ERROR else _beginning(words, LONGEST_ERROR)


def name_within(url: str) -> str:
    """A URL; of one that is too long to be an identity the beginning, and a digest of the whole."""
    if len(url) <= LONGEST_URL:
        return url
    return f"{url[:200]}…{hashlib.sha256(url.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _beginning(text: str, most: int) -> str:
    return text[: most - 1].rstrip() + "…"


def _within(values: Iterable[str], most: int, most_chars: int) -> Iterator[str]:
    chars = 0
    for number, value in enumerate(values):
        chars += len(value)
        if number == most or chars > most_chars:
            return
        yield value
