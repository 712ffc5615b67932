"""How fresh copies are for the same requests: `python -m bench.freshness [--repository PATH …]`.

Pages change as they do, in made-up ways or as the files of a git repository did; policies decide which of them to look
at, knowing nothing but what their own looks found. Prints the share of stale pages over time, and how many times that
of a fixed interval, and of intervals in proportion to the rate of changes, ours is. `--repository` takes any clone of
a documentation repository, and reads when each of its files was committed.
"""

import argparse
import heapq
import subprocess
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

from rowen.jobs.freshness import Allocation, Demand, allocate
from rowen.model.freshness import ChangeRate, SourceLook, learned, population

DAY_S = 86_400.0
DAYS = 360
# Policies learn for a quarter before they are compared; they go on learning.
LEARNING_DAYS = 90
TICK_S = 3_600.0
LONGEST_S = 60 * DAY_S
# How often prices and norms are reckoned anew.
RECKONED_DAYS = 15
TEXTS = (".md", ".rst", ".html", ".txt", ".adoc")

Changes = list[float]
World = list["Unit"]


@dataclass(frozen=True)
class Unit:
    """What is looked at as one: the changes of its items, in seconds, and the requests that a look costs."""

    items: list[Changes]
    requests: float = 1.0


class Policy(Protocol):
    """Decides after how long a unit is looked at again."""

    def reckon(self, now: float) -> None:
        """Take stock of what was learned."""

    def saw(self, unit: int, elapsed_s: float, changed: int) -> None:
        """Hear what a look has found."""

    def interval_s(self, unit: int) -> float:
        """After how long to look again."""


@dataclass
class Fixed:
    """All equally often."""

    world: World
    budget: float

    def __post_init__(self) -> None:
        self._interval_s = sum(one.requests for one in self.world) / self.budget * DAY_S

    def reckon(self, now: float) -> None:
        pass

    def saw(self, unit: int, elapsed_s: float, changed: int) -> None:
        pass

    def interval_s(self, unit: int) -> float:
        return self._interval_s


@dataclass
class Learning:
    """What all policies know that learn: pages by the moments of their rate, sources by their last looks."""

    world: World
    budget: float
    rates: list[ChangeRate] = field(init=False)
    looks: list[list[SourceLook]] = field(init=False)

    def __post_init__(self) -> None:
        self.prior = learned([])
        self.found = [(0, 0.0) for _ in self.world]
        self.rates = [self.prior for _ in self.world]
        self.looks = [[] for _ in self.world]
        self.reckon(0.0)

    def reckon(self, now: float) -> None:
        """Learn what is usual here, beside what each page is known for."""
        if all(len(unit.items) == 1 for unit in self.world):
            before, self.prior = self.prior, population(self.found[:500])
            self.rates = [
                ChangeRate(
                    self.prior.shape + max(0.0, rate.shape - before.shape),
                    self.prior.span_s + max(0.0, rate.span_s - before.span_s),
                )
                for rate in self.rates
            ]

    def saw(self, unit: int, elapsed_s: float, changed: int) -> None:
        items = len(self.world[unit].items)
        if items == 1:
            changes, span_s = self.found[unit]
            self.found[unit] = (changes + bool(changed), span_s + elapsed_s)
            rate = self.rates[unit].faded(elapsed_s, self.prior)
            self.rates[unit] = rate.changed(elapsed_s) if changed else rate.unchanged(elapsed_s)
            return
        older = [look._replace(age_s=look.age_s + elapsed_s) for look in self.looks[unit][-39:]]
        self.looks[unit] = [*older, SourceLook(elapsed_s, items, changed)]
        self.rates[unit] = learned(self.looks[unit])


class Proportional(Learning):
    """The more often it changes, the more often it is looked at, within the same limits as ours."""

    def reckon(self, now: float) -> None:
        super().reckon(now)
        low, high = 1e-9, 1e9
        while high > low * 1.01:
            self._share = (low * high) ** 0.5
            spent = sum(unit.requests * DAY_S / self.interval_s(place) for place, unit in enumerate(self.world))
            low, high = (low, self._share) if spent > self.budget else (self._share, high)

    def interval_s(self, unit: int) -> float:
        return min(LONGEST_S, max(TICK_S, DAY_S / (self._share * self.rates[unit].per_day)))


class Ours(Learning):
    """Where a request saves most."""

    def reckon(self, now: float) -> None:
        super().reckon(now)
        demands = map(self._demand, range(len(self.world)))
        # At equal budgets all is spent, also what would not be worth it.
        self._allocation: Allocation = allocate(demands, requests_per_day=self.budget, least_gain_s=1.0)

    def interval_s(self, unit: int) -> float:
        return self._allocation.interval_s(self._demand(unit))

    def _demand(self, unit: int) -> Demand:
        one = self.world[unit]
        return Demand(self.rates[unit], len(one.items), one.requests, TICK_S, LONGEST_S)


def simulate(world: World, policy: Policy, budget: float) -> tuple[float, float]:
    """The mean share of stale items once policies have learned, and the requests of a day that it took."""
    random = Random(1)
    due = [(random.random() * policy.interval_s(unit), unit) for unit in range(len(world))]
    heapq.heapify(due)
    looked = [0.0] * len(world)
    stale_s = spent = allowance = 0.0
    end, start = DAYS * DAY_S, LEARNING_DAYS * DAY_S
    # What is saved at night may be spent in the morning, but not next week; a walk must fit in.
    most = max(budget, *(unit.requests for unit in world))
    for tick in range(int(end / TICK_S)):
        now = tick * TICK_S
        if tick % int(RECKONED_DAYS * DAY_S / TICK_S) == 0:
            policy.reckon(now)
        allowance = min(allowance + budget * TICK_S / DAY_S, most)
        while due and due[0][0] <= now and allowance >= world[due[0][1]].requests:
            _, unit = heapq.heappop(due)
            allowance -= world[unit].requests
            spent += world[unit].requests if now >= start else 0.0
            changed, late_s = _look(world[unit], looked[unit], now, start)
            stale_s += late_s
            policy.saw(unit, max(now - looked[unit], 1.0), changed)
            looked[unit] = now
            heapq.heappush(due, (now + max(TICK_S, policy.interval_s(unit)), unit))
    stale_s += sum(_look(unit, looked[number], end, start)[1] for number, unit in enumerate(world))
    items = sum(len(unit.items) for unit in world)
    return stale_s / (items * (end - start)), spent * DAY_S / (end - start)


def _look(unit: Unit, before: float, now: float, start: float) -> tuple[int, float]:
    """How many items changed since the look before, and for how many seconds after the start they were stale."""
    changed, stale_s = 0, 0.0
    for changes in unit.items:
        place = bisect_right(changes, before)
        if place < len(changes) and changes[place] <= now:
            changed += 1
            stale_s += max(0.0, now - max(start, changes[place]))
    return changed, stale_s


def _poisson(random: Random, per_day: float, days: float = DAYS) -> Changes:
    at, found = 0.0, []
    while (at := at + random.expovariate(per_day)) < days:
        found.append(at * DAY_S)
    return found


def _heavy(random: Random) -> float:
    """A rate: most pages change a few times a year, a few many times a day."""
    return min(24.0, 0.005 * random.paretovariate(0.6))


def heavy_tailed(random: Random, pages: int) -> World:
    return [Unit([_poisson(random, _heavy(random))]) for _ in range(pages)]


def bursts(random: Random, pages: int) -> World:
    """Pages that are worked on for some days, and then left alone."""
    return [Unit([sorted(_worked_on(random))]) for _ in range(pages)]


def _worked_on(random: Random) -> Iterator[float]:
    for start in _poisson(random, _heavy(random) / 5):
        yield from (start + at for at in _poisson(random, 1.5, 5.0))


def weekly(random: Random, pages: int) -> World:
    """Publishers: one in five every day, one in five every Monday, the rest hardly ever."""
    periods = (1.0, 7.0, 0.0, 0.0, 0.0)
    return [Unit([_published(random, random.choice(periods))]) for _ in range(pages)]


def _published(random: Random, period: float) -> Changes:
    if not period:
        return _poisson(random, 1 / 200)
    hour = random.random() * 24
    return [(day + (hour + random.random()) / 24) * DAY_S for day in range(DAYS) if day % period == 0]


def drift(random: Random, pages: int) -> World:
    """Pages that have become others after a half year."""
    half = DAYS / 2
    return [
        Unit(
            [
                _poisson(random, _heavy(random), half)
                + [half * DAY_S + at for at in _poisson(random, _heavy(random), half)]
            ]
        )
        for _ in range(pages)
    ]


def sources(random: Random, pages: int) -> World:
    """Sources of one to a thousand items, some listed by a request or two, some asked page by page."""
    world = []
    while pages > 0:
        size = min(pages, int(random.paretovariate(0.7)), 1000)
        pace = _heavy(random)
        items = [_poisson(random, min(24.0, pace * random.gammavariate(0.4, 2.5) + 1e-4)) for _ in range(size)]
        world.append(Unit(items, float(random.choice((2, 2 + size // 100, size)))))
        pages -= size
    return world


def repository(path: Path, pages: int) -> World:
    """The texts of a repository as they changed in its last days, each commit a change; of many a sample."""
    last = float(_git(path, "log", "-1", "--format=%ct"))
    first = last - DAYS * DAY_S
    [root] = _git(path, "rev-list", "-1", f"--before={int(first)}", "HEAD").split()
    names = [
        name for name in _git(path, "ls-tree", "-r", "-z", "--name-only", root).split("\0") if name.endswith(TEXTS)
    ]
    found: dict[str, Changes] = defaultdict(list)
    at = 0.0
    for line in _git(path, "log", "-z", "--no-renames", "--name-only", "--format=@%ct", f"--since={int(first)}").split(
        "\0"
    ):
        word = line.strip("\n")
        if word.startswith("@"):
            at = float(word.partition("\n")[0][1:])
            word = word.partition("\n")[2].strip("\n")
        if word:
            found[word].append(max(0.0, at - first))
    chosen = Random(7).sample(names, min(pages, len(names)))
    return [Unit([sorted(found[name])]) for name in chosen]


def _name(path: Path) -> str:
    """What a repository is called: its folder, or the one above a bare clone."""
    place = path.resolve()
    return (place.parent.name if place.name in {"repo", ".git"} else place.name)[-27:]


def _git(path: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(path), *words], check=True, capture_output=True, text=True).stdout


def compare(name: str, world: World, looks_per_day: float) -> None:
    """Print what each policy makes of the same budget: so many looks at an item in a day, on average."""
    budget = looks_per_day * sum(unit.requests for unit in world)
    found = {kind.__name__: simulate(world, kind(world, budget), budget) for kind in (Fixed, Proportional, Ours)}
    fixed, proportional, ours = (found[key][0] for key in ("Fixed", "Proportional", "Ours"))
    print(
        f"{name:<28}{looks_per_day:>6.2f}  {fixed:>7.1%}  {proportional:>12.1%}  {ours:>7.1%}"
        f"  {ours / fixed:>8.2f}  {ours / proportional:>15.2f}   {found['Ours'][1] / budget:>5.0%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="How fresh copies are for the same requests.")
    parser.add_argument("--repository", type=Path, action="append", default=[], help="a clone of a git repository")
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--looks", type=float, nargs="*", default=[0.1, 0.3, 1.0], help="looks a day and page")
    given = parser.parse_args()
    makers: list[Callable[[Random, int], World]] = [heavy_tailed, bursts, weekly, drift, sources]
    worlds: Sequence[tuple[str, World]] = [(maker.__name__, maker(Random(7), given.pages)) for maker in makers]
    worlds = [*worlds, *((_name(path), repository(path, given.pages)) for path in given.repository)]
    print(f"{'':<28}{'looks':>6}  {'stale items, mean over time':>31}  {'ours, times':>24}   used")
    print(
        f"{'world':<28}{'a day':>6}  {'fixed':>7}  {'proportional':>12}  {'ours':>7}"
        f"  {'fixed':>8}  {'proportional':>15}"
    )
    for name, world in worlds:
        for looks in given.looks:
            compare(name, world, looks)


if __name__ == "__main__":
    main()
