-- The version of what a source holds, where it has one as a whole: a package at a release.

alter table source add column version text;
