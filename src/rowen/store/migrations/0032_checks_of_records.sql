-- What the last look at a record left is a hash and a recipe. It stands in the item, which is written when they differ; a
-- row of `item_check`, where there is one, counts in its stead: older ones, those of pages, and what was noted later.

alter table item add column body_hash bytea;
alter table item add column recipe bytea;
