-- The content hash of the item whose text a version of its facts was made from; null for versions of earlier releases.
alter table extraction add column content_hash bytea;
