-- How often sources and pages change, as far as looks have told (model/change_rate.py): gamma distributions of the rate
-- of changes, each by its shape and its span.

-- A row for each source that was seen whole: when that was last, how its items change, how many there are, and what a
-- look at all of it costs. Written when a run is settled; nothing is written for single items.
create table source_freshness (
    source_id bigint primary key references source on delete cascade,
    looked_at timestamptz not null,
    shape     double precision not null,
    span_s    double precision not null,
    items     bigint not null,
    requests  double precision not null
) with (fillfactor = 50);

-- Pages of large sites that were seen to change, which are looked at between two walks. A page that never changed has no
-- row. `looked_at` is up to when the rest tells; walks since then have found it unchanged.
create table item_change_rate (
    item_id   bigint primary key references item on delete cascade,
    source_id bigint not null,
    looked_at timestamptz not null,
    shape     double precision not null,
    span_s    double precision not null
) with (fillfactor = 50);
create index item_change_rate_source on item_change_rate (source_id);

-- One row: what a request must save, in seconds of staleness, so that the requests of a day are enough for all.
create table refresh_price (
    only_one boolean primary key default true check (only_one),
    price_s  double precision not null,
    stretch  double precision not null,
    at       timestamptz not null default now()
);

-- What was spent in the last day.
create index run_started on run (started_at);

-- The share of the items of a source that are expected to be stale at this moment. A page with a rate of its own counts
-- with that, and walks since its own look have found it unchanged; all others count by the rate of the source.
create view source_stale as
select known.source_id,
       (greatest(0, known.items - pages.number)
            * (1 - power(1 + extract(epoch from now() - known.looked_at)::float8 / known.span_s, -known.shape))
        + pages.stale) / greatest(1, known.items, pages.number) as stale
  from source_freshness known
  cross join lateral (
       select count(*)::float8 as number,
              coalesce(sum(1 - power(1 + extract(epoch from now() - greatest(page.looked_at, known.looked_at))::float8
                  / (page.span_s + greatest(0, extract(epoch from known.looked_at - page.looked_at))::float8),
                  -page.shape)), 0) as stale
         from item_change_rate page where page.source_id = known.source_id) as pages;
