"""The tools: one module for each thing that an assistant may want."""

from rowen.mcp.tool import ToolSpec
from rowen.mcp.tools.changing import GET_DIFF, GET_EXTRACTION, LIST_CHANGES
from rowen.mcp.tools.finding import FETCH, SEARCH
from rowen.mcp.tools.listing import FIND_VERSION, LIST_SOURCES
from rowen.mcp.tools.writing import ADD_SOURCE, EXTRACT, REMOVE_SOURCE, SYNC_SOURCE

__all__ = ["TOOLS"]

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
