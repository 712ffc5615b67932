"""Text that a page keeps from its readers' eyes by its own style: what speaks to programs alone stands in such places.

Only pages that are read for facts lose it. Elsewhere it may be a panel that a click opens, and is worth finding.
"""

import re

from turbohtml import Document

__all__ = ["drop_concealed"]

_CONCEALING = re.compile(
    r"(?:^|;)(?:display:none|visibility:hidden|opacity:0(?:\.0+)?|font-size:0(?:\.0+)?(?:px|pt|r?em|%)?)"
    r"(?:!important)?(?:;|$)"
)
# Pages that fade in conceal all that they say until their scripts have run; what speaks to programs has no such parts.
_WHOLE = "main,article,h1"
# Those of a page are dozens. Each is looked into, so that without a limit time would be quadratic.
_MOST = 1_000


def drop_concealed(page: Document) -> None:
    """Remove what inline styles conceal, except for what holds the page itself."""
    for element in page.select("body [style]")[:_MOST]:
        style = re.sub(r"\s+", "", element.attr("style") or "").lower()
        if _CONCEALING.search(style) and element.tag not in _WHOLE.split(",") and element.select_one(_WHOLE) is None:
            element.decompose()
