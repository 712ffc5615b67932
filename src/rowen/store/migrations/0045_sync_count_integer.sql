-- `datasets_synced` is an integer, as in the harvesters whose word it is: a sum of `bigint` is `numeric`, which clients read
-- as a decimal number.
drop view portal_sync_status;
create view portal_sync_status as
select source.name as portal,
       source.url as portal_url,
       (select max(started_at) from run where run.source_id = source.id and run.status = 'completed')
           as last_successful_sync,
       last.mode as last_sync_mode,
       last.status as sync_status,
       last.started_at as last_sync_started,
       (select coalesce(sum(value::bigint), 0)::integer from jsonb_each_text(last.tally)
         where key in ('created', 'updated', 'amended', 'unchanged', 'failed', 'skipped')) as datasets_synced,
       (select count(*) from item where item.source_id = source.id) as datasets,
       source.cursor as cursor,
       coalesce(last.finished_at, last.started_at) as updated_at
  from source
  left join lateral (select * from run where run.source_id = source.id order by id desc limit 1) last on true;
