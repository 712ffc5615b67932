"""The tools, grouped by resource."""

from rowen.interfaces.mcp.tool import ToolSpec
from rowen.interfaces.mcp.tools.changes import GET_DIFF, LIST_CHANGES
from rowen.interfaces.mcp.tools.extraction import EXTRACT, GET_EXTRACTION
from rowen.interfaces.mcp.tools.items import FETCH, SEARCH
from rowen.interfaces.mcp.tools.sources import ADD_SOURCE, FIND_VERSION, LIST_SOURCES, REMOVE_SOURCE, SYNC_SOURCE

TOOLS: tuple[ToolSpec, ...] = (
    SEARCH,
    FETCH,
    LIST_SOURCES,
    LIST_CHANGES,
    GET_DIFF,
    GET_EXTRACTION,
    FIND_VERSION,
    ADD_SOURCE,
    SYNC_SOURCE,
    REMOVE_SOURCE,
    EXTRACT,
)
