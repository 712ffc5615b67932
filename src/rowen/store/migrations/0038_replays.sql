-- How often somebody chose from which number on a receiver is told: what a delivery that began before such a choice has
-- delivered must not move the position that was chosen.
alter table webhook add column replays integer not null default 0;
