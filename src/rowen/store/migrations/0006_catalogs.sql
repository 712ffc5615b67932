-- What catalogs need beyond other sources: items that move to other addresses, and a fuller word on the last sync.

-- A source that gives all its records new identifiers moves its items: one line each, not a deletion and a creation.
alter table change drop constraint change_kind_check;
alter table change add constraint change_kind_check
    check (kind in ('created', 'updated', 'amended', 'deleted', 'moved'));
alter table change add column moved_from text;

drop view portal_sync_status;
create view portal_sync_status as
select source.name as portal,
       source.url as portal_url,
       (select max(started_at) from run where run.source_id = source.id and run.status = 'completed')
           as last_successful_sync,
       last.mode as last_sync_mode,
       last.status as sync_status,
       last.started_at as last_sync_started,
       (select count(*) from item where item.source_id = source.id) as datasets_synced,
       source.cursor as cursor,
       coalesce(last.finished_at, last.started_at) as updated_at
  from source
  left join lateral (select * from run where run.source_id = source.id order by id desc limit 1) last on true;
