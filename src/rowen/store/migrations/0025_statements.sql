-- How the statements of pages changed: under the number of the line in the change log that says so. The present
-- statements stand in the records of items.
create table statement_change (
    number    bigint primary key,
    source_id bigint not null,
    source    text not null,
    run_id    bigint,
    page      text not null,
    added     text[] not null,
    removed   text[] not null,
    kept      integer not null,
    at        timestamptz not null default now()
);
create index statement_change_number on statement_change (source_id, number);
create index statement_change_source on statement_change (source, source_id);

-- Which pages state something, so that what one page no longer states is not taken from those that still do.
create index item_statements on item using gin ((record -> 'rdfa' -> 'statements') jsonb_path_ops)
 where record ? 'rdfa';

-- Up to which number an endpoint was told what a source states.
create table statement_target (
    source_id bigint not null references source on delete cascade,
    endpoint  text not null,
    graph     text not null,
    number    bigint not null,
    at        timestamptz not null default now(),
    primary key (source_id, endpoint, graph)
);

-- Which run left a note: what became of an announced document is told with its run and its job.
alter table source_note add column run_id bigint;
