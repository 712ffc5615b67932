"""Which of many sources comes next, so that those of one slow host do not hold up all others."""

from collections import Counter
from collections.abc import Mapping, Sequence

__all__ = ["Turns"]


class Turns:
    """A queue of targets. First comes the host that is asked least at the moment, then the order of the list."""

    def __init__(self, targets: Sequence[str], hosts: Mapping[str, str]) -> None:
        self._waiting = list(range(len(targets)))
        self._hosts = [hosts.get(target, target) for target in targets]
        self._live: Counter[str] = Counter()

    def take(self) -> int | None:
        """The place in the list of the target whose turn it is; None when all are taken."""
        if not self._waiting:
            return None
        chosen = min(self._waiting, key=lambda place: (self._live[self._hosts[place]], place))
        self._waiting.remove(chosen)
        self._live[self._hosts[chosen]] += 1
        return chosen

    def give_back(self, place: int) -> None:
        """Say that a target is done with."""
        self._live[self._hosts[place]] -= 1
