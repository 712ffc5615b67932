-- Sources, runs, items with their checks, passages and revisions, the change log, the quarantine.
--
-- `item` is wide and written only when something differs; what every look may move (validators, links, depth)
-- stands in the narrow `item_check`. Vectors will live in a table of their own, keyed by (model, text_hash).

create table source (
    id          bigint generated always as identity primary key,
    name        text not null unique,
    kind        text not null,
    url         text not null,
    options     jsonb not null default '{}',
    schedule    text,
    state       text not null default 'active' check (state in ('active', 'paused')),
    cursor      jsonb,
    deletions_held bigint not null default 0,
    created_at  timestamptz not null default now()
);

create table run (
    id          bigint generated always as identity primary key,
    source_id   bigint not null references source on delete cascade,
    mode        text not null check (mode in ('full', 'incremental')),
    status      text not null default 'running'
                check (status in ('running', 'completed', 'partial', 'cancelled', 'failed')),
    complete    boolean not null default false,
    started_at  timestamptz not null default now(),
    finished_at timestamptz,
    lease_until timestamptz,
    tally       jsonb not null default '{}',
    error       text
);
create unique index run_live on run (source_id) where status = 'running';
create index run_history on run (source_id, id desc);

create table item (
    id           bigint generated always as identity primary key,
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
    chunker      smallint not null,
    revision     integer not null default 1,
    created_at   timestamptz not null default now(),
    updated_at   timestamptz not null default now(),
    unique (source_id, key)
);
create index item_key on item (key);
create index item_language on item (language);

-- `recipe` says by which options and readers an item was read: under another one its validators prove nothing.
-- `links` holds one URL a line.
create table item_check (
    item_id       bigint primary key references item on delete cascade,
    run_id        bigint not null,
    checked_at    timestamptz not null default now(),
    recipe        bytea not null,
    etag          text,
    last_modified text,
    body_hash     bytea,
    depth         integer not null default 0,
    links         text not null default ''
) with (fillfactor = 50);

-- Positions leave gaps, so that a new passage between two others moves neither of them.
create table chunk (
    id        bigint generated always as identity primary key,
    item_id   bigint not null references item on delete cascade,
    position  bigint not null,
    heading   text[] not null,
    anchor    text,
    text      text not null,
    text_hash bytea not null,
    tsv       tsvector not null
);
create index chunk_item on chunk (item_id, position);
create index chunk_text_hash on chunk (text_hash);
create index chunk_tsv on chunk using gin (tsv);

-- Superseded texts only: the text in force stands in `item`, and is the revision that its number says.
create table revision (
    item_id      bigint not null references item on delete cascade,
    number       integer not null,
    content_hash bytea not null,
    title        text not null,
    text         text not null,
    tags         text[] not null,
    at           timestamptz not null,
    primary key (item_id, number)
);

create table change (
    number       bigint primary key,
    source_id    bigint not null,
    source       text not null,
    run_id       bigint,
    key          bytea not null,
    kind         text not null check (kind in ('created', 'updated', 'amended', 'deleted')),
    url          text not null,
    title        text not null,
    content_hash bytea,
    record_hash  bytea,
    at           timestamptz not null default now()
);
create index change_source on change (source_id, number);
create index change_at on change (at);

create table quarantine (
    source_id bigint not null references source on delete cascade,
    key       bytea not null,
    url       text not null,
    error     text not null,
    hint      text,
    payload   bytea,
    tries     integer not null default 1,
    first_at  timestamptz not null default now(),
    last_at   timestamptz not null default now(),
    primary key (source_id, key)
);

-- The text-search configuration of a language: English where none is known, `simple` where there is no stemmer.
create function text_config(language text) returns regconfig
language sql immutable parallel safe as $$
    select case lower(split_part(replace(coalesce(language, 'en'), '_', '-'), '-', 1))
        when 'ar' then 'arabic' when 'ca' then 'catalan' when 'da' then 'danish' when 'de' then 'german'
        when 'el' then 'greek' when 'en' then 'english' when 'es' then 'spanish' when 'eu' then 'basque'
        when 'fi' then 'finnish' when 'fr' then 'french' when 'ga' then 'irish' when 'hi' then 'hindi'
        when 'hu' then 'hungarian' when 'hy' then 'armenian' when 'id' then 'indonesian' when 'it' then 'italian'
        when 'lt' then 'lithuanian' when 'nb' then 'norwegian' when 'ne' then 'nepali' when 'nl' then 'dutch'
        when 'nn' then 'norwegian' when 'no' then 'norwegian' when 'pt' then 'portuguese' when 'ro' then 'romanian'
        when 'ru' then 'russian' when 'sr' then 'serbian' when 'sv' then 'swedish' when 'ta' then 'tamil'
        when 'tr' then 'turkish' when 'yi' then 'yiddish'
        else 'simple' end::regconfig
$$;

-- What a passage is found by: its item's title and its headings weigh more than its text.
create function passage_tsv(language text, title text, heading text[], body text) returns tsvector
language sql immutable parallel safe as $$
    select setweight(to_tsvector(text_config(language), title), 'A')
        || setweight(to_tsvector(text_config(language), array_to_string(heading, ' ')), 'B')
        || setweight(to_tsvector(text_config(language), body), 'D')
$$;

-- The last sync of each source, in the words of the portals' harvesters.
create view portal_sync_status as
select source.url as portal_url,
       (select max(started_at) from run where run.source_id = source.id and run.status = 'completed')
           as last_successful_sync,
       last.mode as last_sync_mode,
       last.status as sync_status,
       (select count(*) from item where item.source_id = source.id) as datasets_synced,
       coalesce(last.finished_at, last.started_at) as updated_at
  from source
  left join lateral (select * from run where run.source_id = source.id order by id desc limit 1) last on true;
