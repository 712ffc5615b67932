-- How rare words are is counted exactly: what changes among the passages is noted here, and added to the counts at the end
-- of a run, so that they depend on what there is and not on how it came about.
--
-- `tsv` is what a passage had before the change, null if there was none. The first change of a passage since the last count
-- and what it has now make the difference. The notes are a part of the transaction that changes the passages. Who stores new
-- ones notes them in the same statement: a trigger would have all of them copied first.
create table term_change (
    number    bigint generated always as identity,
    chunk_id  bigint not null,
    text_hash bytea,
    tsv       tsvector
);

create function note_old_passages() returns trigger language plpgsql as $$
begin
    insert into term_change (chunk_id, text_hash, tsv) select id, text_hash, tsv from old_ones;
    return null;
end $$;

create function note_changed_passages() returns trigger language plpgsql as $$
begin
    insert into term_change (chunk_id, text_hash, tsv)
    select old_ones.id, old_ones.text_hash, old_ones.tsv from old_ones join fresh using (id)
     where (old_ones.text_hash, old_ones.tsv) is distinct from (fresh.text_hash, fresh.tsv);
    return null;
end $$;

create trigger term_change_delete after delete on chunk referencing old table as old_ones
    for each statement execute function note_old_passages();
create trigger term_change_update after update on chunk referencing old table as old_ones new table as fresh
    for each statement execute function note_changed_passages();

-- Where there are many passages, those are counted whose text hash begins with `halvings` zero bits: the same ones, whoever
-- counts. `counted` is how many they are, `lengths` how many words they have together. Null is not counted yet.
alter table term_count drop column written,
    add column halvings smallint,
    add column counted bigint not null default 0,
    add column lengths bigint not null default 0;
