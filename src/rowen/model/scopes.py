"""The scope that each operation takes, whichever interface it is called through.

Operations have the names that `rowen.Rowen` gives them. What a write token may add it may also remove; what only an
administrator may add, since it names secrets, a write token may pause but not remove.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from rowen.model.access import Scope

__all__ = ["CONTACTS", "SCOPES", "SIGNED", "scope_of"]

_READ = """
    announced browse catalog changes checked circuits compare compare_fields compare_schemas costs
    count_costly data_json database deliveries detail diff dump_statements embeddings endpoints event_stream events
    extraction_histories extraction_history extractions feed find_version followed following get health held
    history items_of job jobs last_change last_runs newest_changes newest_search_news notices overview quarantine
    queue_depth run runs saved_searches savings schema schemas search search_news similar situation source
    source_schemas sources
    sources_by_kind standing standing_sources statement_file statement_files statements subscriptions troubles twins
    watch_job watch_recent_runs watch_run webhooks workers
"""
# Exports have whole records, with what is hidden from read tokens; what asks other servers costs them and us.
_WRITE = """
    accept_held add add_schema cancel_job cancel_run carry_schema declare deliver drop_schema edit enqueue
    enqueue_extraction estimate_extraction export export_extractions export_lines extract extract_source
    forget_search keep_held pause pause_webhook poke preview push_statements read_page remove remove_schema resume
    resume_webhook retry_job save_search subscribe sync unsubscribe
"""
_ADMIN = """
    add_notice add_token add_webhook audit_log forget_endpoint keep_endpoint pause_queue push_access remove_webhook
    reset_circuits resume_queue revoke_token rotate_webhook tokens
"""

SCOPES: Mapping[str, Scope] = MappingProxyType(
    {
        operation: scope
        for scope, operations in ((Scope.READ, _READ), (Scope.WRITE, _WRITE), (Scope.ADMIN, _ADMIN))
        for operation in operations.split()
    }
)
"""All operations that are called over HTTP or by an assistant."""

CONTACTS = Scope.WRITE
"""Who sees the names and addresses of contacts in records."""

SIGNED = frozenset({"receive_call", "receive_github", "receive_websub", "verify_websub"})
"""Operations that take a signature instead of a token."""


def scope_of(operations: Iterable[str]) -> Scope:
    """Return the scope that all of these operations take together."""
    return max((SCOPES[one] for one in operations), key=list(Scope).index, default=Scope.READ)
