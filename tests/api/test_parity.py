"""What the service can do, programs can ask for over HTTP, unless there is a reason."""

import re

from rowen import Rowen
from rowen.service import _Asked
from tests.docs.markdown import ROOT

# Why no route asks for it.
LOCAL = {
    **dict.fromkeys(
        ("identify", "open_session", "of_session", "close_session"), "who asks is told by the server itself"
    ),
    **dict.fromkeys(("begin_login", "finish_login"), "logging in has pages of its own"),
    **dict.fromkeys(
        ("note_write", "answer_once", "keep_answer", "tidy_access"), "the server does this with each request"
    ),
    **dict.fromkeys(("sync", "sync_all", "sources_in_turn", "work", "stop"), "long work is begun as a job"),
    **dict.fromkeys(("cancel", "follow"), "the same is asked by the number of a run, and as events"),
    **dict.fromkeys(("apply", "add_schema_files", "export_schemas", "statement_deltas"), "takes files of the machine"),
    **dict.fromkeys(("evaluate", "fetch_model", "embed", "drop_old_embeddings"), "for who runs the machine and pays"),
    **dict.fromkeys(("database", "conninfo", "client_call", "dump", "restore", "tidy"), "the database itself"),
    **dict.fromkeys(("check_source", "check_vectors", "check_workers", "check_embedder"), "`rowen doctor`"),
    **dict.fromkeys(
        ("standing", "standing_sources", "last_runs", "items_of", "checked"), "`/overview` and `/runs` tell it"
    ),
    **dict.fromkeys(
        ("diff_fields", "extraction_histories", "newest_search_news", "announced_counts"), "other forms of lists"
    ),
    **dict.fromkeys(
        ("read_page", "embedding_remarks", "start_of_last_changes", "switched_off"), "words for people and models"
    ),
}


def test_what_the_service_can_do_has_a_route_or_a_reason() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src" / "rowen" / "api").glob("*.py"))
    asked = set(re.findall(r"\browen\.(\w+)\(", source))
    offered = {name for name, value in vars(Rowen).items() if isinstance(value, _Asked)}

    assert sorted(offered - asked - set(LOCAL)) == []
    assert sorted(set(LOCAL) & asked | set(LOCAL) - offered) == [], "a reason that is none any more"
