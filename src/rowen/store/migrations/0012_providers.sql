-- What paid calls cost, one row an attempt. No key, no input and no answer is ever in here. Rows outlive their source and
-- run, so that what was spent today stays true; they are pruned by age.

create table provider_call (
    id              bigint generated always as identity primary key,
    at              timestamptz not null,
    purpose         text not null,
    provider        text not null,
    model           text not null,
    inputs          integer not null,
    tokens_sent     bigint not null,
    tokens_received bigint not null,
    usd             double precision,
    latency_s       real not null,
    result          text not null,
    status          smallint,
    run_id          bigint,
    source_id       bigint
);
create index provider_call_at on provider_call (at);
create index provider_call_run on provider_call (run_id) where run_id is not null;
create index provider_call_source on provider_call (source_id, at) where source_id is not null;
