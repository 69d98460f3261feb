-- +goose Up

alter table clusters add column log text; -- that the checkpoint tells of; null until the first start that knows

-- How many partitions of a topic are written to, so that a key stays on its partition when more are added.
create table topics (
  cluster    integer not null references clusters,
  name       text not null,
  partitions integer not null,
  primary key (cluster, name)
) strict, without rowid;
