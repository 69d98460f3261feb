-- +goose Up

-- The log remembers what a checkpoint beside it held before. A start reads the version of each object that lives from the index alone.
drop index log_changes_by_object;
create index log_changes_by_object on log_changes (object, id, version);

-- The version of an update that is not written, since it changes only what does not count; null: the last change has it.
alter table log_objects add column unwritten;

-- A stream that was removed has no position. One that was forgotten goes on from there if it is selected again.
delete from log_positions where ended = 'removed';
alter table log_positions add column forgotten integer not null default false;

-- The last gap and the last proof of each stream, for a status.
create table log_last_controls (
  stream integer not null,
  type   text not null,
  record text not null,
  primary key (stream, type)
) without rowid;
