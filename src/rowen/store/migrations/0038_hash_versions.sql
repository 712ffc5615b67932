-- By which version of the program's functions the stored hashes were computed (`VERSIONS` in model/hashes.py). A migration
-- that renews hashes raises their version here. `passages` are the cuts and text hashes of all passages: the program
-- renews them itself from the stored texts, with their vectors, and no source is asked.
create table hash_version (
    name    text primary key,
    version integer not null
);
insert into hash_version (name, version)
select name, 1 from unnest(array['key', 'body', 'record', 'twins', 'title', 'question', 'schema', 'facts',
                                 'statements', 'note', 'git', 'token']) as name;
