-- +goose Up

alter table clusters add column log text; -- that the checkpoint tells of; null until the first start that knows
comment on column clusters.log is 'a checkpoint says how far one log is complete, and is wrong for any other';

-- How many partitions of a topic are written to, so that a key stays on its partition when more are added.
create table topics (
  cluster    int not null references clusters,
  name       text not null,
  partitions int not null,
  primary key (cluster, name)
);
