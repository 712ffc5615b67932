"""What users type for a catalog: a web address, with or without its kind before it."""

import re

from rowen.errors import BadUrlError
from rowen.fetch.target import parse

__all__ = ["web_url"]

_WEB = re.compile(r"https?://", re.IGNORECASE)


def web_url(address: str, kind: str) -> str | None:
    """The URL of `KIND:https://…` or of a plain web address; None for anything else."""
    bare = address.removeprefix(f"{kind}:")
    if not _WEB.match(bare):
        return None
    try:
        return parse(bare).url
    except BadUrlError:
        return None
