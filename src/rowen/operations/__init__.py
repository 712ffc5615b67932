"""What every interface may ask: one object, opened with the settings in force."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar, overload

from rowen.harvest.engine import Engine
from rowen.operations.parts import Parts
from rowen.settings import Settings, load
from rowen.store.database import Patience

__all__ = ["Rowen", "open"]

T = TypeVar("T")


class _Asked(Generic[T]):
    """Something that a part does: the part is made when it is asked for the first time."""

    def __init__(self, of: Callable[[Parts], T]) -> None:
        self._of = of

    def __set_name__(self, owner: type["Rowen"], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, rowen: None, owner: type["Rowen"]) -> "_Asked[T]": ...
    @overload
    def __get__(self, rowen: "Rowen", owner: type["Rowen"]) -> T: ...
    def __get__(self, rowen: "Rowen | None", owner: type["Rowen"]) -> "_Asked[T] | T":
        if rowen is None:
            return self
        found = vars(rowen)[self._name] = self._of(rowen._parts)  # noqa: SLF001 (it is a piece of that class)
        return found


class Rowen:
    """Sources, runs, items and the change log of one database.

    All it can do is done by small parts, and asked for here: `await rowen.sync("./docs")`, `await rowen.search("…")`.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._engine = Engine(settings)
        self._parts = Parts(self._engine)

    tokens = _Asked(lambda parts: parts.access.tokens)
    add_token = _Asked(lambda parts: parts.access.add_token)
    revoke_token = _Asked(lambda parts: parts.access.revoke_token)
    identify = _Asked(lambda parts: parts.access.identify)
    open_session = _Asked(lambda parts: parts.access.open_session)
    valid_credentials = _Asked(lambda parts: parts.access.valid_credentials)
    of_session = _Asked(lambda parts: parts.access.of_session)
    close_session = _Asked(lambda parts: parts.access.close_session)
    begin_login = _Asked(lambda parts: parts.access.begin_login)
    finish_login = _Asked(lambda parts: parts.access.finish_login)
    note_write = _Asked(lambda parts: parts.access.note_write)
    audit_log = _Asked(lambda parts: parts.access.audit_log)
    tidy_access = _Asked(lambda parts: parts.access.tidy_access)
    answer_once = _Asked(lambda parts: parts.access.answer_once)
    keep_answer = _Asked(lambda parts: parts.access.keep_answer)

    sources = _Asked(lambda parts: parts.source_list.every)
    source = _Asked(lambda parts: parts.source_list.get)
    overview = _Asked(lambda parts: parts.source_list.overview)
    sources_by_kind = _Asked(lambda parts: parts.source_list.by_kind)
    remove = _Asked(lambda parts: parts.source_list.remove)
    pause = _Asked(lambda parts: parts.source_list.pause)
    resume = _Asked(lambda parts: parts.source_list.resume)

    add = _Asked(lambda parts: parts.sources.add)
    edit = _Asked(lambda parts: parts.sources.edit)
    apply = _Asked(lambda parts: parts.sources.apply)
    declare = _Asked(lambda parts: parts.sources.declare)
    check_source = _Asked(lambda parts: parts.sources.check)
    preview = _Asked(lambda parts: parts.previews.preview)
    following = _Asked(lambda parts: parts.sources.following)
    followed = _Asked(lambda parts: parts.sources.followed)
    find_version = _Asked(lambda parts: parts.sources.find_version)

    extract = _Asked(lambda parts: parts.extractions.extract)
    extract_source = _Asked(lambda parts: parts.extractions.extract_source)
    read_page = _Asked(lambda parts: parts.extractions.read_page)
    estimate_extraction = _Asked(lambda parts: parts.extractions.estimate)
    evaluate = _Asked(lambda parts: parts.extractions.evaluate)
    costs = _Asked(lambda parts: parts.extractions.costs)
    extractions = _Asked(lambda parts: parts.extractions.every)
    extraction_history = _Asked(lambda parts: parts.extractions.history)
    extraction_histories = _Asked(lambda parts: parts.extractions.histories)
    carry_schema = _Asked(lambda parts: parts.extractions.carry)
    drop_schema = _Asked(lambda parts: parts.extractions.drop)
    source_schemas = _Asked(lambda parts: parts.extractions.carried)

    situation = _Asked(lambda parts: parts.standings.situation)
    switched_off = _Asked(lambda parts: parts.standings.switched_off)
    savings = _Asked(lambda parts: parts.standings.savings)
    standing_sources = _Asked(lambda parts: parts.standings.sources)
    last_runs = _Asked(lambda parts: parts.standings.last_runs)
    troubles = _Asked(lambda parts: parts.standings.troubles)
    standing = _Asked(lambda parts: parts.standings.source)
    items_of = _Asked(lambda parts: parts.standings.items_of)
    browse = _Asked(lambda parts: parts.standings.browse)

    sync = _Asked(lambda parts: parts.runs.sync)
    sync_all = _Asked(lambda parts: parts.runs.sync_all)
    cancel = _Asked(lambda parts: parts.runs.cancel)
    cancel_run = _Asked(lambda parts: parts.runs.cancel_run)
    sources_in_turn = _Asked(lambda parts: parts.runs.in_turn)
    runs = _Asked(lambda parts: parts.runs.recent)
    run = _Asked(lambda parts: parts.runs.get)
    quarantine = _Asked(lambda parts: parts.runs.quarantine)

    jobs = _Asked(lambda parts: parts.jobs.every)
    watch_run = _Asked(lambda parts: parts.watches.run)
    watch_job = _Asked(lambda parts: parts.watches.job)
    watch_recent_runs = _Asked(lambda parts: parts.watches.recent_runs)
    job = _Asked(lambda parts: parts.jobs.get)
    queue_depth = _Asked(lambda parts: parts.jobs.depth)
    workers = _Asked(lambda parts: parts.jobs.workers)
    enqueue = _Asked(lambda parts: parts.jobs.enqueue)
    enqueue_extraction = _Asked(lambda parts: parts.jobs.enqueue_extraction)
    cancel_job = _Asked(lambda parts: parts.jobs.cancel)
    retry_job = _Asked(lambda parts: parts.jobs.retry)
    pause_queue = _Asked(lambda parts: parts.jobs.pause)
    resume_queue = _Asked(lambda parts: parts.jobs.resume)
    health = _Asked(lambda parts: parts.jobs.health)
    work = _Asked(lambda parts: parts.jobs.work)
    stop = _Asked(lambda parts: parts.jobs.stop)

    circuits = _Asked(lambda parts: parts.circuits.every)
    reset_circuits = _Asked(lambda parts: parts.circuits.reset)

    poke = _Asked(lambda parts: parts.push.poke)
    push_access = _Asked(lambda parts: parts.push.access)
    subscriptions = _Asked(lambda parts: parts.push.subscriptions)
    subscribe = _Asked(lambda parts: parts.push.subscribe)
    unsubscribe = _Asked(lambda parts: parts.push.unsubscribe)
    receive_github = _Asked(lambda parts: parts.push.receive_github)
    receive_call = _Asked(lambda parts: parts.push.receive_call)
    verify_websub = _Asked(lambda parts: parts.push.verify_websub)
    receive_websub = _Asked(lambda parts: parts.push.receive_websub)

    held = _Asked(lambda parts: parts.deletions.held)
    keep_held = _Asked(lambda parts: parts.deletions.keep)
    accept_held = _Asked(lambda parts: parts.deletions.accept)

    get = _Asked(lambda parts: parts.items.get)
    twins = _Asked(lambda parts: parts.items.twins)
    history = _Asked(lambda parts: parts.items.history)
    diff = _Asked(lambda parts: parts.items.diff)
    compare = _Asked(lambda parts: parts.items.compare)
    detail = _Asked(lambda parts: parts.items.detail)
    compare_fields = _Asked(lambda parts: parts.field_diffs.compare)
    diff_fields = _Asked(lambda parts: parts.field_diffs.diff)
    checked = _Asked(lambda parts: parts.items.checked)

    search = _Asked(lambda parts: parts.search.search)
    similar = _Asked(lambda parts: parts.search.similar)

    changes = _Asked(lambda parts: parts.changes.read)
    newest_changes = _Asked(lambda parts: parts.changes.newest)
    follow = _Asked(lambda parts: parts.changes.follow)
    last_change = _Asked(lambda parts: parts.changes.last)
    start_of_last_changes = _Asked(lambda parts: parts.changes.start_of_last)

    feed = _Asked(lambda parts: parts.feeds.feed)
    event_stream = _Asked(lambda parts: parts.feeds.event_stream)
    events = _Asked(lambda parts: parts.feeds.events)
    catalog = _Asked(lambda parts: parts.feeds.catalog)
    data_json = _Asked(lambda parts: parts.feeds.data_json)

    announced = _Asked(lambda parts: parts.announced.every)
    announced_counts = _Asked(lambda parts: parts.announced.counts)
    statements = _Asked(lambda parts: parts.statements.summary)
    dump_statements = _Asked(lambda parts: parts.statements.dump)
    statement_deltas = _Asked(lambda parts: parts.statements.deltas)
    statement_files = _Asked(lambda parts: parts.statements.files)
    statement_file = _Asked(lambda parts: parts.statements.file)
    endpoints = _Asked(lambda parts: parts.endpoints.every)
    keep_endpoint = _Asked(lambda parts: parts.endpoints.keep)
    forget_endpoint = _Asked(lambda parts: parts.endpoints.forget)
    push_statements = _Asked(lambda parts: parts.endpoints.push)

    webhooks = _Asked(lambda parts: parts.webhooks.every)
    add_webhook = _Asked(lambda parts: parts.webhooks.add)
    remove_webhook = _Asked(lambda parts: parts.webhooks.remove)
    pause_webhook = _Asked(lambda parts: parts.webhooks.pause)
    resume_webhook = _Asked(lambda parts: parts.webhooks.resume)
    rotate_webhook = _Asked(lambda parts: parts.webhooks.rotate)
    deliveries = _Asked(lambda parts: parts.webhooks.deliveries)
    deliver = _Asked(lambda parts: parts.webhooks.deliver)
    notices = _Asked(lambda parts: parts.webhooks.notices)
    add_notice = _Asked(lambda parts: parts.webhooks.add_notice)

    saved_searches = _Asked(lambda parts: parts.saved.every)
    save_search = _Asked(lambda parts: parts.saved.save)
    forget_search = _Asked(lambda parts: parts.saved.forget)
    search_news = _Asked(lambda parts: parts.saved.news)
    newest_search_news = _Asked(lambda parts: parts.saved.newest_news)

    export = _Asked(lambda parts: parts.exports.export)
    costly_export = _Asked(lambda parts: parts.costly.export)
    count_costly = _Asked(lambda parts: parts.costly.count)
    export_lines = _Asked(lambda parts: parts.exports.lines)
    export_extractions = _Asked(lambda parts: parts.exports.export_extractions)

    schemas = _Asked(lambda parts: parts.schemas.every)
    schema = _Asked(lambda parts: parts.schemas.get)
    compare_schemas = _Asked(lambda parts: parts.schemas.compare)
    add_schema = _Asked(lambda parts: parts.schemas.add)
    add_schema_files = _Asked(lambda parts: parts.schemas.add_files)
    export_schemas = _Asked(lambda parts: parts.schemas.export)
    remove_schema = _Asked(lambda parts: parts.schemas.remove)

    embed = _Asked(lambda parts: parts.models.embed)
    embeddings = _Asked(lambda parts: parts.models.every)
    embedding_remarks = _Asked(lambda parts: parts.engine.embedding.remarks)
    drop_old_embeddings = _Asked(lambda parts: parts.models.drop_old)
    tidy = _Asked(lambda parts: parts.models.tidy)
    check_embedder = _Asked(lambda parts: parts.models.check)
    fetch_model = _Asked(lambda parts: parts.models.fetch)

    database = _Asked(lambda parts: parts.maintenance.database)
    conninfo = _Asked(lambda parts: parts.maintenance.conninfo)
    client_call = _Asked(lambda parts: parts.maintenance.client_call)
    dump = _Asked(lambda parts: parts.maintenance.dump)
    restore = _Asked(lambda parts: parts.maintenance.restore)
    check_vectors = _Asked(lambda parts: parts.maintenance.check_vectors)
    check_workers = _Asked(lambda parts: parts.maintenance.check_workers)

    async def start(self, *, patience: Patience | None = None) -> None:
        """Open the database; with `patience` an outage is waited out."""
        await self._engine.open(patience=patience)

    async def close(self) -> None:
        """End worker processes and close the database."""
        await self._engine.close()


@asynccontextmanager
async def open(settings: Settings | None = None, **flags: Any) -> AsyncIterator[Rowen]:  # noqa: A001 (rowen.open())
    """Open Rowen; settings may be given by name, such as `home="…"` or `database_url="…"`."""
    rowen = Rowen(settings or load(**flags))
    await rowen.start()
    try:
        yield rowen
    finally:
        await rowen.close()
