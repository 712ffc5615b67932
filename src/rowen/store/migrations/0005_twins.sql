-- The marks by which the same dataset is recognised in several portals (model/twins.py): null for what is no dataset, and
-- for datasets that were stored before there were marks, which the next run of their source fills in.

alter table item add column twins bigint[];
-- A list of pending entries would be read through for each mark: after a harvest, a thousand times what a look-up costs.
create index item_twins on item using gin (twins) with (fastupdate = off) where twins is not null;
create index item_unmarked on item (source_id)
    where twins is null and media_type = 'application/vnd.rowen.dataset+json';
