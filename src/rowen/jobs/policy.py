"""What becomes of a job that did not go well, by the class of the error, never by its words.

| what went wrong                                        | what follows                                        |
|--------------------------------------------------------|-----------------------------------------------------|
| the source or a provider said when to come back, or    | the job waits until then; no try is counted         |
| its circuit is open                                    |                                                     |
| another live run has the source                        | the job waits for it; no try is counted             |
| what may be over soon (`retryable`)                    | the job is tried again, later each time             |
| its worker died or fell silent                         | it is begun again, at once and then later each time |
| anything else: a wrong option, key or model, a source  | the job has failed; the next due time tries again   |
| that is gone, a refusal, a bug                         |                                                     |
"""

from dataclasses import dataclass
from random import Random

from rowen.errors import BusyError, RowenError, class_of

__all__ = ["TRIES", "Again", "JobTrouble", "after_loss", "again"]

TRIES = 4
"""The first one and three more, over half an hour: what takes longer to be repaired is a matter of the schedule."""

# Of `job_retry_s`, which is a minute: a restart is over after one, a deployment after five, an outage that somebody has
# to look at after half an hour.
_WAITS = (1, 5, 30)
# Jobs that failed together must not come back together.
_JITTER = 0.25
# A run that somebody began by hand: most take less, and asking again costs a few statements.
_BUSY_S = 30.0
# A circuit opens again for the first one that comes; the others should find it closed.
_BEHIND_S = 2.0
# Whoever says "come back in a year" is asked tomorrow: he may have meant seconds.
_LONGEST_S = 86_400.0


@dataclass(frozen=True, slots=True)
class JobTrouble:
    """Why a job did not go well: in words, by class, and in how many seconds it may be tried, if that was said."""

    words: str
    kind: type[RowenError] = RowenError
    retry_in_s: float | None = None

    @property
    def code(self) -> str:
        """The name of its class for programs."""
        return self.kind.code

    @classmethod
    def of(cls, problem: RowenError) -> "JobTrouble":
        """The trouble that an error tells of."""
        words = f"{problem} {problem.hint}" if problem.hint else str(problem)
        return cls(words, type(problem), getattr(problem, "retry_in_s", None) or None)

    @classmethod
    def named(cls, words: str, code: str | None, retry_in_s: float | None = None) -> "JobTrouble":
        """The trouble that a run has written down."""
        return cls(words, class_of(code), retry_in_s)


@dataclass(frozen=True, slots=True)
class Again:
    """When a job is begun again, and whether that counts as a try."""

    wait_s: float
    counted: bool = True


def again(trouble: JobTrouble, tries: int, random: Random, *, first_s: float) -> Again | None:
    """Whether a job that was begun so many times is begun once more; None if it has failed."""
    if trouble.retry_in_s is not None:
        wait_s = min(trouble.retry_in_s, _LONGEST_S)
        return Again(wait_s + min(_BEHIND_S, wait_s * _JITTER) * random.random(), counted=False)
    if issubclass(trouble.kind, BusyError):
        return Again(_BUSY_S * _spread(random), counted=False)
    if trouble.kind.retryable and tries < TRIES:
        return Again(_wait_s(tries, random, first_s))
    return None


def after_loss(tries: int, random: Random, *, first_s: float) -> float | None:
    """How long a job waits whose worker died in the middle of it; None if it died with too many.

    The first time it is begun at once, since most workers die of something else. After that those that died together
    do not come back together, so that the one which kills its workers is alone in the end.
    """
    if tries >= TRIES:
        return None
    return 0.0 if tries == 1 else _wait_s(tries - 1, random, first_s)


def _wait_s(tries: int, random: Random, first_s: float) -> float:
    return first_s * _WAITS[min(tries, len(_WAITS)) - 1] * _spread(random)


def _spread(random: Random) -> float:
    return 1 + _JITTER * (2 * random.random() - 1)
