-- How long answers of models are kept. `used_at` is when an answer was last given to somebody, or when facts in force last
-- ceased to rest on it; answers of before count as used now. The rest of the retention needs no tables of its own.

alter table answer add column used_at timestamptz not null default now();
create index answer_used on answer (used_at);
create index extraction_check_answer on extraction_check (answer_key) where answer_key is not null;

create function answer_replaced() returns trigger language plpgsql as $$
begin
    update answer set used_at = now() where key = old.answer_key;
    return null;
end;
$$;
create trigger answer_replaced after update of answer_key, state on extraction_check
    for each row when (old.answer_key is not null
                       and (old.answer_key is distinct from new.answer_key
                            or new.state = 'gone' and old.state <> 'gone'))
    execute function answer_replaced();

-- Sources that are removed at the same time may share answers: they are locked in one order.
create function answers_dropped() returns trigger language plpgsql as $$
begin
    perform from answer where key in (select answer_key from dropped) order by key for update;
    update answer set used_at = now() where key in (select answer_key from dropped);
    return null;
end;
$$;
create trigger answers_dropped after delete on extraction_check
    referencing old table as dropped for each statement execute function answers_dropped();
