-- The title's vector is made of the title and, for a dataset, its publisher: tags are left out (docs/embeddings.md has the
-- measurement). Titles without tags keep their hash. Those with tags get their new hash here, and their vectors go along: no
-- text is embedded again for it. The vectors under the old hashes are dropped by `rowen db tidy` after their time.
create function title_words(title text, record jsonb, media_type text) returns text
language sql stable parallel safe as $$
    select concat_ws(E'\n', nullif(title, ''),
                     case when media_type = 'application/vnd.rowen.dataset+json' then nullif(record ->> 'publisher', '') end)
$$;

create temporary table retitled on commit drop as
select item_title.item_id, item_title.text_hash as old_hash, sha256(convert_to(words, 'UTF8')) as text_hash, words
  from item_title join item on item.id = item_title.item_id
 cross join lateral title_words(item.title, item.record, item.media_type) words
 where item_title.text_hash <> sha256(convert_to(words, 'UTF8'));

-- Several old hashes may become one: the vectors of one of them are taken whole.
with carried as (
    select distinct on (held.model_id, retitled.text_hash) held.model_id, retitled.text_hash, old_hash
      from retitled join embedding held on held.text_hash = old_hash
     where words <> '' and not exists (select from embedding other
                                        where other.model_id = held.model_id and other.text_hash = retitled.text_hash)
     order by held.model_id, retitled.text_hash, old_hash
)
insert into embedding (model_id, text_hash, part, vector)
select carried.model_id, carried.text_hash, part, vector
  from carried join embedding held on (held.model_id, held.text_hash) = (carried.model_id, old_hash);

delete from item_title using retitled where item_title.item_id = retitled.item_id and words = '';

-- A title that a model has no vector of gets a new number, so that it is looked for again.
update item_title
   set text_hash = retitled.text_hash,
       id = case when exists (select from embedding_model model
                               where not exists (select from embedding held
                                                  where held.model_id = model.id and held.text_hash = retitled.text_hash))
                 then nextval('chunk_id_seq') else item_title.id end
  from retitled where item_title.item_id = retitled.item_id;

drop function title_words(text, text[], jsonb, text);

update hash_version set version = 2 where name = 'title';
