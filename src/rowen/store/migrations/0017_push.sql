-- Push: subscriptions of sources to hubs, and deliveries that were taken.

-- No secret stands here: those of subscriptions are derived from a key in the settings, and of the callback address, which
-- nobody can guess, only the hash is kept.
create table push_subscription (
    source_id     bigint primary key references source on delete cascade,
    topic         text not null,
    hub           text not null,
    callback_hash bytea not null unique,
    state         text not null check (state in ('pending', 'active', 'denied', 'ending')),
    asked_at      timestamptz not null,
    expires_at    timestamptz,
    renew_at      timestamptz,
    error         text
) with (fillfactor = 50);
create index push_subscription_renewal on push_subscription (renew_at);

-- What was taken from whom: a delivery counts once, and no sender comes too often.
create table push_delivery (
    sender   text not null,
    delivery text not null,
    at       timestamptz not null default now(),
    primary key (sender, delivery)
);
create index push_delivery_at on push_delivery (sender, at);
