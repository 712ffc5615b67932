-- Changes of statements as files that never change. Changes that were stored together have the number of their first one
-- (`file`) and one time, and times of files rise with their numbers, so that who asks for what came after a moment misses
-- nothing. `elsewhere` are those of `removed` that another page of the source still stated: in a graph of all pages they stay.
alter table statement_change
    add column file bigint,
    add column elsewhere text[] not null default '{}';
update statement_change
   set file = number,
       elsewhere = array(select line from unnest(removed) as gone (line)
                          where exists (select from item
                                         where item.source_id = statement_change.source_id and item.record ? 'rdfa'
                                           and item.record -> 'rdfa' -> 'statements' @> to_jsonb(array[gone.line])));
alter table statement_change alter column file set not null;
create index statement_change_at on statement_change (source_id, at);
create index statement_change_file on statement_change (file);

-- An endpoint that was told once (`once`) is told again when somebody asks; one that is kept (`active`) by workers. `headers`
-- say where its keys are found (env:NAME, file:/path), never what they are.
alter table statement_target
    add column id bigint generated always as identity unique,
    add column headers jsonb not null default '{}',
    add column state text not null default 'once' check (state in ('once', 'active', 'disabled')),
    add column failures integer not null default 0,
    add column failing_since timestamptz,
    add column next_try_at timestamptz,
    add column last_error text;
