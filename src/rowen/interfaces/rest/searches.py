"""Saved searches, and their new matches."""

from urllib.parse import quote

from rowen.interfaces.rest.answers import DEFAULT_LIMIT
from rowen.interfaces.rest.derived import RouteBody, RouteGroup, created, empty, list_of

router = RouteGroup(tags=["saved searches"])

_SAVED = created("SavedSearch", lambda saved: f"/api/v1/saved-searches/{quote(saved.name, safe='')}/news")
_BODY = RouteBody("SavedSearchBody", {"name": "dry hay", "query": "dry hay"})

router.offer("list_saved_searches", "GET /saved-searches", "searches.list", list_of("SavedSearch"))
router.offer("save_search", "POST /saved-searches", "searches.save", _SAVED, body=_BODY)
router.offer("forget_search", "DELETE /saved-searches/{name}", "searches.remove", empty())
router.offer(
    "list_search_news",
    "GET /saved-searches/{name}/news",
    "searches.news",
    list_of("SavedNews"),
    defaults={"limit": DEFAULT_LIMIT},
)
