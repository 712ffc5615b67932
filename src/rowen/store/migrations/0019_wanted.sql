-- What searches found before all of it had vectors, and how often: its passages are embedded before those of others. A
-- note goes when they are, with its item, or with the model. Unlogged: what a crash of the server loses is an order.

create unlogged table item_wanted (
    model_id smallint not null references embedding_model on delete cascade,
    item_id  bigint not null references item on delete cascade,
    times    integer not null default 1,
    primary key (item_id, model_id)
) with (fillfactor = 50);
