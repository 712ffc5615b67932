"""What the service can do, programs can ask for over HTTP, unless there is a reason."""

import re

from rowen.operations import VERBS
from rowen.operations.registry import operations
from tests.docs.markdown import ROOT

# Why no route asks for it.
LOCAL = {
    "who asks is told by the server itself": (
        "access.identify access.open_session access.identify_session access.close_session access.begin_login "
        "access.finish_login"
    ),
    "the server does this with each request": (
        "access.record_write access.claim_answer access.store_answer access.delete_expired access.valid_credentials"
    ),
    "it is no work of its own, but its limit": "limits.count",
    "long work is begun as a job": "runs.sync runs.sync_all sources.list_due queue.work",
    "it is sent as events": "changes.follow",
    "the pages of the web interface are told by events": "queue.watch runs.watch_recent",
    "it takes files of the machine": "sources.apply schemas.add_files schemas.export rdf.write_deltas",
    "it is for who runs the machine and pays": (
        "extraction.evaluate embeddings.fetch_model embeddings.embed embeddings.drop_old"
    ),
    "it is about the database itself": (
        "database.status database.conninfo database.client_command database.dump database.restore database.tidy"
    ),
    "`rowen doctor` asks for it": "sources.check database.check_vectors database.check_workers embeddings.check",
    "`/overview` and `/runs` tell it": (
        "sources.status sources.list_status runs.latest_by_source items.count items.last_checked"
    ),
    "it is another form of a list": (
        "items.diff_fields extraction.histories searches.newest_news sources.count_announcements"
    ),
    "it becomes words for people and models": (
        "extraction.read_page embeddings.remarks changes.number_before_last status.list_disabled"
    ),
}
REASONED = {name for names in LOCAL.values() for name in names.split()}


def test_what_the_service_can_do_has_a_route_or_a_reason() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src" / "rowen" / "interfaces" / "rest").glob("*.py"))
    calls = re.findall(r"\browen\.(?:(\w+)\.)?(\w+)\(", source)
    asked = {f"{group or VERBS.get(name, name)}.{name if group or name in VERBS else 'list'}" for group, name in calls}
    offered = set(operations())
    asked |= {name for name in re.findall(r'"(\w+\.\w+)"', source) if name in offered}

    assert sorted(offered - asked - REASONED) == []
    assert sorted(REASONED & asked | REASONED - offered) == [], "a reason that is none any more"
