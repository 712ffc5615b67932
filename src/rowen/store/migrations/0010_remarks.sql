-- What was left out of an item, since it was too long for a field that is indexed or repeated: one remark a line.

alter table item add column remarks text;
