"""Each interface offers every operation, unless the table in `operations/interfaces.py` has a reason."""

import pytest

from rowen.operations.interfaces import HIDDEN, INTERFACES, hidden_by
from rowen.operations.registry import operations
from tests.docs.operations import called_by


@pytest.mark.parametrize("interface", INTERFACES)
def test_an_interface_offers_an_operation_or_has_a_reason(interface: str) -> None:
    called, hidden = called_by(interface), hidden_by(interface)

    assert sorted(set(operations()) - called - hidden.keys()) == [], "neither offered nor hidden"
    assert sorted(called & hidden.keys()) == [], "offered in spite of a reason"
    assert sorted(hidden.keys() - set(operations())) == [], "a reason for an unknown operation"
    assert sum(len(names.split()) for names in HIDDEN[interface].values()) == len(hidden), "two reasons"
