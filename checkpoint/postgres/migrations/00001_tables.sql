-- Run by internal/pgdb in one transaction, with this schema as its search_path; each function keeps that search_path.

create table clusters (
  id       int generated always as identity primary key,
  name     text not null unique,
  known_as text not null, -- the uid or CA by which it was first known; the log carries it
  uid      text not null, -- of the namespace kube-system; empty while it may not be read
  ca       text not null, -- fingerprint of the API server's CA; empty where there is none
  since    timestamptz not null default now(),
  log      text,          -- the log that the checkpoint is about; null until one is bound
  hash_key bytea          -- the key of the hashes that stand for redacted values; null where the settings give one
);
comment on column clusters.log is 'a checkpoint says how far one log is complete, and is wrong for any other';

create table slots (
  cluster     int not null references clusters,
  slot        int not null,
  epoch       bigint not null,               -- grows by one with each owner
  owner       text not null,
  lease_until timestamptz not null,          -- by this server's clock
  seq         bigint not null default 0,     -- the last batch committed
  offsets     jsonb not null default '{}',   -- "topic/partition" -> next offset, after that batch
  pages       int default 0,                 -- how many pages of a rebuild were put, while the slot is new; then null
  primary key (cluster, slot)
) with (fillfactor = 50);

create table streams (
  id       int generated always as identity primary key,
  cluster  int not null references clusters,
  name     text not null,
  redacted text not null default '', -- the rules that its bodies were redacted by
  unique (cluster, name)
);

create table positions (
  stream           int primary key references streams,
  resource_version text not null,
  time             timestamptz not null,
  ended            text not null default '' -- how the stream has ended; empty while it has not
) with (fillfactor = 50);

-- The inventory has the last emitted state of every live object. Rows change in place all the time: so each page leaves room (HOT
-- updates), and vacuum collects dead rows early. There is no foreign key, since Postgres would look it up for every row.
create table inventory (
  stream           int not null,
  key              text collate "C" not null, -- in the order of etcd's lists: bytewise
  uid              text not null,
  resource_version text not null,
  body             bytea,                     -- compressed; null where before-images are off
  primary key (stream, key)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05,
        toast.autovacuum_vacuum_scale_factor = 0.05);
alter table inventory alter column body set storage external; -- it is compressed already

-- The history has the last checkpoint of each second, so that it grows with time and not with the load. A row holds only what
-- moved in its second. The first row of each hour, and the oldest that is kept, are complete: they hold the offsets of all
-- partitions, to which a reader adds those of the rows that follow.
create table checkpoints (
  cluster   int not null,
  slot      int not null,
  second    timestamptz not null, -- never goes back, as a clock may
  time      timestamptz not null,
  epoch     bigint not null,
  seq       bigint not null,
  positions jsonb not null,   -- stream -> position, of those that moved in this second
  offsets   jsonb not null,   -- next offsets after the batch, of the partitions that moved in this second
  complete  boolean not null, -- offsets are those of all partitions
  primary key (cluster, slot, second)
);

-- Members are the replicas that live.
create table members (
  cluster     int not null references clusters,
  owner       text collate "C" not null,
  alive_until timestamptz not null, -- by this server's clock
  primary key (cluster, owner)
) with (fillfactor = 50);

-- A layout is the number of slots that the streams hash onto. Slots of a higher number are left over from an earlier layout.
create table layouts (
  cluster int primary key references clusters,
  slots   int not null
);

-- The number of partitions of a topic that are written to, so that a key stays on its partition when partitions are added.
create table topics (
  cluster    int not null references clusters,
  name       text not null,
  partitions int not null,
  primary key (cluster, name)
);

-- relayout is one statement, so that it holds no lock for a client that may stop in the middle. acquire_slot reads the layout
-- "for share": either before this update, and then the epoch is not the expected one, or after it. It answers ok; layout, if
-- the number of slots is not from_slots; fenced, if a slot has a newer epoch than expected; or behind, if a slot does not have
-- the expected epoch or batch.
create function relayout(
  in_cluster int, from_slots int, to_slots int, in_slots int[], in_epochs bigint[], in_seqs bigint[]
) returns text
language plpgsql as $$
begin
  perform from layouts where cluster = in_cluster and slots = from_slots for update;
  if not found then
    return 'layout';
  end if;
  perform from unnest(in_slots, in_epochs) as o (slot, epoch)
    join slots s on s.cluster = in_cluster and s.slot = o.slot and s.epoch > o.epoch;
  if found then
    return 'fenced';
  end if;
  perform from unnest(in_slots, in_epochs, in_seqs) as o (slot, epoch, seq)
    left join slots s on s.cluster = in_cluster and s.slot = o.slot
    where s.slot is null or s.epoch < o.epoch or s.seq < o.seq;
  if found then
    return 'behind';
  end if;
  update layouts set slots = to_slots where cluster = in_cluster;
  return 'ok';
end
$$;
