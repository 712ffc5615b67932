"""A database whose passages a provider on loopback embeds, and a look at its vectors."""

from rowen import Complete, Document, Fetched, Observation, Rowen, Run
from tests.conftest import ScratchDatabase
from tests.portals.embedder import vector_of
from tests.portals.scripted import page, shows

ADDRESS = "scripted:one"


async def sync(r: Rowen, *observations: Observation, **how: bool) -> Run:
    shows(*observations, Complete())
    return await r.sync(ADDRESS, **how)


def untitled(number: int | str, text: str, *, title: str = "") -> Document:
    """A small document without a title, of which only passages are embedded."""
    return page(number, text, title=title)


def pages(*numbers: int) -> list[Observation]:
    """Untitled pages, each a passage of its own."""
    return [Fetched(untitled(number, f"All about number {number}.")) for number in numbers]


def vectors_of(database: ScratchDatabase) -> dict[str, list[float]]:
    """Text → vector of every passage that has one, under the active model."""
    rows = database.query(
        "select text, vector::text from chunk join embedding using (text_hash)"
        " join embedding_model model on model.id = model_id where state = 'active'"
    )
    return {text: [float(n) for n in vector[1:-1].split(",")] for text, vector in rows}


def is_direction_of(vector: list[float], text: str) -> bool:
    wanted = vector_of(text)
    length = sum(n * n for n in wanted) ** 0.5
    return all(abs(a - b / length) < 0.002 for a, b in zip(vector, wanted, strict=True))
