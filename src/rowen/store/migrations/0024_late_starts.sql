-- A request that leaves late moves those behind it. A start is given out for a moment; the process that has it may wake up
-- late, or wait for its connection. Until it has told that the request left (`host_sent`), no other start is given out,
-- and the next one counts from then. One that does not tell is waited for a second: by then it counts as gone out.

-- Who was given the last start and has not told yet that its request left.
alter table host_pace add column starter bigint;

drop function host_tell(bigint, text[], integer[], float8[], boolean[], float8);
drop function host_take(text, bigint, integer, boolean, integer, float8, float8, float8, float8, float8);
drop function host_locked(text);

-- Lock a host, and forget processes that have been silent for too long. The row is written so that it is locked even if
-- it was made or forgotten by somebody else at this moment. A request that has not left counts as if it left now.
create function host_locked(asked text, out started timestamptz, out held_to timestamptz, out at timestamptz)
language plpgsql as $$
declare
    unsent boolean;
begin
    insert into host_pace as pace (host) values (asked)
        on conflict (host) do update set host = excluded.host
        returning last_start, free_at, starter is not null into started, held_to, unsent;
    at := clock_timestamp();
    if unsent then
        started := greatest(started, least(at, started + interval '1 second'));
    end if;
    delete from host_slot where host = asked and lease_until < at;
end;
$$;

-- Tell that a request has left at this moment, at the latest.
create function host_sent(asked text, asker bigint) returns void language sql as $$
    update host_pace set last_start = greatest(last_start, clock_timestamp()), starter = nullif(starter, asker)
     where host = asked;
$$;

-- Ask to start a request, for a process that has `active` ones under way there. It is told that it is alone, that it may
-- start in `wait_s` seconds, or that it has to ask again. Who has `more` to ask for is put in the queue for that
-- with its start. `next_s` is when to ask again: `lead_s` before the start, so that it is not missed. A start is also
-- given out up to twice as early, since the one before may have left a little late.
create function host_take(asked text, asker bigint, active integer, more boolean, most integer, gap_s float8,
                          lease_s float8, lead_s float8, poll_s float8, alone_poll_s float8,
                          out verdict text, out wait_s float8, out next_s float8, out others integer)
language plpgsql as $$
declare
    started timestamptz; held_to timestamptz; at timestamptz; since timestamptz;
    used integer; is_closed boolean; waiting integer; ahead integer;
begin
    select * from host_locked(asked) into started, held_to, at;
    since := coalesce((select waits_since from host_slot where host = asked and holder = asker), at);
    select count(*), coalesce(sum(places), 0), coalesce(bool_or(alone), false), count(*) filter (where back_by > at),
           count(*) filter (where back_by > at and waits_since < since)
      from host_slot where host = asked and holder <> asker
      into others, used, is_closed, waiting, ahead;
    wait_s := greatest(0, extract(epoch from greatest(held_to, started + make_interval(secs => gap_s)) - at));
    next_s := wait_s + ahead * gap_s - lead_s;
    if others = 0 then
        verdict := 'alone';
    elsif is_closed then
        verdict := 'wait';
        next_s := alone_poll_s;
    elsif used + active + ahead >= most then
        -- Who comes first asks most often.
        verdict := 'wait';
        next_s := greatest(next_s, poll_s * (ahead + 1));
    elsif next_s > lead_s then
        verdict := 'wait';
    else
        verdict := 'start';
        next_s := greatest(0, wait_s + (waiting + 1) * gap_s - lead_s);
        since := at;
        update host_pace
           set last_start = at + make_interval(secs => wait_s), starter = case when gap_s > 0 then asker end
         where host = asked;
    end if;
    if verdict = 'alone' or (verdict = 'start' and not more) then
        since := null;
    end if;
    insert into host_slot as held
    values (asked, asker, verdict = 'alone', active + (verdict = 'start')::integer, since,
            case when since is not null then at + make_interval(secs => next_s + lead_s + poll_s) end,
            at + make_interval(secs => lease_s))
    on conflict (host, holder) do update
       set alone = excluded.alone, places = excluded.places, waits_since = excluded.waits_since,
           back_by = excluded.back_by, lease_until = excluded.lease_until;
end;
$$;

-- Tell how many requests a process has under way at its hosts, and in how many seconds the next may start at those where
-- it paces itself; keep its places, or give them up (`leaves`). Hosts come in order, so that two processes that tell of
-- the same ones never wait for each other. Who is alone hears how long ago (`since_s`) somebody else started the last.
create function host_tell(asker bigint, hosts text[], actives integer[], frees_s float8[], leaves boolean[],
                          lease_s float8)
returns table (host text, alone boolean, wait_s float8, others integer, since_s float8) language plpgsql as $$
#variable_conflict use_column
declare
    told record; started timestamptz; held_to timestamptz; at timestamptz; peers integer;
begin
    for told in select * from unnest(hosts, actives, frees_s, leaves) as one (name, active, free_s, leaves)
                 order by name loop
        select * from host_locked(told.name) into started, held_to, at;
        update host_pace set free_at = at + make_interval(secs => told.free_s)
         where host_pace.host = told.name and host_pace.free_at < at + make_interval(secs => told.free_s)
           and told.free_s > 0;
        select count(*) from host_slot slot where slot.host = told.name and slot.holder <> asker into peers;
        if told.leaves then
            delete from host_slot slot where slot.host = told.name and slot.holder = asker;
        else
            insert into host_slot as held
            values (told.name, asker, peers = 0, told.active, null, null, at + make_interval(secs => lease_s))
            on conflict on constraint host_slot_pkey do update
               set alone = excluded.alone, places = excluded.places, lease_until = excluded.lease_until;
        end if;
        return query select told.name, peers = 0, extract(epoch from greatest(held_to, at) - at)::float8, peers,
                            extract(epoch from at - greatest(started, at - interval '1 day'))::float8;
    end loop;
end;
$$;
