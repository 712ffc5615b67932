"""The program `rowen`: its commands, its error handling and its exit code."""

import atexit
import gc
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from rowen.errors import RowenError
from rowen.interfaces.cli.command import LazyCommandGroup
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.output import clean
from rowen.version import __version__

# 128 and the number of SIGINT, as in shells.
INTERRUPTED = 130

# More than the 107,000 objects that the modules of a sync create: collecting garbage among them takes 20 of its 400 ms.
_OBJECTS_BETWEEN = 120_000

_SECTIONS = {
    "Start here": {
        "demo": ("demo", "Show every feature on a small offline demo."),
    },
    "Keep a copy": {
        "add": ("editing", "Add a source: a folder, site, repository, package, catalog or feed."),
        "apply": ("editing", "Make the sources match a file that declares them."),
        "sync": ("sync", "Bring sources up to date; only changes cost anything."),
        "sources": ("sources", "List all sources."),
        "show": ("sources", "Show one source in full."),
        "edit": ("editing", "Change a source's name, options, schedule or schemas."),
        "pause": ("sources", "Exclude a source from sync until it is resumed."),
        "resume": ("sources", "Include a paused source again."),
        "remove": ("sources", "Delete a source with all its items."),
    },
    "Look at it": {
        "search": ("search", "Search items by words and by meaning."),
        "get": ("items", "Print the text of one item as Markdown."),
        "diff": ("items", "Show changes between two revisions of an item: text, record or facts."),
        "history": ("items", "List all revisions of an item, or of its facts."),
        "changes": ("changes", "Read the change log, or follow it."),
        "export": ("exports", "Export items or facts into a new folder or to stdout."),
        "feed": ("changes", "Print the change log as a feed, or all datasets as a catalog."),
        "announced": ("sources", "List the documents that a feed announced, with jobs and outcomes."),
        "statements": ("statements", "Publish RDF statements of pages: dump, deltas, SPARQL endpoints."),
        "webhooks": ("webhooks", "List webhooks; add, pause, replay."),
        "notify": ("webhooks", "List notifications by mail or chat; add, pause."),
        "saved": ("search", "List saved searches; show their new matches."),
    },
    "Extract facts": {
        "extract": ("extraction", "Extract facts as JSON from a page, or from changes of a source."),
        "evaluate": ("extraction", "Compare models on your own pages: validity, accuracy, grounding, time, cost."),
        "schema": ("schemas", "Manage the schemas of extracted facts."),
        "costs": ("extraction", "Show the cost of paid calls, and the cost avoided."),
    },
    "Connect assistants": {
        "mcp": ("mcp", "Serve an assistant on standard input and output (Model Context Protocol)."),
    },
    "Run in the background": {
        "serve": ("serve", "Serve the web page and API, and keep sources fresh, until stopped."),
        "token": ("serve", "Create, list and revoke access tokens of the server."),
        "worker": ("jobs", "Keep sources fresh: run due jobs until stopped."),
        "poke": ("push", "Report a change: a worker checks it before all due jobs."),
        "push": ("push", "List push subscriptions; subscribe, unsubscribe, show secrets."),
        "jobs": ("jobs", "List jobs, newest first; cancel, retry, pause, resume."),
    },
    "Look after it": {
        "embed": ("embed", "Create missing vectors, or those of another model."),
        "status": ("status", "Show the state of sources and database."),
        "runs": ("runs", "List runs, newest first."),
        "cancel": ("runs", "Cancel a live run in any process."),
        "run": ("runs", "Show one run with its full statistics."),
        "quarantine": ("runs", "List unreadable items with their errors."),
        "held": ("runs", "List pending deletions, or decide about some."),
        "db": ("db", "Inspect and maintain the database."),
        "completion": ("doctor", "Print the completion script for a shell."),
        "circuits": ("status", "List services that failed too often to be called; reset them."),
        "doctor": ("doctor", "Check the installation, and suggest repairs."),
    },
}


@click.version_option(__version__, message="rowen %(version)s")
def _app() -> None:
    """Keep a searchable, fresh copy of sites, catalogs, repositories and folders; only changes cost anything.

    Begin with `rowen sync ./folder`, then `rowen search "words"`.
    """


app = click.command(cls=LazyCommandGroup, name="rowen", sections=_SECTIONS)(_app)


def main() -> None:
    """Run the command, and end the process with the command's exit code."""
    for stream in (sys.stdout, sys.stderr):
        # Characters that the terminal's encoding lacks must not end a command.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    # Imported objects never become garbage.
    gc.set_threshold(_OBJECTS_BETWEEN, *gc.get_threshold()[1:])
    _leave(_call(sys.argv[1:]))


def _leave(code: int) -> NoReturn:
    """End the process without freeing each object, which takes a tenth of the time of a short command."""
    gc.disable()
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon]
    if others or sys.gettrace() or sys.getprofile():
        sys.exit(code)
    try:
        atexit._run_exitfuncs()  # noqa: SLF001 (no public function runs the exit handlers)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 (such as a closed pipe, which the interpreter handles)
        sys.exit(code)
    os._exit(code)


def _call(arguments: Sequence[str]) -> int:
    call = Invocation()
    try:
        result = app.main(list(arguments), prog_name="rowen", standalone_mode=False, obj=call)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as problem:  # noqa: BLE001 (the outermost edge: every error is reported)
        call.json = call.json or "--json" in arguments
        return _report(call, problem)
    return result if isinstance(result, int) else 0


def _report(call: Invocation, problem: Exception) -> int:
    if call.verbose > 1:
        print(clean("".join(traceback.format_exception(problem))), file=sys.stderr)
    match problem:
        case click.exceptions.NoArgsIsHelpError():
            problem.show()
            return problem.exit_code
        case click.UsageError():
            path = problem.ctx.command_path if problem.ctx else "rowen"
            return call.out.fail(problem.format_message(), hint=f"See `{path} --help`.", exit_code=problem.exit_code)
        case RowenError():
            return call.out.fail_with(problem)
        case OSError():
            return call.out.fail(str(problem), exit_code=1)
    return call.out.fail(
        f"Unexpected: {type(problem).__name__}: {problem}",
        hint="This is a bug in Rowen; the same command with -vv shows where. Committed data is kept.",
        exit_code=1,
    )
