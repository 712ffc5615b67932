-- The same configurations as before, named once when a statement is planned instead of looked up for every passage; the
-- most frequent language is asked for first.

create or replace function text_config(language text) returns regconfig
language sql immutable parallel safe as $$
    select case lower(split_part(replace(coalesce(language, 'en'), '_', '-'), '-', 1))
        when 'en' then 'pg_catalog.english'::regconfig when 'ar' then 'pg_catalog.arabic'::regconfig
        when 'ca' then 'pg_catalog.catalan'::regconfig when 'da' then 'pg_catalog.danish'::regconfig
        when 'de' then 'pg_catalog.german'::regconfig when 'el' then 'pg_catalog.greek'::regconfig
        when 'es' then 'pg_catalog.spanish'::regconfig when 'eu' then 'pg_catalog.basque'::regconfig
        when 'fi' then 'pg_catalog.finnish'::regconfig when 'fr' then 'pg_catalog.french'::regconfig
        when 'ga' then 'pg_catalog.irish'::regconfig when 'hi' then 'pg_catalog.hindi'::regconfig
        when 'hu' then 'pg_catalog.hungarian'::regconfig when 'hy' then 'pg_catalog.armenian'::regconfig
        when 'id' then 'pg_catalog.indonesian'::regconfig when 'it' then 'pg_catalog.italian'::regconfig
        when 'lt' then 'pg_catalog.lithuanian'::regconfig when 'nb' then 'pg_catalog.norwegian'::regconfig
        when 'ne' then 'pg_catalog.nepali'::regconfig when 'nl' then 'pg_catalog.dutch'::regconfig
        when 'nn' then 'pg_catalog.norwegian'::regconfig when 'no' then 'pg_catalog.norwegian'::regconfig
        when 'pt' then 'pg_catalog.portuguese'::regconfig when 'ro' then 'pg_catalog.romanian'::regconfig
        when 'ru' then 'pg_catalog.russian'::regconfig when 'sr' then 'pg_catalog.serbian'::regconfig
        when 'sv' then 'pg_catalog.swedish'::regconfig when 'ta' then 'pg_catalog.tamil'::regconfig
        when 'tr' then 'pg_catalog.turkish'::regconfig when 'yi' then 'pg_catalog.yiddish'::regconfig
        else 'pg_catalog.simple'::regconfig end
$$;
