-- +goose Up

create table clusters (
  id       integer primary key,
  name     text not null unique,
  known_as text not null, -- the uid or CA by which it was first known; the log carries it
  uid      text not null, -- of the namespace kube-system; empty while it may not be read
  ca       text not null, -- fingerprint of the API server's CA; empty where there is none
  log      text,          -- the log that the checkpoint is about; null until one is bound
  hash_key blob           -- the key of the hashes that stand for redacted values; null where the settings give one
) strict;

create table slots (
  cluster     integer not null references clusters,
  slot        integer not null,
  epoch       integer not null,              -- grows by one with each owner
  owner       text not null,
  lease_until integer not null,              -- all times are microseconds since 1970
  seq         integer not null default 0,    -- the last batch committed
  offsets     text not null default '{}',    -- {"topic":{"partition":next offset}}, after that batch
  pages       integer default 0,             -- how many pages of a rebuild were put, while the slot is new; then null
  primary key (cluster, slot)
) strict, without rowid;

create table streams (
  id       integer primary key,
  cluster  integer not null references clusters,
  name     text not null,
  redacted text not null default '', -- the rules that its bodies were redacted by
  unique (cluster, name)
) strict;

create table positions (
  stream           integer primary key references streams,
  resource_version text not null,
  time             integer not null,
  ended            text not null default '' -- how the stream has ended; empty while it has not
) strict;

-- The inventory has the last emitted state of every live object. Text is compared bytewise, as etcd's lists are ordered. What an
-- update changes of a body is stored as a delta of it, which is its base. Bases have a table of their own: SQLite writes the whole
-- row again when a part of it changes, and so many rows without bases take one page.
create table inventory (
  id               integer primary key,
  stream           integer not null,
  key              text not null,
  uid              text not null,
  resource_version text not null,
  delta            blob, -- empty: the base is the body; null: there is no body
  unique (stream, key)
) strict;
create table bases (
  id   integer primary key references inventory on delete cascade,
  base blob not null -- compressed
) strict;

-- +goose StatementBegin
create trigger forget_base after update of delta on inventory when new.delta is null and old.delta is not null begin
  delete from bases where id = new.id;
end;
-- +goose StatementEnd

-- The history has the last checkpoint of each second, so that it grows with time and not with the load. A row holds only what
-- moved in its second. The first row of each hour, and the oldest that is kept, are complete: they hold the offsets of all
-- partitions, to which a reader adds those of the rows that follow.
create table checkpoints (
  cluster   integer not null,
  slot      integer not null,
  second    integer not null, -- since 1970; never goes back, as a clock may
  time      integer not null,
  epoch     integer not null,
  seq       integer not null,
  positions text not null,    -- stream -> position, of those that moved in this second
  offsets   text not null,    -- next offsets after the batch, of the partitions that moved in this second
  complete  integer not null, -- offsets are those of all partitions
  primary key (cluster, slot, second)
) strict, without rowid;

-- A layout is the number of slots that the streams hash onto. Slots of a higher number are left over from an earlier layout.
create table layouts (
  cluster integer primary key references clusters,
  slots   integer not null
) strict;

-- The number of partitions of a topic that are written to, so that a key stays on its partition when partitions are added.
create table topics (
  cluster    integer not null references clusters,
  name       text not null,
  partitions integer not null,
  primary key (cluster, name)
) strict, without rowid;

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

-- The last gap and the last proof of each stream, for a status.
create table last_controls (
  stream  integer not null references streams,
  type    text not null,
  control text not null,
  primary key (stream, type)
) strict, without rowid;
