"""What the elements of a record say in words, by their languages."""

from collections.abc import Iterable, Sequence

from rowen.connectors.catalog.languages import Wording, code_of, wordings
from rowen.connectors.catalog.text import plain
from rowen.formats.xml import Element, said

__all__ = ["described", "worded"]

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def worded(titles: Sequence[Element], texts: Sequence[Element], *, preferred: str | None) -> Wording:
    """Title and description, in all languages that they are marked with."""
    named = {code: plain(words[0]) for code, words in _by_language(titles).items()}
    told = {code: "\n\n".join(words) for code, words in _by_language(texts).items()}
    return wordings(named, told, preferred=preferred)


def described(wording: Wording, titles: Iterable[Element], texts: Iterable[Element], people: Sequence[str]) -> str:
    """The description, with further titles before it, what is in no language's description after it, and the makers."""
    shown = [wording.title, *(title for title, _ in wording.others.values())]
    further = [title for one in titles if (title := plain(said(one))) and title not in shown]
    told = "\n".join([wording.description, *(text for _, text in wording.others.values())])
    rest = [text for text in dict.fromkeys(map(_lines, texts)) if plain(text) not in told]
    makers = f"By {'; '.join(dict.fromkeys(people))}." if people else ""
    return "\n\n".join(
        part for part in (*dict.fromkeys(further), wording.description, *map(plain, rest), makers) if part
    )


def _by_language(trees: Iterable[Element]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for tree in trees:
        words = found.setdefault(code_of(tree.get(_LANG, "")) or "", [])
        if (text := _lines(tree)) and text not in words:
            words.append(text)
    return {code: words for code, words in found.items() if words}


def _lines(tree: Element) -> str:
    return "\n".join(line.strip() for line in "".join(tree.itertext()).strip().splitlines())
