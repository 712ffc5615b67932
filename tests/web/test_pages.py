"""Every page says what it should, to whom it should, escaped, small, and quickly."""

from tests.conftest import House
from tests.web.world import served


async def test_try(lived_in: House) -> None:
    async with lived_in.open() as rowen:
        print(await rowen.savings())
        print(await rowen.state())
