-- The queue, and when each source is to be looked at again. The tables of the queue itself are Procrastinate's, made from
-- its own files right before this step (see queue_schema.py).

-- When a source is due. It has a row if it has a schedule, or if its last runs failed: `failures` in a row, and since when
-- it has been called failing. `due_at` is null where only somebody who asks makes it due.
create table source_due (
    source_id     bigint primary key references source on delete cascade,
    due_at        timestamptz,
    failures      integer not null default 0,
    failing_since timestamptz
) with (fillfactor = 50);
create index source_due_next on source_due (due_at);

-- How a run ended, for programs: the code of its error, when the source may be asked again, and the job that it was for.
alter table run add column error_code text;
alter table run add column retry_at timestamptz;
alter table run add column job_id bigint;
create index run_job on run (job_id) where job_id is not null;

-- What the queue does not keep: why a job failed or waits, and how often it had to wait without a try being counted.
create table job_note (
    job_id     bigint primary key references procrastinate_jobs on delete cascade,
    error      text not null,
    error_code text,
    waits      integer not null default 0,
    at         timestamptz not null default now()
);

-- Who works here; a row goes with its worker.
create table worker (
    id         bigint primary key references procrastinate_workers on delete cascade,
    host       text not null,
    pid        integer not null,
    version    text not null,
    places     jsonb not null,
    started_at timestamptz not null default now()
);

-- One row while the queue is paused.
create table queue_pause (
    only_one boolean primary key default true check (only_one),
    at       timestamptz not null default now()
);

-- A job that ends or is put off may free a lock that another one waits for, and one that is put off may begin at once:
-- workers are told, so that nobody has to ask every few seconds.
create function queue_freed() returns trigger language plpgsql as $$
begin
    perform pg_notify('procrastinate_queue_v1#' || queue_name,
                      json_build_object('type', 'job_inserted', 'job_id', id)::text)
       from procrastinate_jobs
      where status = 'todo' and lock = new.lock and (scheduled_at is null or scheduled_at <= now())
      limit 1;
    return null;
end;
$$;
create trigger queue_freed after update of status on procrastinate_jobs
    for each row when (old.status = 'doing' and new.status <> 'doing' and new.lock is not null)
    execute function queue_freed();

-- A source that fails again and again, and one that does so no longer, are told of in the log.
alter table change drop constraint change_kind_check;
alter table change add constraint change_kind_check
    check (kind in ('created', 'updated', 'amended', 'deleted', 'moved', 'failing', 'recovered'));

-- Sources that had a schedule which nothing read are due at once.
insert into source_due (source_id, due_at) select id, now() from source where schedule is not null;
