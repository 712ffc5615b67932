"""Count words, correct spelling, and build the word index.

The counts depend on the present passages alone, not on their history: a refreshed index ranks like a rebuilt one. Each
stored, changed or deleted passage is recorded in the same transaction. A count adds these differences, or counts all
passages where that is cheaper; both give the same result.
"""

import string
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from rowen.errors import StoreError
from rowen.store.database import Connection, Database
from rowen.store.locks import Lock, hold, try_hold
from rowen.store.rows import all_rows, column, only, scalar

SAMPLE = 50_000
"""Maximum number of passages that are counted, in a second or two; of more, counts are scaled up."""

ANEW_SHARE = 0.25
"""The share of changes above which all passages are counted again: adding a change costs three times what counting
a passage costs, and a changed passage is two changes. At half or twice, a count takes at most half as long again."""
# Repetitions of a count: passages stored meanwhile may move the bound of the sample again; the next count corrects it.
_MOST_COUNTS = 3
_LETTERS = string.ascii_lowercase
# Lengths of corrected words: shorter words have too many neighbours, longer words too many variants (54 per letter).
_SHORTEST, _LONGEST = 4, 24

# The condition that a passage is in the sample: its text hash is below a bound. The sample is half of all passages, a
# quarter, and so on, and the same in each database.
_IN_SAMPLE = "(%(bound)s::bytea is null or text_hash < %(bound)s::bytea)"
# Counts all words of the sample.
_COUNT_ALL = f"""
with noted as (
    delete from term_change
), total as materialized (
    select count(*) as passages from chunk
), sample as materialized (
    select count(*) as passages, coalesce(sum(length(tsv)), 0) as lengths from chunk where {_IN_SAMPLE}
), counted as materialized (
    select word as lexeme, ndoc * %(scale)s::bigint as passages from ts_stat(%(query)s)
), deleted as (
    delete from term where not exists (select from counted where counted.lexeme = term.lexeme)
), counts as (
    insert into term select lexeme, passages from counted
    on conflict (lexeme) do update set passages = excluded.passages where term.passages <> excluded.passages
)
update term_count set passages = total.passages, halvings = %(halvings)s, counted = sample.passages,
       lengths = sample.lengths, mean_length = sample.lengths::float8 / greatest(sample.passages, 1), counted_at = now()
  from total, sample
"""  # noqa: S608 (of constants)
# Adds the recorded changes. All parts of the statement see one snapshot: later changes are added by the next count.
_ADD = f"""
with noted as materialized (
    delete from term_change returning number, chunk_id, text_hash, tsv
), earliest as (
    select distinct on (chunk_id) chunk_id, text_hash, tsv from noted order by chunk_id, number
), difference as materialized (
    select -1 as sign, text_hash, tsv from earliest where tsv is not null
    union all
    select 1, chunk.text_hash, chunk.tsv from earliest join chunk on chunk.id = chunk_id
), sampled as materialized (
    select sign, tsv from difference where {_IN_SAMPLE}
), totals as (
    update term_count set passages = term_count.passages + (select coalesce(sum(sign), 0) from difference),
           counted = counted + changed.passages, lengths = term_count.lengths + changed.lengths,
           mean_length = (term_count.lengths + changed.lengths)::float8 / greatest(counted + changed.passages, 1),
           counted_at = now()
      from (select coalesce(sum(sign), 0) as passages, coalesce(sum(sign * length(tsv)), 0) as lengths
              from sampled) changed
)
merge into term using (
    select lexeme, sum(sign) * %(scale)s::bigint as passages
      from sampled cross join lateral unnest(tsvector_to_array(tsv)) as lexeme
     group by lexeme having sum(sign) <> 0) as changed on term.lexeme = changed.lexeme
 when matched and term.passages + changed.passages <= 0 then delete
 when matched then update set passages = term.passages + changed.passages
 when not matched and changed.passages > 0 then insert (lexeme, passages) values (changed.lexeme, changed.passages)
"""  # noqa: S608 (of constants)
# Whether passages have changed since the last count.
_CHANGED = """
select exists (select from term_change) or halvings is null and exists (select from chunk) from term_count
"""
# Counted passages, halvings of the sample, noted changes, and the number of passages if they were never counted.
_STATE = """
select passages, halvings, (select count(*) from term_change),
       case when halvings is null then (select count(*) from chunk) end
  from term_count
"""


async def count_words(database: Database) -> bool:
    """Count words if passages have changed since the last count; return whether they were counted.

    It blocks no writer: it reads only committed rows, and the rows that it writes are read by searches only.
    """
    async with database.connection() as c:
        changed = await scalar(c, _CHANGED)
    if not changed:
        return False
    async with database.transaction() as c:
        return await _count(c)


async def _count(c: Connection) -> bool:
    if not await try_hold(c, Lock.TERMS):
        return False
    passages, halvings, changes, uncounted = await only(c, _STATE)
    if uncounted is not None or changes > ANEW_SHARE * passages:
        await _count_all(c, _halvings(passages if uncounted is None else uncounted))
    else:
        await c.execute(_ADD, {"bound": _bound(halvings), "scale": 1 << halvings})
    # The number of passages, which decides the size of the sample, is only known now.
    for _ in range(_MOST_COUNTS):
        passages, halvings = await only(c, "select passages, halvings from term_count")
        if halvings == _halvings(passages):
            break
        await _count_all(c, _halvings(passages))
    return True


async def _count_all(c: Connection, halvings: int) -> None:
    bound = _bound(halvings)
    where = "" if bound is None else f" where text_hash < '\\x{bound.hex()}'"
    # ts_stat stores words in an unbalanced tree: words in ascending order, such as numbers of records in the order of
    # their harvest, would make it a list, and the count quadratic.
    query = f"select tsv from chunk{where} order by hashint8(id)"  # noqa: S608 (a hash)
    await c.execute(_COUNT_ALL, {"bound": bound, "scale": 1 << halvings, "halvings": halvings, "query": query})


def _halvings(passages: int) -> int:
    """Return how often the passages must be halved for a sample of at most `SAMPLE` passages."""
    return next(halvings for halvings in range(64) if passages >> halvings <= SAMPLE)


def _bound(halvings: int) -> bytes | None:
    return None if halvings == 0 else (1 << (32 - halvings)).to_bytes(4)


async def corrections(c: Connection, words: Sequence[str]) -> dict[str, str]:
    """Return corrections of words that occur nowhere: the most frequent indexed word that differs by one slip.

    Words without a correction are left out.
    """
    guesses = [(word, guess, rank) for word in words for rank, guess in variants(word)]
    if not guesses:
        return {}
    query = """
        select distinct on (guess.word) guess.word, guess.variant
          from unnest(%s::text[], %s::text[], %s::integer[]) as guess(word, variant, rank)
          cross join text_configs() as config(name)
          cross join lateral unnest(to_tsvector(config.name, guess.variant)) parsed
          join term using (lexeme)
         order by guess.word, guess.rank, term.passages desc, guess.variant
    """
    rows = await all_rows(c, query, [list(column) for column in zip(*guesses, strict=True)])
    return dict(rows)


def variants(word: str) -> Iterator[tuple[int, str]]:
    """Yield the spellings that differ from a word by one slip, with rank 0 for swapped letters and 1 for others."""
    word = word.lower()
    if not (word.isalpha() and _SHORTEST <= len(word) <= _LONGEST):
        return
    for at in range(len(word)):
        head, tail = word[:at], word[at:]
        if len(tail) > 1:
            yield 0, head + tail[1] + tail[0] + tail[2:]
        yield 1, head + tail[1:]
        for letter in _LETTERS:
            yield 1, head + letter + tail
            yield 1, head + letter + tail[1:]
    yield from ((1, word + letter) for letter in _LETTERS)


async def characteristic_words(c: Connection, item_id: int, *, limit: int) -> list[str]:
    """Return the lexemes that distinguish an item: frequent in it and rare in other items."""
    query = """
        select word.lexeme
          from chunk cross join lateral unnest(chunk.tsv) word
          left join term using (lexeme) cross join term_count
         where chunk.item_id = %s and length(word.lexeme) > 2
         group by word.lexeme, term.passages, term_count.passages
        having count(*) > 1 or coalesce(term.passages, 0) > 1
         order by sum(cardinality(word.positions))
                  * ln(1 + greatest(term_count.passages, 1)::float8 / greatest(coalesce(term.passages, 1), 1)) desc,
                  word.lexeme
         limit %s
    """
    return await column(c, query, [item_id, limit])


ENOUGH_PASSAGES = 1_000
"""The least number of passages of a run that drops the index, a second or two of work: the two changes of the schema
cost too much for fewer."""

LONGEST_S = 300.0
"""How long the index is missing at most: a longer harvest waits for its portal, and searches need the index."""

# Whether the index is missing, according to the catalog itself, since a session may cache names.
_IS_MISSING = """
select not exists (select from pg_indexes where indexname = 'chunk_tsv' and schemaname = current_schema())
"""


@dataclass(slots=True)
class WordIndex:
    """Drops the word index during a run if this run stores most of all passages.

    Building the whole index costs less than half of updating it passage by passage. If the server writes no log of the
    build, as the embedded server does, this saves a fifth of all writes of a first harvest. Searches scan the passages
    in the meantime. A run that is killed leaves the index missing: the next run of any source builds it.
    """

    database: Database
    clock: Callable[[], float] = time.monotonic
    _is_decided: bool = False
    _aside_since: float | None = field(default=None)

    async def grown(self, passages: int) -> None:
        """Drop the index if the run's `passages` are most of all passages; restore it after `LONGEST_S`."""
        if self._aside_since is not None and self.clock() > self._aside_since + LONGEST_S:
            self._aside_since = None
            await restore_word_index(self.database)
        if self._is_decided or passages < ENOUGH_PASSAGES:
            return
        self._is_decided = True
        # The index stays if others have stored as much as this run, or if it is locked or belongs to another user. The
        # lock time-out is longer than writing a group takes; readers that take longer are not blocked.
        with suppress(StoreError):
            async with self.database.transaction() as c:
                counted = "select count(*) from (select from chunk limit %s) passage"
                if await scalar(c, counted, [2 * passages]) >= 2 * passages:
                    return
                await c.execute("set local lock_timeout to '2s'")
                await c.execute("drop index if exists chunk_tsv")
            self._aside_since = self.clock()


async def restore_word_index(database: Database) -> bool:
    """Build the word index if it is missing; return whether it was missing."""
    async with database.transaction() as c:
        if not await scalar(c, _IS_MISSING):
            return False
        # If several runs end together, only one builds the index: the server would let two begin, and the second would
        # fail.
        await hold(c, Lock.WORDS)
        if not await scalar(c, _IS_MISSING):
            return False
        await c.execute("create index if not exists chunk_tsv on chunk using gin (tsv)")
    return True
