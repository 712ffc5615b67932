-- Lists that begin in the middle of millions of rows: lines of the log by source, kind and run, and facts by schema,
-- source and address. Each line of the log is written once and takes some 20 bytes in each index, since equal values stand
-- there once; without them a rare kind, or a small source, is looked for through the whole log.

create index change_source_name on change (source, number);
create index change_kind on change (kind, number);
create index change_run on change (run_id, number) where run_id is not null;
create index extraction_listing on extraction (name collate "C", source_id, url collate "C");

-- The same shares as before, with the pages of all sources summed up at once: where one source has most of the pages, the
-- planner would otherwise read them all for each source.
create or replace view source_stale as
select known.source_id,
       (greatest(0, known.items - coalesce(pages.number, 0))
            * (1 - power(1 + extract(epoch from now() - known.looked_at)::float8 / known.span_s, -known.shape))
        + coalesce(pages.stale, 0)) / greatest(1, known.items, coalesce(pages.number, 0)) as stale
  from source_freshness known
  left join (
       select page.source_id, count(*)::float8 as number,
              coalesce(sum(1 - power(1 + extract(epoch from now() - greatest(page.looked_at, whole.looked_at))::float8
                  / (page.span_s + greatest(0, extract(epoch from whole.looked_at - page.looked_at))::float8),
                  -page.shape)), 0) as stale
         from item_change_rate page join source_freshness whole on whole.source_id = page.source_id
        group by page.source_id) as pages on pages.source_id = known.source_id;
