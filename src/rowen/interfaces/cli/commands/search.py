"""Commands that search: search, saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rowen.interfaces.cli.command import command, listing_group, options_of
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.output import Output
from rowen.model.datasets import RECORD_KINDS
from rowen.model.passages import marked, pattern, snippet
from rowen.model.search import Answer, Hit, Query
from rowen.model.wording import count, moment
from rowen.operations.search import markdown

if TYPE_CHECKING:
    from rowen.operations import Rowen

MARKDOWN_BUDGET = 4_000
"""About a thousand tokens: reading them costs a model as much as writing a sentence."""

DUPLICATES_SHOWN = 3
"""The number of lines of text in a hit; `--json` lists all duplicates."""

_NEWS = {"matches": "green", "no longer matches": "red"}


@command("search")
@click.argument("words", nargs=-1)
@click.option("--similar", metavar="URL", help="Find items similar to this one instead of words.")
@options_of("items.search", leave_out=("meaning", "after"), record_kinds={"type": click.Choice(RECORD_KINDS)})
@click.option("--words-only", is_flag=True, help="Rank by words alone, not by meaning.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown"]),
    default="text",
    help="Format of the output; markdown is for models.",
)
@click.option("--explain", is_flag=True, help="Explain the ranking.")
def search(
    call: Invocation,
    words: tuple[str, ...],
    similar: str | None,
    words_only: bool,
    form: str,
    explain: bool,
    **how: Any,
) -> None:
    """Search items by words and by meaning.

    Inside the quotes of the shell: "exact phrases" are required, -words are excluded, word* is a prefix.
    """
    query = " ".join(words)
    if bool(query.strip()) == (similar is not None):
        raise click.UsageError("Give words to search for, or --similar with the URL of an item.")
    if form == "markdown" and how["budget"] is None:
        how["budget"] = MARKDOWN_BUDGET
    if similar is not None and how.pop("version") is not None:
        raise click.UsageError("--similar cannot be combined with --version.")

    async def answer_question(rowen: Rowen) -> tuple[Answer, bool]:
        if similar is None:
            answer = await rowen.search(query, **how, meaning=not words_only)
        else:
            answer = await rowen.items.similar(similar, **how)
        return answer, bool(answer) or any(source.items for source in await rowen.sources.list())

    answer, has_items = call.ask(answer_question)
    for wrong, right in answer.corrections.items():
        call.out.say(f"Nothing has {wrong!r}. Also searched for {right!r}.")
    for note in answer.notes:
        call.out.say(note)
    question = query or f"items similar to {similar}"
    if form == "markdown" and not call.out.json:
        call.out.line(markdown(answer))
    else:
        show_hits(call.out, answer, question)
    if explain:
        _explain(call.out, answer)
    if not has_items:
        call.out.say("Nothing is stored yet. `rowen sync ./folder` reads a folder.")
    elif not answer:
        call.out.say(f"No results for {query!r}. Fewer or other words may find more; word* matches prefixes.")


def show_hits(out: Output, answer: Answer, query: str) -> None:
    """Print each hit with the lines that answer the query, and its address."""
    if out.json:
        for hit in answer:
            out.emit(hit)
        return
    wanted = pattern(Query.parse(query).replacing(answer.corrections))
    for rank, hit in enumerate(answer, start=1):
        out.line((f"{rank:>2}  ", "dim"), (hit.title or hit.url, "bold"), (f"  {hit.source}", "cyan"))
        if path := hit.path:
            out.line((f"    {path}", "italic"))
        for line in snippet(hit.text, wanted):
            pieces = ((text, "bold yellow" if is_wanted else "") for text, is_wanted in marked(line, wanted))
            out.line("    ", *pieces)
        out.line((f"    {hit.link}", "blue"))
        if hit.held:
            out.line(("    no longer listed by its source; its deletion is pending", "yellow"))
        for twin in hit.twins[:DUPLICATES_SHOWN]:
            out.line((f"    {'the original' if twin.original else 'also'} in {twin.source}: {twin.url}", "dim"))
        if len(hit.twins) > DUPLICATES_SHOWN:
            out.line((f"    and in {count(len(hit.twins) - DUPLICATES_SHOWN, 'other place')}", "dim"))


def _explain(out: Output, answer: Answer) -> None:
    """Print the words with their weights, the search methods, and the ranks of each hit."""
    explanation = answer.explanation
    if out.json:
        out.emit({"explanation": dict(explanation)})
        return
    out.line()
    for word in explanation.get("words") or ():
        weight = f", weight {word['weight']:.2f}"
        out.line((f"{word['word']:<20}", "bold"), f" {word['query']}  in {word['passages']} passages", weight)
    for name in ("looked_up", "scored", "near", "coverage", "filtered", "model", "unknown", "question_ms", "search_ms"):
        if explanation.get(name) not in (None, [], {}):
            out.line((f"{name:<20}", "dim"), f" {explanation[name]}")
    for number, hit in enumerate(answer, start=1):
        out.line((f"{number:>2}  ", "dim"), f"{hit.score:.5f}  {_ranks(hit)}  ", (hit.title, "bold"))


def _ranks(hit: Hit) -> str:
    ranks = [] if hit.keyword_rank is None else [f"words #{hit.keyword_rank} ({', '.join(hit.words)})"]
    ranks += [] if hit.vector_rank is None else [f"meaning #{hit.vector_rank} ({hit.similarity:.2f})"]
    return ", ".join(ranks)


@listing_group("saved")
def saved(call: Invocation) -> None:
    """List saved searches; show their new matches."""
    searches = call.ask(lambda rowen: rowen.searches.list())
    call.out.listing(
        searches,
        {
            "name": lambda search: (search.name, "bold"),
            "matches": lambda search: f"{search.matches:,}",
            "sources": lambda search: ", ".join(search.sources) or "all",
            "query": lambda search: search.query,
        },
    )
    if not searches:
        call.out.say('There are no saved searches. `rowen saved add NAME "words"` adds one.')


@command("add")
@click.argument("name")
@click.argument("query", metavar="WORDS")
@options_of("searches.save")
def add(call: Invocation, name: str, query: str, sources: tuple[str, ...]) -> None:
    """Save a search: items that start or stop matching from now on are its news."""
    search = call.ask(lambda rowen: rowen.searches.save(name, query, sources=sources))
    call.out.answer(search, f"{name}\t{search.matches:,} match now")


@command("remove")
@click.argument("name")
def remove(call: Invocation, name: str) -> None:
    """Delete a saved search."""
    call.ask(lambda rowen: rowen.searches.remove(name))
    call.out.answer({"removed": name}, f"{name} was removed.")


@command("news")
@click.argument("name")
@options_of("searches.news", after={"metavar": "ID"})
def news(call: Invocation, name: str, after: int, limit: int) -> None:
    """Show items that started or stopped matching."""
    lines = call.ask(lambda rowen: rowen.searches.news(name, after=after, limit=limit))
    call.out.listing(
        lines,
        {
            "id": lambda line: str(line.id),
            "change": lambda line: (line.kind, _NEWS[line.kind]),
            "at": lambda line: moment(line.at),
            "source": lambda line: line.source,
            "title": lambda line: (line.title, "bold"),
            "url": lambda line: line.url,
        },
    )
    if not lines:
        call.out.say("No item started or stopped matching.")


for _command in (add, remove, news):
    saved.add_command(_command)

COMMANDS = {"search": search, "saved": saved}
