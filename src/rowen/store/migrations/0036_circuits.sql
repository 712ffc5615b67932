-- Circuits that are not closed, of all processes: each writes its own when one opens, opens again or closes, never per
-- call. A row goes with its process, or when that has been silent for its lease. Losing all of them in a crash of the
-- server costs a look: each process writes its own again.

create unlogged table circuit (
    process text not null,
    kind text not null,
    name text not null,
    place text not null,
    failures integer not null,
    times_opened integer not null,
    opened_at timestamptz not null,
    probe_at timestamptz not null,
    expires_at timestamptz not null,
    -- How often somebody wanted it to be reset: the process compares it with the number that it has seen.
    resets integer not null default 0,
    primary key (process, kind, name)
);
