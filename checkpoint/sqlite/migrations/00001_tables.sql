-- +goose Up

create table clusters (
  id       integer primary key,
  name     text not null unique,
  known_as text not null, -- the uid or CA by which it was first known; the log carries it
  uid      text not null, -- of the namespace kube-system; empty while it may not be read
  ca       text not null, -- fingerprint of the API server's CA; empty where there is none
  log      text,          -- that the checkpoint tells of; null until one is bound
  hash_key blob           -- of the hashes that stand for redacted values; null where the settings give one
) strict;

create table slots (
  cluster     integer not null references clusters,
  slot        integer not null,
  epoch       integer not null,              -- grows by one with each owner
  owner       text not null,
  lease_until integer not null,              -- all times are microseconds since 1970
  seq         integer not null default 0,    -- the last batch committed
  offsets     text not null default '{}',    -- {"topic":{"partition":next offset}}, after that batch
  pages       integer default 0,             -- while it is not known what the log has: how many are read back; then null
  primary key (cluster, slot)
) strict, without rowid;

create table streams (
  id       integer primary key,
  cluster  integer not null references clusters,
  name     text not null,
  redacted text not null default '', -- what is left out of the bodies of its objects
  unique (cluster, name)
) strict;

create table positions (
  stream           integer primary key references streams,
  resource_version text not null,
  time             integer not null,
  ended            text not null default '' -- how, where the stream has ended
) strict;

-- The last emitted state of every live object. Text is compared bytewise, as etcd's lists are ordered. The body is
-- the last column, so that reading the others does not read its pages.
create table inventory (
  stream           integer not null,
  key              text not null,
  uid              text not null,
  resource_version text not null,
  lost             integer not null default false, -- the log has lost its record of the object
  body             blob, -- compressed; null where before-images are off
  primary key (stream, key)
) strict;

-- The history: the last checkpoint of each second, so that it grows by the hour and not by the load. A row holds only what
-- moved in its second, and is folded when it is read. The first one of each hour, and the oldest that is kept, are complete.
create table checkpoints (
  cluster   integer not null,
  slot      integer not null,
  second    integer not null, -- since 1970; never goes back, as a clock may
  time      integer not null,
  epoch     integer not null,
  seq       integer not null,
  positions text not null,    -- stream -> position, of those that moved in this second
  offsets   text not null,    -- after the batch: of the partitions that moved in this second
  complete  integer not null, -- or of all
  primary key (cluster, slot, second)
) strict, without rowid;

-- How many slots the streams hash onto. Slots beyond that are left over from an earlier layout.
create table layouts (
  cluster integer primary key references clusters,
  slots   integer not null
) strict;

-- How many partitions of a topic are written to, so that a key stays on its partition when more are added.
create table topics (
  cluster    integer not null references clusters,
  name       text not null,
  partitions integer not null,
  primary key (cluster, name)
) strict, without rowid;
