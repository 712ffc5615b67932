-- What a record describes, beside the record: to look for it in records of 16 kB takes the server 50 µs each, since each
-- is unpacked whole, and a search that is narrowed down by it looks at thousands.

alter table item add column record_kind text generated always as (
    case when media_type = 'application/vnd.rowen.dataset+json' then coalesce(record ->> 'record_kind', 'dataset') end
) stored;
