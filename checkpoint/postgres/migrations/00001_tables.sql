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

-- The inventory has the last emitted state of every live object. What an update changes of a body is stored as a delta, and the body
-- stays as it is: so it is its delta's base. Keys and uids are escaped, since they may have a NUL: see Escape in internal/pgdb. Rows change in place all the time: so each page leaves room (HOT
-- updates), and vacuum collects dead rows early. There is no foreign key, since Postgres would look it up for every row.
create table inventory (
  stream           int not null,
  key              text collate "C" not null, -- in the order of etcd's lists: bytewise
  uid              text not null,
  resource_version text not null,
  body             bytea,                     -- compressed; null where before-images are off
  delta            bytea,                     -- what the object's body differs in from body; null: body is the object's
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

-- The last gap and the last proof of each stream, for a status.
create table last_controls (
  stream  int not null references streams,
  type    text not null,
  control json not null,
  primary key (stream, type)
) with (fillfactor = 70);

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

-- put_objects keeps the body of a row that gets a delta and no body. Postgres then writes nothing of it, however long it is: a
-- new version of a row refers to what the former one has out of line.
create function put_objects(streams int[], keys text[], uids text[], versions text[], bodies bytea[], deltas bytea[]) returns void
language plpgsql as $$
begin
  insert into inventory as i (stream, key, uid, resource_version, body, delta)
    select * from unnest(streams, keys, uids, versions, bodies, deltas)
    on conflict (stream, key) do update
      set uid = excluded.uid, resource_version = excluded.resource_version, delta = excluded.delta,
        body = case when excluded.delta is null then excluded.body else coalesce(excluded.body, i.body) end;
end
$$;

-- commit_batch is a whole commit in one statement, so that it takes one round trip however much it holds, and holds no lock while
-- its parameters are on their way from a client that may stop in the middle.
-- It answers ok; fenced, if the slot has a newer epoch; or behind, if the slot has an older epoch or none, or is not at batch
-- in_after. With in_relaxed it does not wait for the disk.
create function commit_batch(
  in_cluster int, in_slot int, in_epoch bigint, in_after bigint, in_seq bigint, in_offsets jsonb, in_positions jsonb,
  position_streams int[], position_versions text[], position_times timestamptz[], position_ends text[],
  delete_streams int[], delete_keys text[],
  upsert_streams int[], upsert_keys text[], upsert_uids text[], upsert_versions text[], upsert_bodies bytea[],
  upsert_deltas bytea[], in_relaxed boolean
) returns text
language plpgsql
set work_mem = '64MB'       -- the arrays, as rows
set enable_hashjoin = off   -- rows are deleted by key, never by a scan of the inventory,
set enable_mergejoin = off  -- whatever the inventory held when the plan was made
as $$
declare
  after_batch jsonb;
  have bigint;
  time_now timestamptz := clock_timestamp();
  last_second timestamptz;
  first_of_hour boolean;
begin
  if in_relaxed then
    perform set_config('synchronous_commit', 'off', true); -- until the end of this transaction
  end if;
  update slots set seq = in_seq, offsets = offsets || in_offsets, pages = null
    where cluster = in_cluster and slot = in_slot and epoch = in_epoch and seq = in_after
    returning offsets into after_batch;
  if not found then
    select epoch into have from slots where cluster = in_cluster and slot = in_slot;
    return case when have > in_epoch then 'fenced' else 'behind' end;
  end if;

  select second into last_second from checkpoints
    where cluster = in_cluster and slot = in_slot order by second desc limit 1;
  if last_second >= date_trunc('second', time_now) then
    update checkpoints set time = time_now, epoch = in_epoch, seq = in_seq,
        positions = positions || in_positions, offsets = offsets || in_offsets
      where cluster = in_cluster and slot = in_slot and second = last_second;
  else
    first_of_hour := last_second is null or last_second < date_trunc('hour', time_now);
    insert into checkpoints (cluster, slot, second, time, epoch, seq, positions, offsets, complete)
      values (in_cluster, in_slot, date_trunc('second', time_now), time_now, in_epoch, in_seq, in_positions,
        case when first_of_hour then after_batch else in_offsets end, first_of_hour);
  end if;

  insert into positions as p (stream, resource_version, time, ended)
    select * from unnest(position_streams, position_versions, position_times, position_ends)
    on conflict (stream) do update
      set resource_version = excluded.resource_version, time = excluded.time, ended = excluded.ended;
  if 'removed' = any (position_ends) then
    delete from positions where stream = any (position_streams) and ended = 'removed';
  end if;

  if cardinality(delete_keys) > 0 then
    delete from inventory i using unnest(delete_streams, delete_keys) as d (stream, key)
      where i.stream = d.stream and i.key = d.key;
  end if;

  if cardinality(upsert_keys) > 0 then
    perform put_objects(upsert_streams, upsert_keys, upsert_uids, upsert_versions, upsert_bodies, upsert_deltas);
  end if;
  return 'ok';
end
$$;

-- put_page adds a page of a rebuild. It answers as commit_batch does.
create function put_page(
  in_cluster int, in_slot int, in_epoch bigint, in_page int,
  delete_streams int[], delete_keys text[],
  upsert_streams int[], upsert_keys text[], upsert_uids text[], upsert_versions text[], upsert_bodies bytea[],
  upsert_deltas bytea[]
) returns text
language plpgsql
set work_mem = '64MB'
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  have bigint;
begin
  update slots set pages = pages + 1 where cluster = in_cluster and slot = in_slot and epoch = in_epoch and pages = in_page;
  if not found then
    select epoch into have from slots where cluster = in_cluster and slot = in_slot;
    return case when have > in_epoch then 'fenced' else 'behind' end;
  end if;
  delete from inventory i using unnest(delete_streams, delete_keys) as d (stream, key)
    where i.stream = d.stream and i.key = d.key;
  perform put_objects(upsert_streams, upsert_keys, upsert_uids, upsert_versions, upsert_bodies, upsert_deltas);
  return 'ok';
end
$$;

-- inventory_page walks the primary key. While a table that was just filled has no statistics, the planner would otherwise read
-- and sort all the rest for each page.
create function inventory_page(in_cluster int, in_stream text, in_after text, in_limit int)
returns table (key text, uid text, resource_version text)
language sql stable
set enable_bitmapscan = off
set enable_sort = off
as $$
  select i.key, i.uid, i.resource_version from inventory i
    where i.stream = (select s.id from streams s where s.cluster = in_cluster and s.name = in_stream) and i.key > in_after
    order by i.key limit in_limit
$$;

-- acquire_slot gives no row if another owner's lease runs, or if the layout is not in_layout; 0 stands for any. It asks
-- clock_timestamp() and not now(), since it may have waited for another call.
create function acquire_slot(in_cluster int, in_slot int, in_owner text, in_ttl interval, in_layout int)
returns table (epoch bigint, seq bigint, offsets jsonb, is_new boolean)
language plpgsql as $$
begin
  perform from layouts l where l.cluster = in_cluster and in_layout in (0, l.slots) for share;
  if not found and in_layout <> 0 then
    return;
  end if;
  return query
    insert into slots as s (cluster, slot, epoch, owner, lease_until)
      values (in_cluster, in_slot, 1, in_owner, clock_timestamp() + in_ttl)
    on conflict (cluster, slot) do update
      set epoch = s.epoch + 1, owner = excluded.owner, lease_until = clock_timestamp() + in_ttl
      where s.owner = excluded.owner or s.lease_until <= clock_timestamp()
    returning s.epoch, s.seq, s.offsets, s.pages is not null;
end
$$;
