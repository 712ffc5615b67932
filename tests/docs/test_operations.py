"""The table of operations and interfaces is that of the code."""

from rowen.operations.interfaces import INTERFACES
from rowen.operations.registry import operations
from tests.docs.operations import PAGE, called_by, table


def test_the_table_of_operations_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == table(), "`python -m tests.docs.operations` writes it again"


def test_every_operation_with_a_scope_is_used_by_an_interface() -> None:
    called = set().union(*map(called_by, INTERFACES))

    assert [name for name, one in operations().items() if one.scope is not None and name not in called] == []
