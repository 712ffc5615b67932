"""Word counts, spelling corrections, and the index of words.

The counts are a function of the present passages, not of their history: a refreshed index ranks like a rebuilt one.
Each passage that is stored, changed or deleted is noted in the transaction that does it. A count adds the difference,
or starts anew where that is cheaper; both give the same result.
"""

import string
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rowen.errors import StoreError
from rowen.store.database import Connection, Database
from rowen.store.locks import Lock, hold, try_hold
from rowen.store.rows import all_rows, column, one, scalar

SAMPLE = 50_000
"""Of more passages at most so many are counted, and the counts scaled up: a whole count takes a second or two."""

ANEW_SHARE = 0.25
"""With more changes than this share of the passages all are counted anew: to add up one costs three times as much as to
count one, and a changed passage is two. At half of that, or at twice, a count takes a half longer at most."""
# Passages that others store meanwhile may move the bound of the sample once more; the next count corrects that.
_MOST_COUNTS = 3
_LETTERS = string.ascii_lowercase
# Too many words differ from a shorter one by one letter; a longer one has too many variants (54 per letter).
_SHORTEST, _LONGEST = 4, 24

# The sample has the passages whose text hash is below a bound: half, a quarter, and so on, the same in each database.
_IN_SAMPLE = "(%(bound)s::bytea is null or text_hash < %(bound)s::bytea)"
_ANEW = f"""
with noted as (
    delete from term_change
), total as materialized (
    select count(*) as passages from chunk
), sample as materialized (
    select count(*) as passages, coalesce(sum(length(tsv)), 0) as lengths from chunk where {_IN_SAMPLE}
), counted as materialized (
    select word as lexeme, ndoc * %(scale)s::bigint as passages from ts_stat(%(query)s)
), gone as (
    delete from term where not exists (select from counted where counted.lexeme = term.lexeme)
), counts as (
    insert into term select lexeme, passages from counted
    on conflict (lexeme) do update set passages = excluded.passages where term.passages <> excluded.passages
)
update term_count set passages = total.passages, halvings = %(halvings)s, counted = sample.passages,
       lengths = sample.lengths, mean_length = sample.lengths::float8 / greatest(sample.passages, 1), counted_at = now()
  from total, sample
"""  # noqa: S608 (of constants)
# All parts of one statement see one snapshot: later changes stay noted, and are added by the next count.
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
_CHANGED = """
select exists (select from term_change) or halvings is null and exists (select from chunk) from term_count
"""
_STATE = """
select passages, halvings, (select count(*) from term_change),
       case when halvings is null then (select count(*) from chunk) end
  from term_count
"""


async def count_words(database: Database) -> bool:
    """Count words if passages have changed since the last count; return whether it did.

    It blocks only its caller: it reads what is committed, and writes what only searches read.
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
    state = await one(c, _STATE)
    assert state is not None  # noqa: S101 (the table has one row)
    passages, halvings, changes, uncounted = state
    if uncounted is not None or changes > ANEW_SHARE * passages:
        await _count_anew(c, _halvings(uncounted if uncounted is not None else passages))
    else:
        await c.execute(_ADD, _sample(halvings))
    # The number of passages, which decides how many are counted, is known only now.
    for _ in range(_MOST_COUNTS):
        row = await one(c, "select passages, halvings from term_count")
        assert row is not None  # noqa: S101 (the table has one row)
        if row[1] == (due := _halvings(row[0])):
            return True
        await _count_anew(c, due)
    return True


async def _count_anew(c: Connection, halvings: int) -> None:
    sample = _sample(halvings)
    query = "select tsv from chunk"
    if (bound := sample["bound"]) is not None:
        query += f" where text_hash < '\\x{bound.hex()}'"
    # ts_stat keeps words in an unbalanced tree: words in ascending order, such as numbers of records in the order of
    # their harvest, would make it a list, and the count quadratic.
    query += " order by hashint8(id)"
    await c.execute(_ANEW, {**sample, "halvings": halvings, "query": query})


def _halvings(passages: int) -> int:
    """Return how often the passages are halved until the sample is small enough."""
    halvings = 0
    while passages >> halvings > SAMPLE:
        halvings += 1
    return halvings


def _sample(halvings: int) -> dict[str, Any]:
    bound = None if halvings == 0 else (1 << (32 - halvings)).to_bytes(4)
    return {"bound": bound, "scale": 1 << halvings}


async def corrections(c: Connection, words: Sequence[str]) -> dict[str, str]:
    """Return, for words that occur nowhere, the most frequent indexed word that differs by one letter, if any."""
    guesses = [(word, guess, rank) for word in words for rank, guess in variants(word)]
    if not guesses:
        return {}
    rows = await all_rows(
        c,
        """
            select distinct on (guess.word) guess.word, guess.variant
              from unnest(%s::text[], %s::text[], %s::integer[]) as guess(word, variant, rank)
              cross join text_configs() as config(name)
              cross join lateral unnest(to_tsvector(config.name, guess.variant)) found
              join term using (lexeme)
             order by guess.word, guess.rank, term.passages desc, guess.variant
            """,
        [list(column) for column in zip(*guesses, strict=True)],
    )
    return dict(rows)


def variants(word: str) -> Iterator[tuple[int, str]]:
    """Yield the words that differ by one slip, each with its rank: 0 for swapped letters, 1 for any other slip."""
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
    """Return the lexemes that distinguish an item from others: frequent in it, rare elsewhere."""
    return await column(
        c,
        """
            select found.lexeme
              from chunk cross join lateral unnest(chunk.tsv) found
              left join term using (lexeme) cross join term_count
             where chunk.item_id = %s and length(found.lexeme) > 2
             group by found.lexeme, term.passages, term_count.passages
            having count(*) > 1 or coalesce(term.passages, 0) > 1
             order by sum(cardinality(found.positions))
                      * ln(1 + greatest(term_count.passages, 1)::float8 / greatest(coalesce(term.passages, 1), 1)) desc,
                      found.lexeme
             limit %s
            """,
        [item_id, limit],
    )


ENOUGH_PASSAGES = 1_000
"""So many take a second or two; of a source with fewer, two changes of the schema would be what costs."""

LONGEST_S = 300.0
"""A harvest that takes longer waits for its portal, not for the index; and whoever searches has waited enough."""

_LOCK_PATIENCE = "2s"  # longer than groups take that are on their way; a reader that takes longer is not kept waiting

# Read from the catalog itself: a session may cache what it has looked up by name.
_IS_MISSING = """
select not exists (select from pg_indexes where indexname = 'chunk_tsv' and schemaname = current_schema())
"""


@dataclass(slots=True)
class WordIndex:
    """Follows one run, and drops the word index for its time if most passages come from this run.

    Built at once, the index costs less than half of what it costs passage by passage. Where the server keeps no log for
    that (the embedded one does not), a fifth of all that a first harvest writes is saved. Searches scan the passages in
    the meantime. A run that is killed leaves the index missing: the next run of any source builds it.
    """

    database: Database
    clock: Callable[[], float] = time.monotonic
    _is_decided: bool = False
    _aside_since: float | None = field(default=None)

    async def grown(self, passages: int) -> None:
        """Record how many passages the run has stored."""
        if self._aside_since is not None and self.clock() > self._aside_since + LONGEST_S:
            self._aside_since = None
            await restore_word_index(self.database)
        if not self._is_decided and passages >= ENOUGH_PASSAGES:
            self._is_decided = True
            if await _set_aside(self.database, passages):
                self._aside_since = self.clock()


async def _set_aside(database: Database, passages: int) -> bool:
    """Drop the index; return False if others have stored as much as this run, or it is locked or not ours."""
    counted = "select count(*) from (select from chunk limit %s) found"
    try:
        async with database.transaction() as c:
            if await scalar(c, counted, [2 * passages]) >= 2 * passages:
                return False
            await c.execute(f"set local lock_timeout to '{_LOCK_PATIENCE}'".encode())
            await c.execute("drop index if exists chunk_tsv")
    except StoreError:
        return False
    return True


async def restore_word_index(database: Database) -> bool:
    """Build the word index if it is missing; return whether it was."""
    async with database.transaction() as c:
        if not await scalar(c, _IS_MISSING):
            return False
        # If several runs end together, one builds it: the server would let both begin, and fail the second.
        await hold(c, Lock.WORDS)
        if not await scalar(c, _IS_MISSING):
            return False
        await c.execute("create index if not exists chunk_tsv on chunk using gin (tsv)")
    return True
