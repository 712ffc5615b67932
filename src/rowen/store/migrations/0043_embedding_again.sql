-- Texts whose vectors were ordered to be made again (`rowen embed --again`). A row goes in the transaction that replaces the
-- vectors of its text; search uses the old ones until then.
create table embedding_again (
    model_id  smallint not null references embedding_model on delete cascade,
    text_hash bytea not null,
    since     timestamptz not null default now(),
    primary key (model_id, text_hash)
);
