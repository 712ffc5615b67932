-- Superseded records, for diffs by field. Texts have revisions of their own: a licence may change without a word of the
-- text, and a text without a field of the record. As many are kept of an item as revisions.
create table superseded_record (
    item_id bigint not null references item on delete cascade,
    number  bigint generated always as identity,
    record  jsonb not null,
    at      timestamptz not null,
    primary key (item_id, number)
);
