-- Vectors by the text that they stand for: a text is paid for once, wherever and whenever it turns up.
--
-- All models share one table; each has an HNSW index of its own, which casts to the model's dimensions and is made after a
-- load rather than before it. Search uses the active model; one that is building is filled beside it.

-- `name` is what vectors are equal under; `kind`, `model`, `wanted` and `url` are how to call it again. `dimensions` are
-- known with the first vector. Every passage whose id is at most `covered_to` has its vector or was refused.
create table embedding_model (
    id         smallint generated always as identity primary key,
    name       text not null unique,
    kind       text not null,
    model      text,
    wanted     integer,
    url        text,
    dimensions integer check (dimensions between 1 and 4000),
    weight     real not null default 1,
    state      text not null default 'building' check (state in ('active', 'building', 'retired')),
    covered_to bigint not null default 0,
    trouble    jsonb,
    created_at timestamptz not null default now()
);
create unique index embedding_model_active on embedding_model (state) where state = 'active';

create table embedding (
    model_id  smallint not null references embedding_model on delete cascade,
    text_hash bytea not null,
    vector    halfvec not null,
    primary key (model_id, text_hash)
);
-- A vector of 384 halves is 776 bytes: compressing it gains nothing, and a search reads it whole.
alter table embedding alter column vector set storage plain;

-- Texts that the embedder will not take; they wait for nobody.
create table embedding_refused (
    model_id  smallint not null references embedding_model on delete cascade,
    text_hash bytea not null,
    error     text not null,
    at        timestamptz not null default now(),
    primary key (model_id, text_hash)
);

-- Vectors whose text no passage has any more, since when; apart from the vectors, whose rows are never rewritten.
create table embedding_unused (
    model_id  smallint not null references embedding_model on delete cascade,
    text_hash bytea not null,
    since     timestamptz not null default now(),
    primary key (model_id, text_hash)
);

-- What was asked before: a question costs its vector once, too.
create table query_embedding (
    model_id  smallint not null references embedding_model on delete cascade,
    text_hash bytea not null,
    vector    halfvec not null,
    at        timestamptz not null default now(),
    primary key (model_id, text_hash)
);
