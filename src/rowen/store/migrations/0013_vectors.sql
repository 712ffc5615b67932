-- A text that is longer than a model reads at a time has several vectors, one for each part of it. The first is part 0.

alter table embedding add column part smallint not null default 0;
alter table embedding drop constraint embedding_pkey;
alter table embedding add primary key (model_id, text_hash, part);

-- What an item is called has a vector of its own, so that a new title costs one input and not one a passage.
create function title_words(title text, tags text[], record jsonb, media_type text) returns text
language sql stable parallel safe as $$
    select concat_ws(E'\n', nullif(title, ''), nullif(array_to_string(tags, ', '), ''),
                     case when media_type = 'application/vnd.rowen.dataset+json' then nullif(record ->> 'publisher', '') end)
$$;

-- Its number comes from those of the passages: up to where all have vectors is said by one number for both.
create table item_title (
    item_id   bigint primary key references item on delete cascade,
    id        bigint not null default nextval('chunk_id_seq'),
    text_hash bytea not null
);
create unique index item_title_id on item_title (id);
create index item_title_text_hash on item_title (text_hash);

insert into item_title (item_id, text_hash)
select id, sha256(convert_to(words, 'UTF8'))
  from item cross join lateral title_words(title, tags, record, media_type) words
 where words <> '' order by id;

-- All that has a vector, by the hash of its words.
create view embeddable as
select id, item_id, text_hash from chunk
union all
select id, item_id, text_hash from item_title;
