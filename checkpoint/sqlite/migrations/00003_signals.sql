-- +goose Up

-- What users ask of running exporters, and how far it is done.
create table signals (
  id        integer primary key autoincrement, -- no id is given twice
  cluster   integer not null references clusters,
  kind      text not null,
  stream    text not null,
  params    text,
  requested integer not null,
  state     text not null default 'requested',
  abort     integer not null default false, -- the owner is to stop
  last_key  text not null default '',       -- everything up to it is done
  done      integer not null default 0,
  total     integer not null default 0,
  reason    text not null default '',
  answered  integer not null
) strict;
-- Owners look for open signals every other second.
create index signals_open on signals (cluster, id) where state not in ('completed', 'failed', 'aborted');
