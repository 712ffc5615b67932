"""The tools: one module for each thing that an assistant may want."""

from rowen.interfaces.mcp.tool import ToolSpec
from rowen.interfaces.mcp.tools.changing import GET_DIFF, GET_EXTRACTION, LIST_CHANGES
from rowen.interfaces.mcp.tools.finding import FETCH, SEARCH
from rowen.interfaces.mcp.tools.listing import FIND_VERSION, LIST_SOURCES
from rowen.interfaces.mcp.tools.writing import ADD_SOURCE, EXTRACT, REMOVE_SOURCE, SYNC_SOURCE

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
