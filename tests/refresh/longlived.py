"""The machine that lives long: one client keeps several sources fresh at once, through all that can be cancelled.

The other machines open a client for each run, as a command does. A server lives for weeks, and its runs share parse
workers, connections, locks and circuits. So here one client lives through a whole script, beside a worker for jobs in
the same process. Runs are cancelled in every way, time limits strike, parse workers are killed and connections break.
At the end the same client syncs each source once more, and the index must be the one that another client builds.
"""

import asyncio
import contextlib
import gc
import inspect
import io
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import psutil  # type: ignore[import-untyped]
import psycopg

import rowen
from rowen.errors import RowenError
from rowen.harvest import parse_pool
from rowen.harvest import run as run_module
from rowen.harvest.parse_worker import Text, Uncut
from rowen.jobs import worker as worker_module
from rowen.jobs.ticks import tick
from rowen.jobs.worker import TASKS
from rowen.model.items import Raw
from rowen.model.queue import JobEnd
from tests.conftest import ScratchDatabase, Server
from tests.logical import contents, replayed
from tests.portals.large import PROBES, ChangingShop, LargeCkan, LargeFolder, LargeSite, Stalling, StallingFeed
from tests.portals.site import WORDS
from tests.refresh.machine import FIRST_CHANGES, SEEDS, Draw, Machine, Script, World, differences, unread
from tests.refresh.statements import at_statement

STEP_LIMIT_S = 90  # for what takes a second alone
PARSERS = 2
# A cancellation by the interface is noticed with the next renewal of the lease; the product renews every 5 s.
RENEWAL_S = 0.05
# A job that is stalled is noticed, told, and cut off within this time each; the product takes minutes.
SILENCE_S, LOOK_S, GRACE_S = 0.5, 0.1, 0.5
ANSWER_LIMIT_S = 0.3  # of a world that stalls
STALL_S = 1.5  # catalogs wait a minute for a page
PARSE_LIMIT_S = 0.01  # a page of 120 kB takes ten times as long
# Files that a process opens once and keeps, such as those of modules that are imported late.
SPARE_FILES = 8
FILES_LIMIT_S = 10

_WAYS = ("task", "task", "run", "job", "worker", "stop")
_EVENTS = ("parse", "parse", "parse", "parse", "request", "statement", "nothing")


class Town:
    """Several worlds at once, by the names of their sources."""

    kind = "several"
    address = "several"

    def __init__(self, folder: Path) -> None:
        self.worlds: dict[str, World] = {}
        try:
            self.site = LargeSite()
            self.worlds["site"] = self.site
            self.shop = ChangingShop()
            self.worlds["shop"] = self.shop
            self.worlds["files"] = LargeFolder(folder)
            self.worlds["ckan"] = LargeCkan()
            self.worlds["feed"] = StallingFeed()
        except BaseException:
            self.close()
            raise

    def change(self, chance: Random) -> None:
        # Sites have what is worth cancelling: two changes in three are theirs.
        names = sorted(self.worlds)
        self.worlds[chance.choice([*names, "site", "site", "shop"])].change(chance)

    def ail(self, chance: Random) -> None:
        self.worlds[chance.choice(sorted(self.worlds))].ail(chance)

    def recover(self) -> None:
        for world in self.worlds.values():
            world.recover()

    def heal(self) -> None:
        for world in self.worlds.values():
            world.heal()

    def close(self) -> None:
        for world in self.worlds.values():
            world.close()

    @property
    def servers(self) -> list[Stalling]:
        """The worlds that are asked by HTTP."""
        return [world for world in self.worlds.values() if isinstance(world, Stalling)]


NAMES = ("site", "shop", "files", "ckan", "feed")


def _runs(c: Random) -> dict[str, Any]:
    """Some sources to sync, nearly always with a site among them, after so many changes of each."""
    names = sorted({*(["site"] if c.random() < 0.8 else []), *c.sample(NAMES, c.randint(1, 4))})
    return {"names": names, "seed": c.randrange(SEEDS), "changes": c.choice([0, 1, 3, 6]), "full": c.random() < 0.5}


def _moment(c: Random) -> list[Any]:
    """The n-th time that something happens, and so many steps of the event loop after it."""
    return [c.choice(_EVENTS), c.choice([1, 1, 1, 2, 3, 5]), int(10 ** c.uniform(0, 3.3))]


Runs = Mapping[str, Any]
Moment = Sequence[Any]
Tasks = Mapping[str, "asyncio.Task[Any]"]
Harm = Callable[[Tasks], Awaitable[None]]

_NOTHING = ("nothing", 1, 0)


class LongLivedMachine(Machine):
    """Whatever is cancelled, killed or late in a process, what it does afterwards is right."""

    world: Town
    draws: Mapping[str, Draw] = {  # type: ignore[misc]
        # The first one is in every mixture.
        "a_run_is_cancelled": lambda c: {
            "name": c.choice([*NAMES, "site", "site"]),
            "beside": _runs(c),
            "way": c.choice(_WAYS),
            "moment": _moment(c),
        },
        "the_world_changes": lambda c: {"seed": c.randrange(SEEDS), "times": c.randint(2, 8)},
        "sources_are_synced": lambda c: {"runs": _runs(c), "at_once": c.random() < 0.5},
        "all_runs_are_cancelled": lambda c: {"runs": _runs(c), "moment": _moment(c)},
        "the_world_changes_beside_runs": lambda c: {
            "runs": _runs(c),
            "seed": c.randrange(SEEDS),
            "moment": _moment(c),
        },
        "a_preview_is_closed": lambda c: {
            "name": c.choice([*NAMES, "site"]),
            "beside": _runs(c),
            "items": c.randint(1, 5),
            "moment": c.choice([None, _moment(c), _moment(c)]),
        },
        "pages_are_read": lambda c: {
            "numbers": [c.randrange(PROBES) for _ in range(c.randint(1, 6))],
            "cancelled": c.randint(0, 4),
            "moment": _moment(c),
        },
        "parse_workers_are_killed": lambda c: {
            "runs": _runs(c),
            "seed": c.randrange(SEEDS),
            "most": c.choice([1, 1, PARSERS]),
            "moment": _moment(c),
        },
        "parsing_takes_too_long": lambda c: {"runs": _runs(c)},
        "worlds_stall": lambda c: {"runs": _runs(c), "requests": c.randint(1, 10)},
        "a_job_stalls": lambda c: {"name": c.choice(["site", "shop", "ckan", "feed"]), "requests": c.randint(1, 10)},
        "connections_break": lambda c: {
            "runs": _runs(c),
            "seed": c.randrange(SEEDS),
            "most": c.choice([1, 1, 100]),
            "moment": _moment(c),
        },
        "somebody_searches": lambda c: {
            "runs": _runs(c),
            "words": c.sample(WORDS, 4),
            "cancelled": c.random() < 0.5,
            "moment": _moment(c),
        },
    }
    most_steps = 14

    def __init__(self, world: Town, server: Server, new_database: Callable[[], ScratchDatabase]) -> None:
        super().__init__(world, server, new_database)
        self.worlds = world.worlds
        self.process = Process()
        self._ends: dict[int, asyncio.Event] = {}
        self._jobs: dict[str, int] = {}
        self._working: asyncio.Task[bool] | None = None

    def play(self, script: Script) -> None:
        """Live through a script with one client; at its end nothing of it is left in the process or the database."""
        if script.world is not None:
            self.the_world_changes(seed=script.world, times=FIRST_CHANGES)
        with (
            patch.object(run_module, "RENEWAL_S", RENEWAL_S),
            patch.object(worker_module, "LOOK_S", LOOK_S),
            patch.object(worker_module, "GRACE_S", GRACE_S),
            patch.object(worker_module, "GRACE_S", GRACE_S),
        ):
            run_bounded(self._live_through(script))
        self.process.confirm_nothing_is_left()
        sessions = self.database.query(
            "select pid, query from pg_stat_activity where application_name = 'rowen' and datname = current_database()"
        )
        assert not sessions, sessions

    async def _live_through(self, script: Script) -> None:
        async with self._open(self.database, workers=PARSERS) as self.r:
            await self._add_sources(self.r)
            for step in script.steps:
                self.counts["steps"] += 1
                self.counts[step.name] += 1
                done = getattr(self, step.name)(**step.arguments)
                if inspect.isawaitable(done):
                    await done
            await self._stop_working()
            await self._no_job_is_stuck()
            await self._refresh_equals_rebuild()
            await self._pool_is_at_rest()
            self._nothing_is_held()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks that outlive their client: {left}"

    def _open(self, database: ScratchDatabase, **more: Any) -> contextlib.AbstractAsyncContextManager[rowen.Rowen]:
        model = self.world.shop.model.settings
        return database.open(**model, job_retry_s=0.05, job_silence_s=SILENCE_S, **more)

    async def _add_sources(self, r: rowen.Rowen) -> None:
        await r.schemas.add("lamp@1.0.0", dict(self.world.shop.schema))
        for name, world in self.worlds.items():
            await r.sources.add(world.address, name=name, kind=world.kind, every="none")
        await r.extraction.attach("shop", "lamp@1")

    async def sources_are_synced(self, *, runs: Runs, at_once: bool) -> None:
        """Side by side, by one question or by several."""
        await self._together({"all": self._sync_all(runs)} if at_once else self._syncs(runs))

    async def a_run_is_cancelled(self, *, name: str, beside: Runs, way: str, moment: Moment) -> None:
        """Others go on: one run ends, or the worker with its jobs, or all that this process does."""
        work = self._syncs(beside, without=name)
        work[name] = self._job(name) if way in ("job", "worker") else self._one(name)

        async def cancel(tasks: Tasks) -> None:
            match way:
                case "task":
                    tasks[name].cancel()
                case "run":
                    with contextlib.suppress(RowenError):
                        await self.r.runs.cancel(name)
                case "job":
                    await self._cancel_job(name)
                case "worker" if self._working is not None:
                    self._working.cancel()
                case "stop":
                    self.r.stop()

        await self._together(work, moment, cancel)

    async def all_runs_are_cancelled(self, *, runs: Runs, moment: Moment) -> None:
        """The question for several sources is taken back."""
        await self._together({"all": self._sync_all(runs)}, moment, _cancel_all)

    async def the_world_changes_beside_runs(self, *, runs: Runs, seed: int, moment: Moment) -> None:
        async def change(_: Tasks) -> None:
            self.world.change(Random(seed))

        await self._together(self._syncs(runs), moment, change)

    async def a_preview_is_closed(self, *, name: str, beside: Runs, items: int, moment: Moment | None) -> None:
        """Early, since it has enough, or earlier, since nobody waits for it any more."""

        async def close(tasks: Tasks) -> None:
            if moment is not None:
                tasks["preview"].cancel()

        work = {**self._syncs(beside), "preview": self._preview(name, items)}
        await self._together(work, moment or _NOTHING, close)

    async def pages_are_read(self, *, numbers: Sequence[int], cancelled: int, moment: Moment) -> None:
        """Pages that never change, by themselves; who is not cancelled is given the page that was asked for."""

        async def cancel(tasks: Tasks) -> None:
            for task in list(tasks.values())[:cancelled]:
                task.cancel()

        work = {
            f"read {place}": self.r.extraction.read_page(self.world.site.probe(number))
            for place, number in enumerate(numbers)
        }
        results = await self._together(work, moment, cancel, harmless=True)
        for place, number in enumerate(numbers):
            document = results[f"read {place}"]
            assert document is None or document.title == f"Probe {number}", (number, document)

    async def parse_workers_are_killed(self, *, runs: Runs, seed: int, most: int, moment: Moment) -> None:
        async def kill(_: Tasks) -> None:
            workers = self.process.children()
            for worker in Random(seed).sample(workers, min(most, len(workers))):
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.kill()
                    self.counts["kills"] += 1

        await self._together(self._syncs(runs), moment, kill)

    async def parsing_takes_too_long(self, *, runs: Runs) -> None:
        """Each page is cut off, large ones and small ones."""
        with (
            patch.object(self.r._engine.workers, "_time_limit_s", PARSE_LIMIT_S),
            patch.object(parse_pool, "LEAST_BYTES_PER_S", 1 << 40),
        ):
            await self._together(self._syncs(runs))

    async def worlds_stall(self, *, runs: Runs, requests: int) -> None:
        """After some requests no answer comes any more, and those who ask give up."""
        with patch.dict(vars(self.r.settings), {"total_limit_s": ANSWER_LIMIT_S, "idle_limit_s": ANSWER_LIMIT_S}):
            await self._together(self._syncs(runs), ("request", requests, 0), self._stall)

    async def a_job_stalls(self, *, name: str, requests: int) -> None:
        """Its worker stops a job that shows no progress."""
        await self._together({name: self._job(name)}, ("request", requests, 0), self._stall)

    async def connections_break(self, *, runs: Runs, seed: int, most: int, moment: Moment) -> None:
        """The server ends some sessions of this process."""

        async def break_some(_: Tasks) -> None:
            pids = self.database.query(
                "select pid from pg_stat_activity where application_name = 'rowen' and datname = current_database()"
                " order by pid"
            )
            for (pid,) in Random(seed).sample(pids, min(most, len(pids))):
                self.database.query("select pg_terminate_backend(%s)", pid)

        await self._together(self._syncs(runs), moment, break_some)

    async def somebody_searches(self, *, runs: Runs, words: Sequence[str], cancelled: bool, moment: Moment) -> None:
        """While sources are synced."""

        async def search() -> None:
            for word in words:
                await self.r.search(word)

        async def cancel(tasks: Tasks) -> None:
            if cancelled:
                tasks["search"].cancel()

        await self._together({**self._syncs(runs), "search": search()}, moment, cancel)

    async def _stall(self, _: Tasks) -> None:
        """Leave all who ask without an answer; whoever is more patient than most is answered after a while."""
        for server in self.world.servers:
            server.stall()
            asyncio.get_running_loop().call_later(STALL_S, server.resume)

    def _change(self, runs: Runs) -> None:
        chance = Random(runs["seed"])
        for name in runs["names"]:
            for _ in range(runs["changes"]):
                self.worlds[name].change(chance)

    def _syncs(self, runs: Runs, *, without: str | None = None) -> dict[str, Coroutine[Any, Any, Any]]:
        self._change(runs)
        return {name: self._one(name, full=runs["full"]) for name in runs["names"] if name != without}

    async def _one(self, name: str, *, full: bool = False) -> None:
        self._note(await self.r.sync(name, full=full, accept_deletions=True))

    async def _sync_all(self, runs: Runs) -> None:
        self._change(runs)
        for result in await self.r.runs.sync_all(runs["names"], full=runs["full"], accept_deletions=True):
            if isinstance(result, rowen.Run):
                self._note(result)
            elif not isinstance(result, RowenError):
                raise result

    def _note(self, run: rowen.Run | None) -> None:
        """Count a run; whatever happens around it, its connector must not fail over something unforeseen."""
        if run is not None:
            self.counts["runs"] += 1
            self.counts["faults"] += run.status in ("partial", "failed")
            assert "The connector of kind" not in (run.error or ""), run

    async def _preview(self, name: str, items: int) -> None:
        world = self.worlds[name]
        preview = await self.r.sources.preview(world.address, kind=world.kind, limit=items)
        titles = [item.title for item in preview.items]
        if name == "shop":
            assert all(title.startswith("Lamp") for title in titles), titles
        else:
            assert not any(title.startswith("Lamp") for title in titles), (name, titles)

    async def _job(self, name: str) -> None:
        """Have a worker in this process sync a source, and wait until it leaves the job, or ends itself."""
        job = await self.r.queue.enqueue(name, accept_deletions=True)
        end = self._ends[job.id] = asyncio.Event()
        self._jobs[name] = job.id
        working = self._at_work()
        if (await self.r.queue.get(job.id)).state in ("waiting", "running"):
            await first(end.wait(), asyncio.wait({working}))

    async def _cancel_job(self, name: str) -> None:
        if (job := self._jobs.get(name)) is not None:
            with contextlib.suppress(RowenError):
                if (await self.r.queue.cancel(job)).state == "cancelled":
                    # It had not begun.
                    self._ends[job].set()

    def _at_work(self) -> "asyncio.Task[bool]":
        """The worker of this process; another one begins where one has ended."""
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self.r.queue.work(told=self._told))
        return self._working

    def _told(self, end: JobEnd) -> None:
        self._note(end.run)
        assert not (end.error or "").startswith(("TypeError", "AttributeError", "KeyError", "AssertionError")), end
        if end.job in self._ends:
            self._ends[end.job].set()

    async def _stop_working(self) -> None:
        self.r.stop()
        if self._working is not None:
            await self._ended({"worker": self._working})

    async def _no_job_is_stuck(self) -> None:
        """A worker that left while its connections broke may leave a job; another worker takes it back in time."""
        self.database.execute(_TIME_PASSES)
        async with self.r._engine.database.connection() as c:
            assert await tick(self.r._engine, c, tasks=TASKS, random=Random(0))
        assert not (
            stuck := self.database.query("select id, worker_id from procrastinate_jobs where status = 'doing'")
        ), stuck

    async def _together(
        self,
        work: Mapping[str, Coroutine[Any, Any, Any]],
        moment: Moment = _NOTHING,
        harm: Harm | None = None,
        *,
        harmless: bool = False,
    ) -> dict[str, Any]:
        """Begin work side by side, do harm at a moment, and wait for all; where it is harmless, nothing may fail."""
        with self._armed(moment) as came:
            tasks = {name: asyncio.create_task(one, name=name) for name, one in work.items()}
            await first(came.wait(), asyncio.wait(tasks.values()))
            for _ in range(moment[2]):
                await asyncio.sleep(0)
            if harm is not None:
                await harm(tasks)
        return await self._ended(tasks, harmless=harmless)

    async def _ended(self, tasks: Tasks, *, harmless: bool = False) -> dict[str, Any]:
        """Wait until tasks have ended; None stands for the result of one that failed or was cancelled."""
        _, late = await asyncio.wait(tasks.values(), timeout=STEP_LIMIT_S)
        assert not late, f"not over after {STEP_LIMIT_S} s: {late}\n{stacks()}"
        results: dict[str, Any] = dict.fromkeys(tasks)
        for name, task in tasks.items():
            if task.cancelled():
                assert task.cancelling(), f"{name} was cancelled, and nobody asked for it"
                self.counts["cancelled"] += 1
            elif (problem := task.exception()) is None:
                assert not task.cancelling(), f"{name} went on, although it was cancelled"
                results[name] = task.result()
            elif isinstance(problem, RowenError | psycopg.Error) and not harmless:
                self.counts["faults"] += 1
            else:
                raise problem
        return results

    @contextlib.contextmanager
    def _armed(self, moment: Moment) -> Iterator[asyncio.Event]:
        """An event that comes when something has happened so many times."""
        event, left, _ = moment
        came, loop = asyncio.Event(), asyncio.get_running_loop()
        parse = parse_pool.Workers.prepare

        def happened() -> None:
            nonlocal left
            left -= 1
            if not left:
                loop.call_soon_threadsafe(came.set)

        async def counted(workers: parse_pool.Workers, tasks: Any) -> Any:
            if any(size_of(task) > parse_pool.INLINE_BODY_BYTES for task in tasks):
                happened()
            return await parse(workers, tasks)

        with contextlib.ExitStack() as armed:
            match event:
                case "parse":
                    armed.enter_context(patch.object(parse_pool.Workers, "prepare", counted))
                case "request":
                    for server in self.world.servers:
                        armed.enter_context(patch.object(server, "asked_for", happened))
                case "statement":
                    armed.enter_context(at_statement(left, before=came.set))
                case _:
                    came.set()
            yield came

    async def _refresh_equals_rebuild(self) -> None:
        """One clean run of each source by the same client, and a first harvest of all by another one."""
        self.world.heal()
        await self._sync_cleanly(self.r)
        rebuilt = self.new_database()
        async with self._open(rebuilt) as other:
            await self._add_sources(other)
            await self._sync_cleanly(other)
        assert not (found := self.differences(rebuilt)), (found, unread(self.database), unread(rebuilt))
        assert replayed(self.database) == contents(self.database), "the change log tells of another index"
        before = self.database.query("select count(*) from change")
        again = await self._sync_cleanly(self.r)
        assert not (wrote := {run.source: run.stats for run in again if run.stats.rows_written}), wrote
        assert self.database.query("select count(*) from change") == before

    async def _sync_cleanly(self, r: rowen.Rowen) -> list[rowen.Run]:
        async with asyncio.timeout(STEP_LIMIT_S):
            runs = [await r.sync(name, accept_deletions=True) for name in self.worlds]
            await r.extraction.extract_source("shop")
        for run in runs:
            self.counts["runs"] += 1
            assert (run.status, run.stats.failed) == ("completed", 0), (unread(self.database), run)
        return runs

    def differences(self, rebuilt: ScratchDatabase) -> list[str]:
        lines = differences(self.database, rebuilt)
        before, after = facts_of(self.database), facts_of(rebuilt)
        return lines + [
            f"facts of {url}: refreshed {before.get(url)}, rebuilt {after.get(url)}"
            for url in sorted(before.keys() | after.keys())
            if before.get(url) != after.get(url)
        ]

    async def _pool_is_at_rest(self) -> None:
        """Wait until the pool has opened the connections that it decided to open while the script ran."""
        pool = self.r._engine.database._pool
        assert pool is not None
        async with asyncio.timeout(STEP_LIMIT_S):
            while (stats := pool.get_stats())["pool_size"] != stats["pool_available"]:
                await asyncio.sleep(0.01)

    def _nothing_is_held(self) -> None:
        """A client at rest has its pool and its parse workers, and nothing else."""
        engine, current = self.r._engine, asyncio.current_task()
        assert not engine._works, engine._works
        assert not engine._live, engine._live
        others = [task for task in asyncio.all_tasks() if task is not current and not _stays(task)]
        # The pool waits for its next duty by one, and who keeps the slots by another.
        tasks = [str(task) for task in others]
        assert all(map(_is_timer, others)), tasks
        assert len(others) <= 2, tasks
        database = engine.database
        assert database._pool is not None
        assert database._places._value == database.connections.pooled, database._places
        children = self.process.children()
        assert len(children) <= PARSERS, children
        assert not (rows := self.database.query(_LEFT_IN_DATABASE)), rows


# Until a worker is taken for dead, by its session or by its heartbeat.
_TIME_PASSES = """
update worker set gone_at = now() - interval '1 hour' where locked_at is not null;
update procrastinate_workers set last_heartbeat = now() - interval '1 hour'
"""
_LEFT_IN_DATABASE = """
select 'lock', l.objid::text from pg_locks l join pg_database d on d.oid = l.database
 where l.locktype = 'advisory' and d.datname = current_database()
union all select 'session', pid::text || state from pg_stat_activity
 where datname = current_database() and state like 'idle in transaction%'
union all select 'run', id::text from run where status = 'running'
"""


class Process:
    """This process as it was: its children and its open files."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._children = set(self._process.children(recursive=True))
        self._files = open_files()

    def children(self) -> list[Any]:
        """The processes that were started since."""
        return sorted(set(self._process.children(recursive=True)) - self._children, key=lambda child: child.pid)

    def confirm_nothing_is_left(self) -> None:
        """No process is left, and no file; servers of worlds notice a closed connection a moment later."""
        assert not (children := self.children()), children
        gc.collect()
        until = time.monotonic() + FILES_LIMIT_S
        while len(more := {fd: to for fd, to in open_files().items() if self._files.get(fd) != to}) > SPARE_FILES:
            assert time.monotonic() < until, more
            time.sleep(0.02)


def open_files() -> dict[str, str]:
    """The open files of this process: number → what it leads to."""
    found = {}
    for fd in Path("/proc/self/fd").iterdir() if Path("/proc/self/fd").exists() else ():
        with contextlib.suppress(FileNotFoundError):
            found[fd.name] = str(fd.readlink())
    return found


def facts_of(database: ScratchDatabase) -> dict[str, Any]:
    """URL → the facts in force."""
    return dict(
        database.query(
            "select e.url, e.data from extraction_check join extraction e on e.id = extraction_id"
            " where state = 'current'"
        )
    )


def size_of(task: Any) -> int:
    """How much there is to parse."""
    match task:
        case Uncut(raw):
            return len(raw.body)
        case Raw():
            return len(task.body)
        case Text():
            return len(task.text)
    return 0


async def first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of some waits is over, and end the others."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=STEP_LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _cancel_all(tasks: Tasks) -> None:
    for task in tasks.values():
        task.cancel()


def _is_timer(task: "asyncio.Task[Any]") -> bool:
    """Whether a task is half of an `asyncio.wait_for` until something happens, which is a task of its own in 3.11."""
    return getattr(task.get_coro(), "__qualname__", "") == "Event.wait"


def _stays(task: "asyncio.Task[Any]") -> bool:
    """Whether a task lives as long as its client: those of the pool, and the one that keeps slots of hosts."""
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and ("psycopg_pool" in code.co_filename or code.co_filename.endswith("shared_pace.py"))


def stacks() -> str:
    """Where all tasks of the loop are."""
    told = io.StringIO()
    for task in asyncio.all_tasks():
        task.print_stack(file=told)
    return told.getvalue()


def run_bounded(main: Coroutine[Any, Any, None]) -> None:
    """Like `asyncio.run`, but tasks that do not end are left after a while: one that hangs is what is looked for."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=STEP_LIMIT_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
