"""The retention of changes of RDF statements."""

from rowen.store import rdf
from tests.conftest import ScratchDatabase


async def test_changes_of_statements_are_deleted_after_a_season_unless_an_endpoint_needs_them(
    database: ScratchDatabase,
) -> None:
    database.execute(
        "insert into source (id, name, kind, url) overriding system value values (1, 'papers', 'announced', 'https://a.example');"
        "insert into statement_change (number, file, source_id, source, page, added, removed, kept, at)"
        " select n, n, 1, 'papers', 'https://a.example/p', '{}', '{}', 0, now() - make_interval(days => 30 * n)"
        " from generate_series(1, 6) n;"
        "insert into statement_target (source_id, endpoint, graph, number) values (1, 'https://b.example', '', 4)"
    )
    async with database.open() as r, r._engine.database.transaction() as c:
        forgotten = await rdf.forget_changes(c, days=75)
        assert await rdf.advance_target(c, 1, "https://b.example", None, 6, before=4)
        later = await rdf.forget_changes(c, days=75)

    assert (forgotten, later) == (2, 2)
    assert database.query("select number from statement_change order by 1") == [(1,), (2,)]
