"""The command `rowen`: its list of commands, and how a call ends."""

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
from rowen.interfaces.cli.words import clean
from rowen.version import __version__

__all__ = ["INTERRUPTED", "app", "main"]

# 128 and the number of SIGINT, as shells have it.
INTERRUPTED = 130

# More objects than the modules of a sync make, which are 107,000: to look through them takes 20 ms of its 400.
_OBJECTS_BETWEEN = 120_000

_SECTIONS = {
    "Start here": {
        "demo": ("demo", "See the whole thing at work on a small world, offline."),
    },
    "Keep a copy": {
        "add": ("sources", "Keep a copy of something from now on."),
        "apply": ("apply", "Make the sources be what a file declares."),
        "sync": ("sync", "Bring sources up to date; pay only for what changed."),
        "sources": ("sources", "List all sources."),
        "show": ("sources", "Show all that is known of one source."),
        "edit": ("sources", "Change a source's name, options or schedule, or what facts are extracted from it."),
        "pause": ("sources", "Leave a source out of sync until it is resumed."),
        "resume": ("sources", "Take a paused source in again."),
        "remove": ("sources", "Forget a source with all its items."),
    },
    "Look at it": {
        "search": ("search", "Find the items that answer best, by words and by meaning."),
        "get": ("items", "Print the text of one item, as Markdown."),
        "diff": ("items", "Show what changed between two texts of an item, by line and word, or in its record."),
        "history": ("items", "List all texts that an item had, or all facts."),
        "changes": ("changes", "Read the change log, or follow it."),
        "export": ("export", "Write a snapshot of all items into a new folder or to stdout, or of all facts."),
        "feed": ("feed", "Write the change log as a feed, or all datasets as a catalog."),
        "announced": ("announced", "List the documents that a feed announced, with their jobs and outcomes."),
        "statements": ("statements", "Take what pages state in RDFa elsewhere: show, dump, deltas, keep, push."),
        "webhooks": ("webhooks", "List who is called when something changes; add, pause, replay."),
        "notify": ("notify", "List people who are told of changes, by mail or chat; add, pause."),
        "saved": ("saved", "List searches that are followed, and see what newly matches."),
    },
    "Extract facts": {
        "extract": ("extract", "Read facts from a page as JSON, or from what changed in a source."),
        "evaluate": ("evaluate", "Compare models on pages of yours: valid, right, grounded, fast, cheap."),
        "schema": ("schema", "Keep the schemas that facts are extracted as."),
        "costs": ("extract", "Show what paid calls cost, and what was avoided."),
    },
    "Let others ask": {
        "mcp": ("mcp", "Answer an assistant on standard input and output (Model Context Protocol)."),
    },
    "Let it run by itself": {
        "serve": ("serve", "Answer over HTTP, and keep everything fresh, until told to stop."),
        "token": ("token", "Make, list and revoke the tokens by which others may ask the server."),
        "worker": ("worker", "Keep everything fresh: do what is due, until told to stop."),
        "poke": ("push", "Say that something changed: a worker looks at it before all that is due."),
        "push": ("push", "List subscriptions to hubs; subscribe, unsubscribe, show what senders sign with."),
        "jobs": ("jobs", "List what waits and what was done, newest first; cancel, retry, pause, resume."),
    },
    "Look after it": {
        "embed": ("embed", "Make the vectors that are missing, or those of another model."),
        "status": ("status", "Show how sources and database are doing."),
        "runs": ("runs", "List the last runs, newest first."),
        "cancel": ("runs", "End a live run early, whichever process it runs in."),
        "run": ("runs", "Show one run with its full statistics."),
        "quarantine": ("runs", "List what could not be read, and why."),
        "held": ("held", "List deletions that were held back, or decide about some."),
        "db": ("db", "Look at the database itself."),
        "completion": (
            "completion",
            "Print the script by which a shell completes commands, options, names of sources and kinds.",
        ),
        "circuits": ("circuits", "List services that are not called since they failed too often; reset them."),
        "doctor": ("doctor", "Check that everything works, and say what to do if not."),
    },
}


@click.version_option(__version__, message="rowen %(version)s")
def _app() -> None:
    """Keep a searchable copy of other people's things fresh, and pay only for what changed.

    `rowen sync ./folder` is enough to begin; then `rowen search "words"`.
    """


app = click.command(cls=LazyCommandGroup, name="rowen", sections=_SECTIONS)(_app)


def main() -> None:
    """Run the command and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal of another encoding shows what it can, and never ends a command.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    # What is imported stays: it is looked through for garbage in vain.
    gc.set_threshold(_OBJECTS_BETWEEN, *gc.get_threshold()[1:])
    code = _call(sys.argv[1:])
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process. What is left is freed with it; to take it apart first is a tenth of a short command."""
    gc.disable()
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon]
    if others or sys.gettrace() or sys.getprofile():
        sys.exit(code)
    try:
        atexit._run_exitfuncs()  # noqa: SLF001 (there is no public way to do now what is done at exit)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 (such as a pipe that nobody reads any more: the interpreter knows what to do)
        sys.exit(code)
    os._exit(code)


def _call(arguments: Sequence[str]) -> int:
    call = Invocation()
    try:
        answer = app.main(list(arguments), prog_name="rowen", standalone_mode=False, obj=call)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as problem:  # noqa: BLE001 (the outermost edge: whatever it is, it is told and not thrown)
        call.json = call.json or "--json" in arguments
        return _tell(call, problem)
    return answer if isinstance(answer, int) else 0


def _tell(call: Invocation, problem: Exception) -> int:
    if call.verbose > 1:
        print(clean("".join(traceback.format_exception(problem))), file=sys.stderr)
    match problem:
        case click.exceptions.NoArgsIsHelpError():
            problem.show()
            return problem.exit_code
        case click.UsageError():
            path = problem.ctx.command_path if problem.ctx else "rowen"
            return call.out.fail(
                problem.format_message(), hint=f"`{path} --help` shows how it is used.", exit_code=problem.exit_code
            )
        case RowenError():
            return call.out.fail_with(problem)
        case OSError():
            return call.out.fail(str(problem), exit_code=1)
    return call.out.fail(
        f"Unexpected: {type(problem).__name__}: {problem}",
        hint="What was committed is kept. This is a bug in Rowen; the same command with -vv shows where.",
        exit_code=1,
    )
