"""`rowen apply` says once who keeps to schedules."""

from tests.cli.conftest import Cli

ENTRY = '[[source]]\nname = "{}"\nurl = "https://{}.example/data.json"\nkind = "datajson"\n{}\n'
NOTICE = "`rowen worker` keeps the schedules while it runs."


def test_apply_mentions_the_worker_once_for_schedules(cli: Cli) -> None:
    cli.write({"plain.toml": ENTRY.format("hay", "hay", "")})
    cli.write({"timed.toml": ENTRY.format("oats", "oats", 'every = "1d"') + ENTRY.format("rye", "rye", 'every = "6h"')})

    plain = cli("apply", "plain.toml")
    timed = [cli("apply", "timed.toml", *more) for more in (["--dry-run"], [], [])]

    assert "Schedules" not in plain.err
    assert [done.err.splitlines().count(NOTICE) for done in timed] == [1, 1, 1]
    assert [done.err.splitlines()[-1] for done in timed] == [NOTICE] * 3
    assert cli("apply", "timed.toml", "--quiet").err == ""
    assert "every 1d" in cli("show", "oats").out


def test_a_cron_expression_that_makes_no_sense_is_refused(cli: Cli) -> None:
    cli.write({"portals.toml": ENTRY.format("hay", "hay", 'cron = "99 99 99 99 99"')})

    done = cli("apply", "portals.toml")

    assert done.code == 2
    assert "entry 1 (hay): cron = '99 99 99 99 99' is not a schedule: bad minute." in done.err
    assert cli("sources").out == ""
