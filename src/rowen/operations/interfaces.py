"""The operations that each interface hides, with the reasons; it offers all others. Tests and docs read this table."""

from collections.abc import Mapping

INTERFACES: Mapping[str, str] = {"cli": "Command line", "rest": "REST", "web": "Web", "mcp": "Assistants"}
"""The interfaces by the names of their packages."""

_SESSIONS = "The server identifies callers and keeps their sessions."
_REQUESTS = "The server does this with each request."
_LIMITS = "It limits other work, and does none of its own."
_SIGNED = "Other servers send signed messages to addresses of the REST interface."
_JOBS = "Long work is begun as a job."
_FILES = "It reads or writes files of the machine."
_OPERATOR = "It is for the operator of the machine, who pays for it."
_DATABASE = "It concerns the database or the process itself."
_DOCTOR = "`rowen doctor` calls it."
_SAME = "Another operation of this interface returns the same, or more."
_FORMS = "It is another form of a result that this interface shows."
_EVENTS = "This interface follows changes and states in another way."
_DOWNLOADS = "Copies of the data and changes for programs are served by REST and written by commands."
_ADMINISTRATION = "It is administration: done with commands or over REST."
_ACCESS = "An assistant neither gives nor takes access, nor decides what others receive."

HIDDEN: Mapping[str, Mapping[str, str]] = {
    "cli": {
        _SESSIONS: (
            "access.identify access.open_session access.identify_session access.close_session access.begin_login"
            " access.finish_login"
        ),
        _REQUESTS: (
            "access.record_write access.claim_answer access.store_answer access.delete_expired access.valid_credentials"
        ),
        "The audit log records writes through the server.": "access.audit_log",
        _LIMITS: "limits.count limits.export",
        _SIGNED: "push.receive_call push.receive_github push.receive_websub push.verify_websub",
        "Commands do the work in their own process.": "queue.enqueue queue.enqueue_extraction",
        _EVENTS: "queue.watch runs.watch runs.watch_recent feeds.events",
        _SAME: (
            "changes.newest extraction.list extraction.list_attached items.browse items.count items.detail"
            " items.last_checked queue.depth runs.error_groups runs.latest_by_source schemas.add searches.newest_news"
            " sources.count_by_kind sources.declare sources.find_version sources.list_status sources.preview"
            " sources.status status.get status.savings"
        ),
        _FORMS: "extraction.histories extraction.read_page",
        "Consumers of delta files download them; a command writes them into a folder.": "rdf.get_file rdf.list_files",
    },
    "rest": {
        _SESSIONS: (
            "access.identify access.open_session access.identify_session access.close_session access.begin_login"
            " access.finish_login"
        ),
        _REQUESTS: (
            "access.record_write access.claim_answer access.store_answer access.delete_expired access.valid_credentials"
        ),
        _LIMITS: "limits.count",
        _JOBS: "runs.sync runs.sync_all sources.list_due queue.work",
        _EVENTS: "changes.follow queue.watch runs.watch_recent",
        _FILES: "sources.apply schemas.add_files schemas.export rdf.write_deltas",
        _OPERATOR: "extraction.evaluate embeddings.fetch_model embeddings.embed embeddings.drop_old",
        _DATABASE: (
            "database.status database.conninfo database.client_command database.dump database.restore database.tidy"
        ),
        _DOCTOR: "sources.check database.check_vectors database.check_workers embeddings.check",
        _SAME: "sources.status sources.list_status runs.latest_by_source items.count items.last_checked",
        _FORMS: (
            "items.diff_fields extraction.histories extraction.read_page searches.newest_news"
            " sources.count_announcements embeddings.remarks changes.number_before_last status.list_disabled"
        ),
    },
    "web": {
        _SESSIONS: (
            "access.identify access.open_session access.identify_session access.close_session access.begin_login"
            " access.finish_login"
        ),
        _REQUESTS: (
            "access.record_write access.claim_answer access.store_answer access.delete_expired access.valid_credentials"
        ),
        _LIMITS: "limits.export",
        _SIGNED: "push.receive_call push.receive_github push.receive_websub push.verify_websub",
        _JOBS: (
            "runs.sync runs.sync_all sources.list_due queue.work queue.enqueue_extraction extraction.extract_source"
            " webhooks.deliver push.poke"
        ),
        _EVENTS: "changes.follow changes.number_before_last",
        _FILES: "sources.apply schemas.add_files schemas.export rdf.write_deltas",
        _OPERATOR: (
            "extraction.evaluate extraction.extract extraction.estimate extraction.read_page embeddings.fetch_model"
            " embeddings.embed embeddings.drop_old"
        ),
        _DATABASE: "database.conninfo database.client_command database.dump database.restore database.tidy",
        _DOCTOR: "sources.check database.check_vectors database.check_workers embeddings.check",
        _SAME: (
            "items.last_checked schemas.get searches.news sources.count_by_kind sources.find_version sources.overview"
            " sources.announcements sources.count_announcements"
        ),
        _FORMS: (
            "items.compare_fields items.diff items.diff_fields schemas.compare embeddings.remarks status.list_disabled"
        ),
        _DOWNLOADS: (
            "exports.export exports.export_extractions exports.stream feeds.catalog feeds.data_json feeds.event_stream"
            " feeds.events feeds.feed rdf.dump rdf.get_file rdf.list_files rdf.summary"
        ),
        _ADMINISTRATION: (
            "circuits.reset push.access push.subscribe push.unsubscribe rdf.add_endpoint rdf.list_endpoints rdf.push"
            " rdf.remove_endpoint schemas.add schemas.remove sources.declare webhooks.add_notice webhooks.rotate"
        ),
    },
    "mcp": {
        _SESSIONS: (
            "access.identify access.open_session access.identify_session access.close_session access.begin_login"
            " access.finish_login"
        ),
        _REQUESTS: "access.claim_answer access.store_answer access.delete_expired access.valid_credentials",
        _LIMITS: "limits.count limits.export",
        _SIGNED: "push.receive_call push.receive_github push.receive_websub push.verify_websub",
        _JOBS: "runs.sync_all sources.list_due queue.work queue.enqueue_extraction extraction.extract_source push.poke",
        _EVENTS: "feeds.events queue.watch runs.watch runs.watch_recent changes.number_before_last",
        _FILES: "sources.apply schemas.add_files schemas.export rdf.write_deltas",
        _OPERATOR: (
            "extraction.evaluate extraction.estimate embeddings.fetch_model embeddings.embed embeddings.drop_old"
        ),
        _DATABASE: (
            "database.status database.conninfo database.client_command database.dump database.restore database.tidy"
        ),
        _DOCTOR: "sources.check database.check_vectors database.check_workers embeddings.check",
        _SAME: (
            "changes.newest extraction.histories items.browse items.count items.detail items.duplicates items.history"
            " items.similar runs.error_groups runs.get runs.latest_by_source runs.list searches.newest_news"
            " searches.news sources.announcements sources.count_announcements sources.count_by_kind sources.following"
            " sources.list_following sources.list_status sources.overview sources.preview sources.status"
        ),
        _FORMS: "items.compare_fields items.diff_fields embeddings.remarks status.list_disabled",
        _DOWNLOADS: (
            "exports.export exports.export_extractions exports.stream feeds.catalog feeds.data_json feeds.event_stream"
            " feeds.feed rdf.dump rdf.get_file rdf.list_files rdf.summary"
        ),
        _ADMINISTRATION: (
            "circuits.reset deletions.accept deletions.keep deletions.list embeddings.list extraction.attach"
            " extraction.detach extraction.list_attached items.quarantine push.list_subscriptions push.subscribe"
            " push.unsubscribe queue.depth queue.pause queue.resume queue.retry rdf.list_endpoints rdf.push runs.cancel"
            " schemas.add schemas.compare schemas.get schemas.list schemas.remove sources.declare sources.edit"
            " sources.pause sources.resume status.costs status.get status.health status.savings"
        ),
        _ACCESS: (
            "access.add_token access.audit_log access.list_tokens access.revoke_token push.access rdf.add_endpoint"
            " rdf.remove_endpoint searches.list searches.remove searches.save webhooks.add webhooks.add_notice"
            " webhooks.deliver webhooks.deliveries webhooks.list webhooks.list_notices webhooks.pause webhooks.remove"
            " webhooks.resume webhooks.rotate"
        ),
    },
}


def hidden_by(interface: str) -> dict[str, str]:
    """Return the operations that an interface hides, each with the reason."""
    return {name: reason for reason, names in HIDDEN[interface].items() for name in names.split()}
