"""Extract facts from the changed items of a source, several items at a time.

The change log is the work list. The last processed line of the log is stored for each item, so that a crash repeats
only pending items, and a paid answer is never paid again. An error of the provider or the budget ends the pass, and
the remaining items wait; an error of an item affects that item only.
"""

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rowen.concurrency import together
from rowen.content.structured import rules_for
from rowen.enrich.ledger import Purse, charged_to, paid_from
from rowen.enrich.llm.base import LanguageModel
from rowen.errors import (
    BudgetExceededError,
    ConfigurationError,
    ExtractionError,
    ItemError,
    ProviderDownError,
    ProviderError,
    ProviderRefusedError,
    RowenError,
    StoreRejectedError,
)
from rowen.harvest.page_facts import NotAskedError, PageFacts, PageInput, PageReading
from rowen.harvest.parse_pool import Workers
from rowen.model.extraction import ExtractionReport
from rowen.model.sources import Source
from rowen.model.text import one_item
from rowen.model.url import Address
from rowen.store import changes
from rowen.store import extraction as extraction_store
from rowen.store import schemas as schema_store
from rowen.store.database import Database
from rowen.store.extraction import AvoidedCalls, NewExtraction
from rowen.store.items import items
from rowen.store.schemas import AttachedSchema, PendingItem

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RuleLearning:
    """Finds rules for fields in a page that a model has read; the rules are checked on every later page.

    The model provides values only; their positions in the page are found here. So a model never writes a selector, and
    a rule that does not find the model's value is not stored.
    """

    database: Database
    workers: Workers
    body: Callable[[str], Awaitable[str]]

    async def learn(self, url: str, carried: AttachedSchema, data: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Store and return rules for the fields of a page; None if a value has no rule or no rule has changed."""
        if not Address.of(url).is_web:
            return None
        own = {name: rule for name, rule in carried.rules.items() if rule.get("by") == "user"}
        wanted = {name: value for name, value in data.items() if value is not None and name not in own}
        try:
            rules_by_name = await self.workers.call(rules_for, await self.body(url), wanted)
        except (RowenError, ItemError, ValueError) as problem:
            log.warning("no rules were learned from %s: %s", url, problem)
            return None
        if rules_by_name.keys() != wanted.keys():
            # Without a rule, a changed value would not be noticed.
            return None
        rules: dict[str, Any] = {
            name: {"at": rule, "by": "model"} for name, rule in rules_by_name.items() if rule is not None
        }
        async with self.database.transaction() as c:
            absent = {
                name: {"keep": wanted[name], "by": "model"} for name, rule in rules_by_name.items() if rule is None
            }
            if absent and await items.count(c, carried.source_id) != 1:
                return None
            # In a source of one page, a value that is not in its text (a currency behind its sign) is kept.
            rules = dict(sorted((rules | absent).items())) | own
            if rules == carried.rules:
                return None
            await schema_store.set_rules(c, carried.source_id, carried.schema.name, rules)
        return rules


# The number of texts in memory: at 100 kB each some 50 MB. At the end of each batch, the provider is partly idle.
BATCH = 512
# The daily budget resets at midnight; the budget of a source grows day by day.
_BUDGET_WAIT = timedelta(hours=1)

Observe = Callable[[ExtractionReport], None]


@dataclass(frozen=True, slots=True)
class ExtractionOrder:
    """The options of a pass, such as extracting all items again, only estimating the costs, or a budget."""

    everything: bool = False
    dry_run: bool = False
    force: bool = False
    budget_usd: float | None = None
    budget_tokens: int | None = None
    model: str | None = None
    limit: int | None = None

    @property
    def has_budget(self) -> bool:
        """Whether the pass has its own budget."""
        return self.budget_usd is not None or self.budget_tokens is not None


@dataclass(slots=True, kw_only=True, eq=False)
class ExtractionPass:
    """Extracts the facts of one schema from one source."""

    database: Database
    reader: PageFacts
    source: Source
    carried: AttachedSchema
    order: ExtractionOrder
    places: int
    recovery_s: float
    model: Callable[[], LanguageModel | None]
    learning: RuleLearning | None = None
    is_stopped: Callable[[], bool] = lambda: False
    observe: Observe | None = None
    report: ExtractionReport = field(init=False)
    trouble: RowenError | None = field(default=None, init=False)
    """The error that stopped the pass, if any."""
    _purse: Purse = field(init=False)
    _avoided: dict[str, AvoidedCalls] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.report = ExtractionReport(self.source.name, self.carried.schema.ref, dry_run=self.order.dry_run)
        self._purse = Purse(usd=self.order.budget_usd, tokens=self.order.budget_tokens)

    async def run(self) -> ExtractionReport:
        """Run the pass; return a report on the results and on the reason why remaining items wait."""
        began = time.monotonic()
        try:
            with charged_to(source_id=self.source.id, subject=self.carried.schema.name), paid_from(self._purse):
                await self._process()
        finally:
            await self._settle(began)
        return self.report

    async def _process(self) -> None:
        async with self.database.transaction() as c:
            if self.order.everything and not self.order.dry_run:
                replays = await schema_store.extract_again(c, self.source.id, self.carried.schema.name)
                self.carried = self.carried._replace(extracted_to=0, replays=replays)
            upto = (await changes.next_range(c, self.carried.extracted_to)).upto
            if not self.order.dry_run:
                await schema_store.follow_moves(c, self.carried, upto=upto)
        after = 0 if self.order.everything else self.carried.extracted_to
        again = self.order.dry_run and self.order.everything
        async with self.database.connection() as c:
            numbers = await schema_store.work_list(
                c, self.carried, after=after, upto=upto, again=again, limit=self.order.limit
            )
        for start in range(0, len(numbers), BATCH):
            part = numbers[start : start + BATCH]
            if self._is_over():
                return
            async with self.database.connection() as c:
                batch = await schema_store.pending(c, self.carried, part, again=again)
            # Items run concurrently. After an error that no item causes, no item is started. An error of the store also
            # ends the pending ones, since their answers could not be stored.
            waiting = iter(batch)

            async def work(items: Iterator[PendingItem]) -> None:
                for item in items:
                    if self._is_over():
                        return
                    await self._process_item(item)

            if self.learning is not None and batch:
                # Rules learned from one page are used for the following pages.
                await self._process_item(next(waiting))
            await together(*(work(waiting) for _ in range(min(self.places, len(batch)))))
            if self._is_over():
                return
            await self._mark(part[-1])
        if self.order.limit is None or len(numbers) < self.order.limit:
            await self._mark(upto)

    async def _mark(self, number: int) -> None:
        """Store that everything up to a line of the log is extracted; an interrupted pass resumes there."""
        if not self.order.dry_run:
            async with self.database.connection() as c:
                await schema_store.mark_extracted(c, self.carried, number)

    def _is_over(self) -> bool:
        """Return whether to send no more requests; pending requests are still awaited."""
        return self.trouble is not None or self.is_stopped()

    async def _process_item(self, item: PendingItem) -> None:
        try:
            with one_item(item.url, NotAskedError):
                if self.order.dry_run:
                    await self._estimate(item)
                elif item.text is None:
                    async with self.database.connection() as c:
                        name = self.carried.schema.name
                        self.report.removed += await extraction_store.close_gone(
                            c, self.source.id, item.key, name, number=item.number
                        )
                else:
                    await self._extract(item, _page(item))
        except NotAskedError:
            return
        except (ProviderDownError, BudgetExceededError, ConfigurationError) as problem:
            self.trouble = self.trouble or problem
            return
        except (ExtractionError, ItemError, ProviderRefusedError, StoreRejectedError) as problem:
            self.report.failed += 1
            self.report.errors = dict(Counter(self.report.errors) + Counter([problem.code]))
            if not self.order.dry_run:
                details: dict[str, Any] = {"number": item.number, "error": str(problem), "code": problem.code}
                details["answer_key"] = getattr(problem, "answer_key", None)
                async with self.database.connection() as c:
                    await extraction_store.fail(c, self.source.id, item.key, self.carried.schema.name, **details)
        except ProviderError as problem:
            # A wrong key or model affects all items alike.
            self.trouble = self.trouble or problem
            return
        self.report.looked_at += 1
        if self.observe is not None:
            self.observe(self.report)

    async def _estimate(self, item: PendingItem) -> None:
        if item.text is None:
            return
        usage = await self.reader.estimate(_page(item), self._reading())
        if usage is None:
            self.report.avoided_reused += 1
            return
        self.report.calls += 1
        self.report.tokens += sum(usage)
        model = self.model()
        price = model.price if model is not None else None
        self.report.usd = None if price is None or self.report.usd is None else self.report.usd + price.of(usage)

    async def _extract(self, item: PendingItem, page: PageInput) -> None:
        extracted, key = await self.reader.read(page, self._reading(), is_over=self._is_over)
        if extracted.origin != "model" or extracted.reused:
            # The purse counts costs that were spent; these are costs that were avoided.
            tokens, usd = (extracted.tokens, extracted.usd or 0.0) if extracted.reused else (0, 0.0)
            reason = "reused" if extracted.reused else extracted.origin
            name = f"avoided_{reason}"
            setattr(self.report, name, getattr(self.report, name) + 1)
            self.report.avoided_tokens += tokens
            self.report.avoided_usd += usd
            before = self._avoided.get(reason, AvoidedCalls())
            self._avoided[reason] = AvoidedCalls(before.calls + 1, before.tokens + tokens, before.usd + usd)
        facts = NewExtraction(
            extracted.data, extracted.origin, extracted.model, extracted.evidence, key, item.content_hash
        )
        async with self.database.transaction() as c:
            saved = await extraction_store.save(
                *(c, self.source, self.carried, item.key),
                url=page.url,
                title=page.title,
                facts=facts,
                number=item.number,
            )
        setattr(self.report, saved.outcome, getattr(self.report, saved.outcome) + 1)
        self.report.matched += len(saved.matched)
        self.report.ungrounded += bool(extracted.ungrounded)
        if self.learning is not None and extracted.origin == "model":
            rules = await self.learning.learn(page.url, self.carried, extracted.data)
            if rules is not None:
                self.report.learned += 1
                self.carried = self.carried._replace(rules=rules)

    async def _settle(self, began: float) -> None:
        """Store the avoided calls and the reason why remaining items wait, and complete the report."""
        report = self.report
        if not report.dry_run:
            report.calls, report.tokens = self._purse.calls, self._purse.spent_tokens
            model = self.model() if report.calls else None
            priced = model is None or model.price is not None
            report.usd = round(self._purse.spent_usd, 6) if priced else None
        report.avoided_usd = round(report.avoided_usd, 6)
        report.seconds = round(time.monotonic() - began, 3)
        async with self.database.transaction() as c:
            if not report.dry_run:
                await extraction_store.avoid(c, self.source.id, self.carried.schema.name, self._avoided)
                if (problem := self.trouble) is not None:
                    hint = problem.hint or _HINTS.get(problem.code)
                    report.waits_for = f"{problem} {hint}" if hint else str(problem)
                    log.warning("extraction of %s waits: %s", self.source.name, problem)
                    # Without a time the remaining items wait for the user, as after a wrong key or model.
                    until = None
                    if isinstance(problem, ProviderDownError):
                        until = datetime.now(UTC) + timedelta(seconds=problem.retry_in_s or self.recovery_s)
                    elif isinstance(problem, BudgetExceededError):
                        until = datetime.now(UTC) + _BUDGET_WAIT
                    await schema_store.wait(c, self.carried, report.waits_for, code=problem.code, until=until)
            now = await changes.last_number(c)
            schemas = await schema_store.attached(c, self.source.id)
            same = next((row for row in schemas if row.schema == self.carried.schema), self.carried)
            report.pending = await schema_store.count_pending(c, same, upto=now)

    def _reading(self) -> PageReading:
        carried, order = self.carried, self.order
        return PageReading(carried.schema, carried.grounding, carried.rules, order.model, order.force)


_HINTS = {
    "budget_exceeded": "The rest waits. --budget, ROWEN_BUDGET_RUN_USD, _SOURCE_USD and _DAY_USD set the budgets;"
    " ROWEN_LLM_PRICE sets the price.",
    "provider_key": "ROWEN_LLM_KEY contains the key, or refers to it as env:NAME or file:PATH.",
    "provider_down": "The rest waits; the next pass resumes here.",
    "provider": "The rest waits for the next pass. Check ROWEN_LLM_URL and ROWEN_LLM_MODEL.",
}


def _page(item: PendingItem) -> PageInput:
    return PageInput(item.url, item.title or "", item.text or "", item.record or {}, item.media_type)
