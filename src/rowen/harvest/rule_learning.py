"""Rules for fields, found once from what a model read, and checked by every page that follows.

A model says what a field's value is; where that stands in the page is found here, by looking for it. So a model never
writes a selector, and a rule that does not find what the model read is not kept.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from rowen.content.rules import rules_for
from rowen.errors import ItemError, RowenError
from rowen.harvest.prepare import Workers
from rowen.model.address import Address
from rowen.store import items, source_schemas
from rowen.store.database import Database
from rowen.store.source_schemas import Carried

__all__ = ["RuleLearning"]

log = logging.getLogger(__name__)


class RuleLearning:
    """Learns rules for one schema of one source."""

    def __init__(self, database: Database, workers: Workers, body: Callable[[str], Awaitable[str]]) -> None:
        self._database = database
        self._workers = workers
        self._body = body

    async def learn(self, url: str, carried: Carried, data: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Rules for the fields of a page, kept for its source; None if there are none that are new."""
        if not Address.of(url).is_web:
            return None
        own = {name: rule for name, rule in carried.rules.items() if rule.get("by") == "user"}
        wanted = {name: value for name, value in data.items() if value is not None and name not in own}
        try:
            found = await self._workers.call(rules_for, await self._body(url), wanted)
        except (RowenError, ItemError, ValueError) as problem:
            log.warning("no rules were learned from %s: %s", url, problem)
            return None
        if found.keys() != wanted.keys():
            # What is there and cannot be found by itself could change unseen.
            return None
        rules: dict[str, Any] = {name: {"at": rule, "by": "model"} for name, rule in found.items() if rule is not None}
        async with self._database.transaction() as c:
            absent = {name: {"keep": wanted[name], "by": "model"} for name, rule in found.items() if rule is None}
            if absent and await items.count(c, carried.source_id) != 1:
                return None
            # Of a single page, a word that stands nowhere in it (a currency behind its sign) stays as it was read.
            rules = dict(sorted((rules | absent).items())) | own
            if rules == carried.rules:
                return None
            await source_schemas.set_rules(c, carried.source_id, carried.schema.name, rules)
        return rules
