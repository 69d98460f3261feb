-- +goose Up

-- The last gap and the last proof of each stream, for a status.
create table last_controls (
  stream  integer not null references streams,
  type    text not null,
  control text not null,
  primary key (stream, type)
) strict, without rowid;
