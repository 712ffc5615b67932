"""How rare words are: counted anew when much was written, and asked for the word that a typo may have meant."""

import string
from collections.abc import Iterator, Sequence

from rowen.store.database import Connection, Database
from rowen.store.locks import Lock, try_hold
from rowen.store.rows import all_rows, scalar

__all__ = ["corrections", "note", "telling", "variants"]

SAMPLE = 50_000
"""Of more passages so many are counted, and the counts scaled up: a recount takes a second or two, never minutes."""

STALE_SHARE = 0.1
"""Counts are made anew when more than this share of the passages was written since: an idf hardly moves by less."""
_LETTERS = string.ascii_lowercase
# Of a shorter word too many others differ by one letter; of a longer one the guesses (54 a letter) become many.
_SHORTEST, _LONGEST = 4, 24

# Only what differs by more than a tenth is written: an idf hardly moves by less.
_COUNT = """
with counted as materialized (
    select word as lexeme, ceil(ndoc * %(scale)s::float8)::bigint as passages
      from ts_stat(%(query)s) where ndoc > %(rarer)s
), gone as (
    delete from term where not exists (select from counted where counted.lexeme = term.lexeme)
), counts as (
    insert into term select lexeme, passages from counted
    on conflict (lexeme) do update set passages = excluded.passages
     where abs(term.passages - excluded.passages) > 0.1 * term.passages
)
update term_count set passages = %(passages)s, written = 0, counted_at = now(),
       mean_length = coalesce((select avg(length(tsv)) from (select tsv from chunk limit %(sample)s) passage), 0)
"""


# What a run wrote that was killed before it could say so: the server's own estimate tells of it, which may lag as well.
_BEHIND = """
select passages = 0 and exists (select from chunk)
       or reltuples > passages * (1 + %s::float8) and counted_at < now() - interval '1 hour'
  from term_count, pg_class where oid = 'chunk'::regclass
"""


async def note(database: Database, written: int) -> bool:
    """Note that passages were written, and recount words if they are many; returns whether it did.

    Nothing waits for the count but its caller: it reads a snapshot, and writes what only search reads.
    """
    async with database.transaction() as c:
        if written:
            many = await scalar(
                c,
                "update term_count set written = written + %s returning written > passages * %s::float8",
                [written, STALE_SHARE],
            )
        else:
            many = await scalar(c, _BEHIND, [STALE_SHARE])
    if not many:
        return False
    async with database.transaction() as c:
        return await _count(c)


async def _count(c: Connection) -> bool:
    if not await try_hold(c, Lock.TERMS):
        return False
    passages: int = await scalar(c, "select count(*) from chunk")
    share = min(1.0, SAMPLE / max(passages, 1))
    counted = "select tsv from chunk"
    if share < 1:
        counted += f" tablesample system ({share * 100:.4f}) repeatable (0)"
    await c.execute(
        _COUNT,
        {
            "query": counted,
            "scale": 1 / share,
            "rarer": 0 if share == 1 else 1,
            "passages": passages,
            "sample": SAMPLE,
        },
    )
    return True


async def corrections(c: Connection, words: Sequence[str]) -> dict[str, str]:
    """For words that stand nowhere: the commonest word of the index that differs by one letter, if there is one."""
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
    """The words that differ by one slip, and how unlikely it is: letters swapped, then any other."""
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


async def telling(c: Connection, item_id: int, *, limit: int) -> list[str]:
    """The lexemes that tell an item from others: often in it, rare elsewhere."""
    rows = await all_rows(
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
    return [lexeme for (lexeme,) in rows]
