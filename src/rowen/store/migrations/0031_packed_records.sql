-- The record that a portal gave, compressed by the client (store/packed.py). Rows that were stored before keep it in
-- `record`, under `source`, until they are written again.

alter table item add column source_record bytea;
alter table superseded_record add column source_record bytea;
alter table withdrawn add column source_record bytea;

-- What is compressed already would only be tried in vain.
alter table item alter column source_record set storage external;
alter table superseded_record alter column source_record set storage external;
alter table withdrawn alter column source_record set storage external;
