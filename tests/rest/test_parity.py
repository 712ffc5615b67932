"""What the service can do, programs can ask for over HTTP, unless there is a reason."""

import re

from rowen import Rowen
from rowen.operations import _Asked
from tests.docs.markdown import ROOT

# Why no route asks for it.
LOCAL = {
    "who asks is told by the server itself": "identify open_session of_session close_session begin_login finish_login",
    "the server does this with each request": "note_write answer_once keep_answer tidy_access valid_credentials",
    "it is no work of its own, but its limit": "count_costly",
    "long work is begun as a job": "sync sync_all sources_in_turn work stop",
    "the same is asked by the number of a run, and as events": "cancel follow",
    "the pages of the web interface are told by events": "watch_job watch_recent_runs",
    "it takes files of the machine": "apply add_schema_files export_schemas statement_deltas",
    "it is for who runs the machine and pays": "evaluate fetch_model embed drop_old_embeddings",
    "it is about the database itself": "database conninfo client_call dump restore tidy",
    "`rowen doctor` asks for it": "check_source check_vectors check_workers check_embedder",
    "`/overview` and `/runs` tell it": "standing standing_sources last_runs items_of checked",
    "it is another form of a list": "diff_fields extraction_histories newest_search_news announced_counts",
    "it becomes words for people and models": "read_page embedding_remarks start_of_last_changes switched_off",
}
REASONED = {name for names in LOCAL.values() for name in names.split()}


def test_what_the_service_can_do_has_a_route_or_a_reason() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src" / "rowen" / "interfaces" / "rest").glob("*.py"))
    asked = set(re.findall(r"\browen\.(\w+)\(", source))
    offered = {name for name, value in vars(Rowen).items() if isinstance(value, _Asked)}

    assert sorted(offered - asked - REASONED) == []
    assert sorted(REASONED & asked | REASONED - offered) == [], "a reason that is none any more"
