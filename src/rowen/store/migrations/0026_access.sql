-- Who may ask the server, what they changed through it, and the answers that a repeated request is given again.

create table access_token (
    id           bigint generated always as identity primary key,
    name         text not null unique,
    -- SHA-256 of the token: it has 256 random bits, so that nothing slower is needed.
    hash         bytea not null unique,
    scope        text not null check (scope in ('read', 'write', 'admin')),
    created_at   timestamptz not null default now(),
    expires_at   timestamptz,
    last_used_at timestamptz
);

-- What a browser has instead of a token. One that was made from a token ends with it.
create table access_session (
    hash       bytea primary key,
    token_id   bigint references access_token (id) on delete cascade,
    name       text not null,
    scope      text not null check (scope in ('read', 'write', 'admin')),
    created_at timestamptz not null default now(),
    expires_at timestamptz not null
);
create index access_session_expires_at on access_session (expires_at);
create index access_session_token_id on access_session (token_id);

create table audit_log (
    id        bigint generated always as identity primary key,
    at        timestamptz not null default now(),
    principal text not null,
    address   text,
    method    text not null,
    path      text not null,
    status    integer not null,
    request   text not null
);

-- `status` is null while the first request is under way.
create table idempotent_answer (
    principal   text not null,
    key         text not null,
    fingerprint bytea not null,
    status      integer,
    headers     jsonb,
    body        bytea,
    created_at  timestamptz not null default now(),
    primary key (principal, key)
);
create index idempotent_answer_created_at on idempotent_answer (created_at);
