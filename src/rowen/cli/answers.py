"""Answers as Markdown for models, and how a ranking came about."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowen.cli.output import Output
    from rowen.model.query import Answer, Hit

__all__ = ["explained", "markdown"]


def markdown(answer: "Answer") -> str:
    """Numbered passages, each with the link to cite it by."""
    return "\n\n".join(_entry(number, hit) for number, hit in enumerate(answer, start=1))


def _entry(number: int, hit: "Hit") -> str:
    head = " › ".join(filter(None, (hit.title or hit.url, hit.path)))
    lines = [f"## [{number}] {head}", f"<{hit.link}> ({hit.source})"]
    lines += [f"{'Original' if t.original else 'Also'}: <{t.url}> ({t.source})" for t in hit.twins]
    parts = ["\n".join(lines), hit.text]
    parts += [f"[{number}] <{hit.link_to(p.anchor)}>\n\n{p.text}" for p in hit.further]
    return "\n\n".join(parts)


def explained(out: "Output", answer: "Answer") -> None:
    """The words with their weights, the ways that were taken, the ranks of each part."""
    told = answer.explanation
    if out.json:
        out.emit({"explanation": dict(told)})
        return
    out.line()
    for word in told.get("words") or ():
        out.line((f"{word['word']:<20}", "bold"), f" {word['query']}  in {word['passages']} passages", _weight(word))
    for name in ("looked_up", "scored", "near", "filtered", "model", "unknown", "question_ms", "search_ms"):
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
