-- How often somebody chose from which number on a receiver is told, or had all items of a source looked at again: what was
-- begun before such a choice must not move the position that was chosen.
alter table webhook add column replays integer not null default 0;
alter table source_schema add column replays integer not null default 0;
