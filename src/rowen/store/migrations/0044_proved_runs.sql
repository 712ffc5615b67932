-- A run that read only what changed, and whose source proved by its count that all else is there and unchanged. It moves
-- `checked_at` of all items of the source without a row of each; what a complete run alone may do (delete, publish as
-- complete) it may not.
alter table run add column proved boolean not null default false;
