"""Portals that are opened for one test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Protocol, TypeVar

import pytest

from tests.portals.site import Site

P = TypeVar("P", bound=Site)


class Opened(Protocol):
    """Opens a portal, which is closed after the test."""

    def __call__(self, made: Callable[[], P]) -> P: ...


@pytest.fixture
def opened() -> Iterator[Opened]:
    with ExitStack() as stack:

        def open_one(made: Callable[[], P]) -> P:
            return stack.enter_context(closing(made()))

        yield open_one
