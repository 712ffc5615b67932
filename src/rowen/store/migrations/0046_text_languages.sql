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

-- As before; the stemmer for Serbian is made for Croatian and Bosnian as well.
create or replace function text_config(language text) returns regconfig
language sql immutable parallel safe as $$
    select case lower(split_part(replace(coalesce(language, 'en'), '_', '-'), '-', 1))
        when 'en' then 'pg_catalog.english'::regconfig when 'ar' then 'pg_catalog.arabic'::regconfig
        when 'bs' then 'pg_catalog.serbian'::regconfig when 'ca' then 'pg_catalog.catalan'::regconfig
        when 'da' then 'pg_catalog.danish'::regconfig when 'de' then 'pg_catalog.german'::regconfig
        when 'el' then 'pg_catalog.greek'::regconfig when 'es' then 'pg_catalog.spanish'::regconfig
        when 'eu' then 'pg_catalog.basque'::regconfig when 'fi' then 'pg_catalog.finnish'::regconfig
        when 'fr' then 'pg_catalog.french'::regconfig when 'ga' then 'pg_catalog.irish'::regconfig
        when 'hi' then 'pg_catalog.hindi'::regconfig when 'hr' then 'pg_catalog.serbian'::regconfig
        when 'hu' then 'pg_catalog.hungarian'::regconfig when 'hy' then 'pg_catalog.armenian'::regconfig
        when 'id' then 'pg_catalog.indonesian'::regconfig when 'it' then 'pg_catalog.italian'::regconfig
        when 'lt' then 'pg_catalog.lithuanian'::regconfig when 'nb' then 'pg_catalog.norwegian'::regconfig
        when 'ne' then 'pg_catalog.nepali'::regconfig when 'nl' then 'pg_catalog.dutch'::regconfig
        when 'nn' then 'pg_catalog.norwegian'::regconfig when 'no' then 'pg_catalog.norwegian'::regconfig
        when 'pt' then 'pg_catalog.portuguese'::regconfig when 'ro' then 'pg_catalog.romanian'::regconfig
        when 'ru' then 'pg_catalog.russian'::regconfig when 'sh' then 'pg_catalog.serbian'::regconfig
        when 'sr' then 'pg_catalog.serbian'::regconfig when 'sv' then 'pg_catalog.swedish'::regconfig
        when 'ta' then 'pg_catalog.tamil'::regconfig when 'tr' then 'pg_catalog.turkish'::regconfig
        when 'yi' then 'pg_catalog.yiddish'::regconfig
        else 'pg_catalog.simple'::regconfig end
$$;
