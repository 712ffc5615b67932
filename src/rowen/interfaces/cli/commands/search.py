"""search."""

from typing import TYPE_CHECKING, Any

import click

from rowen.interfaces.cli.command import command, options_of
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.datasets import RECORD_KINDS

if TYPE_CHECKING:
    from rowen.interfaces.cli.output import Output
    from rowen.model.search import Answer, Hit
    from rowen.operations import Rowen

__all__ = ["COMMANDS", "show_hits"]

MARKDOWN_BUDGET = 4_000
"""A thousand tokens: what a model reads at the price of a sentence of its own."""

TWINS_SHOWN = 3
"""As many lines as a hit has of text; `--json` names all."""

_MARKED = "bold yellow"


@command("search")
@click.argument("words", nargs=-1)
@click.option("--similar", metavar="URL", help="Find the items most like this one, instead of words.")
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
    form: str,
    explain: bool,
    **how: Any,
) -> None:
    """Find the items that answer best, by words and by meaning.

    Inside the quotes of the shell: "exact phrases" must stand there, -words must not, word* finds beginnings.
    """
    query = " ".join(words)
    if bool(query.strip()) == (similar is not None):
        raise click.UsageError("Give words to search for, or --similar with the URL of an item.")
    if form == "markdown" and how["budget"] is None:
        how["budget"] = MARKDOWN_BUDGET
    answer, held = call.ask(lambda rowen: _asked(rowen, query, similar, how))
    _show(call.out, answer, query or f"what is like {similar}", form)
    if explain:
        _explain(call.out, answer)
    if not held:
        call.out.say("Nothing is stored yet. `rowen sync ./folder` reads a folder.")
    elif not answer:
        call.out.say(f"No results for {query!r}. Fewer or other words may find more; word* finds beginnings.")


async def _asked(rowen: "Rowen", query: str, similar: str | None, how: dict[str, Any]) -> tuple["Answer", int]:
    words_only = how.pop("words_only")
    if similar is None:
        answer = await rowen.search(query, **how, meaning=not words_only)
    else:
        if how.pop("version") is not None:
            raise click.UsageError("--similar and --version do not go together.")
        answer = await rowen.items.similar(similar, **how)
    held = 1 if answer else sum(source.items for source in await rowen.sources.list())
    return answer, held


def _show(out: "Output", answer: "Answer", query: str, form: str) -> None:
    for wrong, right in answer.corrections.items():
        out.say(f"Nothing has {wrong!r}. Also searched for {right!r}.")
    for note in answer.notes:
        out.say(note)
    if form == "markdown" and not out.json:
        from rowen.operations.search import markdown

        out.line(markdown(answer))
    else:
        show_hits(out, answer, query)


def show_hits(out: "Output", answer: "Answer", query: str) -> None:
    """Each hit with the lines that answer, and where they stand."""
    from rowen.model.passages import marked, pattern, snippet
    from rowen.model.search import Query
    from rowen.model.wording import count

    if out.json:
        out.facts(answer)
        return
    wanted = pattern(Query.parse(query).replacing(answer.corrections))
    for rank, hit in enumerate(answer, start=1):
        out.line((f"{rank:>2}  ", "dim"), (hit.title or hit.url, "bold"), (f"  {hit.source}", "cyan"))
        if path := hit.path:
            out.line((f"    {path}", "italic"))
        for line in snippet(hit.text, wanted):
            out.line("    ", *((text, _MARKED if is_wanted else "") for text, is_wanted in marked(line, wanted)))
        out.line((f"    {hit.link}", "blue"))
        if hit.held:
            out.line(("    no longer shown by its source; its deletion was held back", "yellow"))
        for twin in hit.twins[:TWINS_SHOWN]:
            out.line((f"    {'the original' if twin.original else 'also'} in {twin.source}: {twin.url}", "dim"))
        if len(hit.twins) > TWINS_SHOWN:
            out.line((f"    and in {count(len(hit.twins) - TWINS_SHOWN, 'other place')}", "dim"))


def _explain(out: "Output", answer: "Answer") -> None:
    """The words with their weights, the ways that were taken, the ranks of each part."""
    told = answer.explanation
    if out.json:
        out.emit({"explanation": dict(told)})
        return
    out.line()
    for word in told.get("words") or ():
        out.line((f"{word['word']:<20}", "bold"), f" {word['query']}  in {word['passages']} passages", _weight(word))
    for name in ("looked_up", "scored", "near", "coverage", "filtered", "model", "unknown", "question_ms", "search_ms"):
        if told.get(name) not in (None, [], {}):
            out.line((f"{name:<20}", "dim"), f" {told[name]}")
    for number, hit in enumerate(answer, start=1):
        out.line((f"{number:>2}  ", "dim"), f"{hit.score:.5f}  {_reason(hit)}  ", (hit.title, "bold"))


def _weight(word: dict[str, Any]) -> str:
    return f", weighs {word['weight']:.2f}"


def _reason(hit: "Hit") -> str:
    by = []
    if hit.keyword_rank is not None:
        by.append(f"words #{hit.keyword_rank} ({', '.join(hit.words)})")
    if hit.vector_rank is not None:
        by.append(f"meaning #{hit.vector_rank} ({hit.similarity:.2f})")
    return ", ".join(by)


COMMANDS = {"search": search}
