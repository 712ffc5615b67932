-- What its source says is gone, until the guard has decided about all of a run's deletions. A mark is written in the
-- transaction that moves the cursor past the source's word, so that neither a crash nor a deletion that is held back
-- forgets it; it goes with the item, or when the item is seen again.

create table item_gone (
    item_id   bigint primary key references item on delete cascade,
    source_id bigint not null references source on delete cascade,
    at        timestamptz not null default now()
);
create index item_gone_source on item_gone (source_id);
