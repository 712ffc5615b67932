"""Announced documents become jobs: when they are due, one at a time, each of no more than its share."""

from contextlib import closing

from rowen.jobs.worker import TASKS
from tests.conftest import ScratchDatabase
from tests.jobs.conftest import Opened
from tests.portals.council import CouncilSite, Paper


async def test_a_backlog_becomes_jobs_of_a_share_each_and_every_document_names_its_job(
    yard: Opened, database: ScratchDatabase
) -> None:
    async with yard(host_delay_s=0) as y:
        with closing(CouncilSite()) as council:
            for number in range(5):
                council.publish(f"/p{number}", Paper(f"Paper {number}"))
            y.tasks.update(TASKS)
            await y.r.sync(council.feed)
            await y.r.sources.add(council.documents, name="papers", options={"job_urls": 2, "revisit": 0})
            await y.work(sync=4)

            told = await y.r.sources.announcements("papers")
            following = await y.r.sources.following("papers")
            source = await y.r.sources.get("papers")

    jobs = [one.job for one in told]
    assert [end.state for end in y.ends] == ["done"] * 3
    assert sorted(jobs.count(job) for job in set(jobs)) == [1, 2, 2]
    assert {one.outcome for one in told} == {"stored"}
    assert {(one.run, one.job) for one in told} == set(
        database.query("select id, job_id from run where job_id is not null")
    )
    assert following is not None
    assert (following.state, source.schedule) == ("following", "every 10min")
    assert source.due_at is not None
