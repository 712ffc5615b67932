-- What a connector remembers beside its cursor: too much to be written with each checkpoint, and read by name. A page of
-- a feed that never changes, an object that was deleted. It belongs to the cursor, and goes when that does.
create table source_note (
    source_id bigint not null references source on delete cascade,
    room      text not null,
    key       bytea not null check (length(key) = 32),
    name      text not null,
    value     jsonb not null,
    primary key (source_id, room, key)
);
