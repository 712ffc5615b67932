-- Structured facts: schemas, which source carries which, what was extracted from items, and the answers that were paid
-- for, kept by what they were an answer to.

-- A version of a schema never changes. `definition` keeps the order in which its author wrote the fields.
create table schema (
    id         bigint generated always as identity primary key,
    name       text not null,
    version    text not null,
    number     integer[] not null,
    definition json not null,
    hash       bytea not null,
    bundled    boolean not null default false,
    created_at timestamptz not null default now(),
    unique (name, version)
);

-- A source carries schemas. Its items are extracted up to the number `extracted_to` of the change log; lines after it are
-- the work-list. `rules` say where single fields stand in a page, and who made them; `only_urls` are patterns of the items that
-- are meant, if not all; `waits_for` says why nothing goes on.
create table source_schema (
    source_id    bigint not null references source on delete cascade,
    name         text not null,
    schema_id    bigint not null references schema,
    extracted_to bigint not null default 0,
    grounding    text not null default 'warn' check (grounding in ('off', 'warn', 'null', 'fail')),
    learns       boolean not null default false,
    rules        jsonb not null default '{}',
    conditions   text[] not null default '{}',
    only_urls    text[] not null default '{}',
    waits_for    text,
    waits_until  timestamptz,
    waits_code   text,
    primary key (source_id, name)
);

-- What a model answered, once it was found valid: whoever asks the same again is given this. The key is over the exact
-- text, the schema, provider, address and model, and the versions of prompt and cleaner.
create table answer (
    key             bytea primary key,
    data            json not null,
    evidence        jsonb,
    model           text not null,
    calls           integer not null,
    tokens_sent     bigint not null,
    tokens_received bigint not null,
    usd             double precision,
    at              timestamptz not null default now()
);

-- Versions of what an item yields under a schema: one for each time that the data differs. The lineage goes by the name of
-- the schema, so that a new version of it does not split the history.
create table extraction (
    id         bigint generated always as identity primary key,
    source_id  bigint not null references source on delete cascade,
    key        bytea not null,
    url        text not null,
    name       text not null,
    number     integer not null,
    schema_id  bigint not null references schema,
    data       json not null,
    data_hash  bytea not null,
    diff       jsonb not null,
    evidence   jsonb,
    origin     text not null check (origin in ('model', 'structured', 'rules')),
    model      text,
    at         timestamptz not null default now(),
    unique (source_id, key, name, number)
);
create index extraction_key on extraction (key, name);

-- The state of each lineage: which version is in force, since when it was found again and again (`checks` times), up to
-- which line of the change log it was looked at. Narrow, since each look may write it.
create table extraction_check (
    source_id     bigint not null references source on delete cascade,
    key           bytea not null,
    name          text not null,
    extraction_id bigint references extraction on delete cascade,
    change        bigint not null default 0,
    state         text not null check (state in ('current', 'failed', 'gone')),
    answer_key    bytea,
    checks        integer not null default 0,
    avoided       bigint not null default 0,
    tries         integer not null default 0,
    error         text,
    error_code    text,
    checked_at    timestamptz not null default now(),
    primary key (source_id, key, name)
) with (fillfactor = 50);
create index extraction_check_current on extraction_check (extraction_id) where state = 'current';

-- What was not paid, because it was not needed: by day, source and schema.
create table avoided_call (
    day       date not null,
    source_id bigint,
    name      text not null,
    reason    text not null,
    calls     bigint not null,
    tokens    bigint not null,
    usd       double precision not null,
    unique nulls not distinct (day, source_id, name, reason)
);

-- The log tells of new versions, with what differs, and of conditions that have come true.
alter table change add column schema text;
alter table change add column diff jsonb;
alter table change drop constraint change_kind_check;
alter table change add constraint change_kind_check
    check (kind in ('created', 'updated', 'amended', 'deleted', 'moved', 'failing', 'recovered', 'extracted', 'matched'));

-- Which schema a call was for, so that costs can be told apart.
alter table provider_call add column subject text;
