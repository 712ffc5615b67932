-- To PostgreSQL, what stands in angle brackets is markup and no word, and all behind <script> or <style> is passed over.
-- Here it is text: `List<String>`, `<div>`, a page about scripts. So a bracket parts words, as a dot does.

create or replace function words_apart(body text) returns text
language sql immutable parallel safe as $$
    select case when octet_length(body) > length(body) and body ~ ('[' || unspaced() || ']')
                then in_pairs(regexp_replace(body, '<|[./](?=[[:alpha:]_])', ' ', 'g'))
                else regexp_replace(body, '<|[./](?=[[:alpha:]_])', ' ', 'g') end
$$;

update chunk set tsv = passage_tsv(item.language, item.title, chunk.heading, chunk.text)
  from item
 where item.id = chunk.item_id
   and (strpos(chunk.text, '<') > 0 or strpos(item.title, '<') > 0 or strpos(array_to_string(chunk.heading, ' '), '<') > 0);
