-- Which sources list datasets, and how many: what a catalog of all is made of, found without passing over all that is no
-- dataset. Equal values stand there once, so that a dataset takes some 7 bytes, and nothing else is written to it.

create index item_dataset on item (source_id) where media_type = 'application/vnd.rowen.dataset+json';

-- How many items match a saved search, kept where matches are written: a search for a common word matches a million.
alter table saved_search add column matches bigint not null default 0;
update saved_search set matches = (select count(*) from saved_match where search_id = saved_search.id);
