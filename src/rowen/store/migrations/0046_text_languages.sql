-- The language that a text is analysed in: of an item, the declared one unless it is plainly wrong, else the detected
-- one; of a passage, only if it is another one. Items of earlier versions are analysed again with their passages.

alter table item add column text_language text;
update item set text_language = language where language is not null;
create index item_text_language on item (text_language);
drop index item_language;

alter table chunk add column language text;
create index chunk_language on chunk (language) where language is not null;

-- The configurations by which stored passages are indexed, by a loose scan of both indexes.
create or replace function text_configs() returns setof regconfig
language sql stable as $$
    with recursive of_item(code) as (
        (select text_language from item where text_language is not null order by text_language limit 1)
        union all
        select (select item.text_language from item where item.text_language > of_item.code
                 order by item.text_language limit 1)
          from of_item where of_item.code is not null
    ), of_passage(code) as (
        (select language from chunk where language is not null order by language limit 1)
        union all
        select (select chunk.language from chunk where chunk.language > of_passage.code
                 order by chunk.language limit 1)
          from of_passage where of_passage.code is not null
    )
    select text_config(null)
    union select text_config(code) from of_item where code is not null
    union select text_config(code) from of_passage where code is not null
$$;
