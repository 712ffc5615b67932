-- What is new since a source was last seen whole: all items above the greatest id that there was when that run ended.
-- A run that is closed writes its row anyway, so that an unchanged source costs nothing more.

alter table run add column last_item bigint;
update run set last_item = (select max(item.id) from item
                             where item.source_id = run.source_id and item.created_at <= run.finished_at)
 where id in (select max(id) from run where complete group by source_id);

-- Deletions that were held back, one by one: since which run an item is missing, and whether somebody wants it kept. A row
-- goes with its item, or when the item is seen again. How many there are is counted, no longer noted on the source; what
-- had vanished before is noted by the next run that sees its source whole.

create table item_held (
    item_id   bigint primary key references item on delete cascade,
    source_id bigint not null references source on delete cascade,
    run_id    bigint not null,
    at        timestamptz not null default now(),
    kept_at   timestamptz
);
create index item_held_source on item_held (source_id);
insert into item_held (item_id, source_id, run_id, at)
select item_id, source_id, coalesce((select max(id) from run where run.source_id = item_gone.source_id), 0), at
  from item_gone;
alter table source drop column deletions_held;

-- The last copies of items that were deleted, with the texts that they had before (`revisions`): to be looked at for a
-- while, and to go on from should they return. Nothing but `get`, `history` and `diff` reads them.

create table withdrawn (
    item_id      bigint primary key,
    source_id    bigint not null references source on delete cascade,
    key          bytea not null,
    url          text not null,
    title        text not null,
    text         text not null,
    tags         text[] not null,
    record       jsonb not null,
    content_hash bytea not null,
    record_hash  bytea not null,
    language     text,
    media_type   text,
    remarks      text,
    revision     integer not null,
    revisions    jsonb not null,
    created_at   timestamptz not null,
    updated_at   timestamptz not null,
    at           timestamptz not null default now(),
    unique (source_id, key)
);
create index withdrawn_key on withdrawn (key);
create index withdrawn_age on withdrawn (source_id, at);
