-- Who is told when something changes: programs by signed calls (`webhook`), or people by messages (`notice`), whose `url` is
-- a reference to where it is found, since it holds logins. Every line of the log up to `after` was delivered, or is none of this receiver's
-- business; `ahead` are later ones that were delivered before one that failed. `secrets` are references to where secrets
-- are found (env:NAME, file:/path), never secrets: the newest first, and while it is changed the one before as well.
create table webhook (
    id            bigint generated always as identity primary key,
    name          text not null unique,
    form          text not null default 'webhook' check (form in ('webhook', 'notice')),
    url           text not null,
    secrets       text[] not null,
    sources       text[],
    kinds         text[],
    query         text,
    after         bigint not null,
    ahead         bigint[] not null default '{}',
    state         text not null default 'active' check (state in ('active', 'paused', 'disabled')),
    failures      integer not null default 0,
    failing_since timestamptz,
    next_try_at   timestamptz,
    last_error    text,
    created_at    timestamptz not null default now()
);

-- What became of each call, for a while.
create table delivery (
    id         bigint generated always as identity primary key,
    webhook_id bigint not null references webhook on delete cascade,
    number     bigint not null,
    at         timestamptz not null default now(),
    status     integer,
    error      text,
    seconds    real not null
);
create index delivery_webhook on delivery (webhook_id, id);
