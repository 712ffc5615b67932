-- In how many passages a word stands: what tells a rare word from a common one.
--
-- Counted now and then, over a sample where there are many passages, and then scaled up. All languages share the table:
-- a lexeme weighs by how rare it is in the index that it is looked up in.

create table term (
    lexeme    text collate "C" primary key,
    passages  bigint not null
);

-- One row: what the counts are of, and how many passages were written since.
create table term_count (
    only_row    boolean primary key default true check (only_row),
    passages    bigint not null default 0,
    mean_length real not null default 0,
    written     bigint not null default 0,
    counted_at  timestamptz
);
insert into term_count default values;

-- Search reads the tsv of every candidate and the text of the few that are shown: the tsv stays in the row, as it is,
-- and long texts move out of it.
alter table chunk alter column tsv set storage main;
alter table chunk set (toast_tuple_target = 8160);

-- The scripts that put no spaces between words (Chinese, Japanese, Thai, Lao, Burmese, Khmer), and Korean, whose words
-- grow by endings: the inside of a bracket expression.
create function unspaced() returns text
language sql immutable parallel safe as $$
    select '\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff'
        || '\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff'
$$;

-- Runs of such scripts in pairs of characters: from the first character of each run, and once more from its second. The
-- last character stands alone in one of the two, so that each character begins something.
create function in_pairs(body text) returns text
language sql immutable parallel safe as $$
    select regexp_replace(regexp_replace(body, '([' || unspaced() || ']+)', ' \1 ', 'g'),
                          '([' || unspaced() || ']{2})', '\1 ', 'g')
        || regexp_replace(regexp_replace(regexp_replace(body, '[^' || unspaced() || ']+', ' ', 'g'),
                                         '(^| )[^ ]', ' ', 'g'),
                          '([^ ]{2})', '\1 ', 'g')
$$;

-- Words as the index keeps them apart. A dot or a slash before a letter parts two words, where PostgreSQL would see the
-- name of a host or of a file and find neither.
create function words_apart(body text) returns text
language sql immutable parallel safe as $$
    select case when octet_length(body) > length(body) and body ~ ('[' || unspaced() || ']')
                then in_pairs(regexp_replace(body, '[./](?=[[:alpha:]_])', ' ', 'g'))
                else regexp_replace(body, '[./](?=[[:alpha:]_])', ' ', 'g') end
$$;

create or replace function passage_tsv(language text, title text, heading text[], body text) returns tsvector
language sql immutable parallel safe as $$
    select setweight(to_tsvector(text_config(language), words_apart(title)), 'A')
        || setweight(to_tsvector(text_config(language), words_apart(array_to_string(heading, ' '))), 'B')
        || to_tsvector(text_config(language), words_apart(body))
$$;

-- The configurations by which stored items are indexed, found by hopping over the index of languages.
create function text_configs() returns setof regconfig
language sql stable as $$
    with recursive language(code) as (
        (select language from item where language is not null order by language limit 1)
        union all
        select (select item.language from item where item.language > language.code order by item.language limit 1)
          from language where language.code is not null
    )
    select text_config(null) union select text_config(code) from language where code is not null
$$;

-- One lexeme, as it stands, as a query.
create function exactly(lexeme text) returns tsquery
language sql immutable strict parallel safe as $$
    select ('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''')::tsquery
$$;

-- How many passages answer a query, counted up to a bound; by the index, whatever the planner thinks of a bound.
create function passages_with(query tsquery, bound integer) returns bigint
language sql stable parallel safe set enable_seqscan = off as $$
    select count(*) from (select from chunk where tsv @@ query limit bound) found
$$;

update chunk set tsv = passage_tsv(item.language, item.title, chunk.heading, chunk.text)
  from item where item.id = chunk.item_id;
