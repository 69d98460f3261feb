-- What users ask of running exporters, and how far it is done.
create table signals (
  id        bigint generated always as identity primary key,
  cluster   int not null references clusters,
  kind      text not null,
  stream    text not null,
  params    json,
  requested timestamptz not null default clock_timestamp(),
  state     text not null default 'requested',
  abort     boolean not null default false, -- the owner is to stop
  last_key  text not null default '',       -- everything up to it is done
  done      bigint not null default 0,
  total     bigint not null default 0,
  reason    text not null default '',
  answered  timestamptz not null default clock_timestamp()
);
-- Owners look for open signals every other second.
create index signals_open on signals (cluster, id) where state not in ('completed', 'failed', 'aborted');
