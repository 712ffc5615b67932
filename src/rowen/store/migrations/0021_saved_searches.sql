-- Searches that somebody follows: which items match, and what newly does or no longer does. Every line of the log up to
-- `after` has been looked at.
create table saved_search (
    id         bigint generated always as identity primary key,
    name       text not null unique,
    query      text not null,
    sources    text[],
    after      bigint not null,
    created_at timestamptz not null default now()
);

create table saved_match (
    search_id bigint not null references saved_search on delete cascade,
    source_id bigint not null,
    key       bytea not null,
    primary key (search_id, source_id, key)
);

create table saved_news (
    id        bigint generated always as identity primary key,
    search_id bigint not null references saved_search on delete cascade,
    kind      text not null check (kind in ('matches', 'no longer matches')),
    number    bigint not null,
    source    text not null,
    url       text not null,
    title     text not null,
    at        timestamptz not null
);
create index saved_news_search on saved_news (search_id, id);
