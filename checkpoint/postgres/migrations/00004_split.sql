-- +goose Up

-- Which namespaces are streams of their own: RESOURCE@NAMESPACE, ordered bytewise, with commas between.
alter table layouts add column split text not null default '';

-- Of streams that were merged: {"namespace":"resourceVersion"}, null once the position has passed all.
alter table positions add column floors text;

-- relayout is resize, with what becomes of the streams: objects move from one stream to another by the namespace in
-- their keys (bytewise, 0 comes after the slash), streams get positions, and those that ended lose theirs.
-- +goose StatementBegin
create function relayout(
  in_cluster int, from_slots int, from_split text, to_slots int, to_split text, in_slots int[], in_epochs bigint[], in_seqs bigint[],
  move_namespaces text[], move_from int[], move_to int[], move_anew bool[],
  position_streams int[], position_versions text[], position_times timestamptz[], position_floors text[], ended int[]
) returns text
language plpgsql as $$
declare
  m record;
begin
  perform from layouts where cluster = in_cluster and slots = from_slots and split = from_split for update;
  if not found then
    return 'layout';
  end if;
  perform from unnest(in_slots, in_epochs) as o (slot, epoch)
    left join slots s on s.cluster = in_cluster and s.slot = o.slot and s.epoch = o.epoch
    where s.slot is null;
  if found then
    return 'fenced';
  end if;
  perform from unnest(in_slots, in_seqs) as o (slot, seq) join slots s on s.cluster = in_cluster and s.slot = o.slot
    where s.seq < o.seq;
  if found then
    return 'behind';
  end if;

  for m in select * from unnest(move_namespaces, move_from, move_to, move_anew) as m (namespace, source, target, anew) loop
    delete from inventory i where m.anew and i.stream = m.target;
    delete from inventory i using inventory o
      where o.stream = m.source and o.key > m.namespace || '/' and o.key < m.namespace || '0'
        and i.stream = m.target and i.key = o.key;
    update inventory i set stream = m.target
      where i.stream = m.source and i.key > m.namespace || '/' and i.key < m.namespace || '0';
  end loop;

  insert into positions as p (stream, resource_version, time, floors)
    select * from unnest(position_streams, position_versions, position_times, position_floors)
    on conflict (stream) do update
      set resource_version = excluded.resource_version, time = excluded.time, floors = excluded.floors;
  delete from positions where stream = any (ended);
  update layouts set slots = to_slots, split = to_split where cluster = in_cluster;
  return 'ok';
end
$$;
-- +goose StatementEnd

-- A process of an earlier version knows of no split, and would read what it has split off once more: it gets no slot
-- while there is one, and can't change the layout.
-- +goose StatementBegin
create or replace function resize(in_cluster int, from_slots int, to_slots int, in_slots int[], in_epochs bigint[]) returns text
language sql as $$
  select relayout(in_cluster, from_slots, '', to_slots, '', in_slots, in_epochs, '{}',
    '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function take_slot(in_cluster int, in_slot int, in_owner text, in_ttl interval, in_layout int, in_split text)
returns table (epoch bigint, seq bigint, offsets jsonb)
language plpgsql as $$
begin
  perform from layouts l where l.cluster = in_cluster and (in_layout = 0 or (in_layout, in_split) = (l.slots, l.split)) for share;
  if not found and in_layout <> 0 then
    return;
  end if;
  return query
    insert into slots as s (cluster, slot, epoch, owner, lease_until)
      values (in_cluster, in_slot, 1, in_owner, clock_timestamp() + in_ttl)
    on conflict (cluster, slot) do update
      set epoch = s.epoch + 1, owner = excluded.owner, lease_until = clock_timestamp() + in_ttl
      where s.owner = excluded.owner or s.lease_until <= clock_timestamp()
    returning s.epoch, s.seq, s.offsets;
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create or replace function take_slot(in_cluster int, in_slot int, in_owner text, in_ttl interval, in_layout int)
returns table (epoch bigint, seq bigint, offsets jsonb)
language sql as $$
  select * from take_slot(in_cluster, in_slot, in_owner, in_ttl, in_layout, '')
$$;
-- +goose StatementEnd

-- commit_batch is as before, with floors, and answers behind when a batch before this one is missing. With in_relaxed
-- it does not wait for the disk. The one without stays for processes of an earlier version.
-- +goose StatementBegin
create function commit_batch(
  in_cluster int, in_slot int, in_epoch bigint, in_seq bigint, in_offsets jsonb, in_positions jsonb,
  position_streams int[], position_versions text[], position_times timestamptz[], position_floors text[],
  delete_streams int[], delete_keys text[],
  upsert_streams int[], upsert_keys text[], upsert_uids text[], upsert_versions text[], upsert_bodies bytea[],
  in_relaxed boolean
) returns text
language plpgsql
set work_mem = '64MB'       -- the arrays, as rows
set enable_hashjoin = off   -- deletes by key: never a scan of the whole inventory,
set enable_mergejoin = off  -- whatever it held when this plan was made
as $$
declare
  after_batch jsonb;
  last_seq bigint;
  time_now timestamptz := clock_timestamp();
begin
  if in_relaxed then
    perform set_config('synchronous_commit', 'off', true); -- until the end of this transaction
  end if;
  update slots set seq = in_seq, offsets = offsets || in_offsets
    where cluster = in_cluster and slot = in_slot and epoch = in_epoch and seq = in_seq - 1
    returning offsets into after_batch;
  if not found then
    select seq into last_seq from slots where cluster = in_cluster and slot = in_slot and epoch = in_epoch;
    return case when last_seq is null then 'fenced' when last_seq < in_seq then 'behind' else 'stale' end;
  end if;

  insert into checkpoints as c (cluster, slot, second, time, epoch, seq, positions, offsets)
    values (in_cluster, in_slot, date_trunc('second', time_now), time_now, in_epoch, in_seq, in_positions, after_batch)
    on conflict (cluster, slot, second) do update
      set time = excluded.time, epoch = excluded.epoch, seq = excluded.seq,
        positions = c.positions || excluded.positions, offsets = excluded.offsets;

  insert into positions as p (stream, resource_version, time, floors)
    select * from unnest(position_streams, position_versions, position_times, position_floors)
    on conflict (stream) do update
      set resource_version = excluded.resource_version, time = excluded.time, floors = excluded.floors;

  if cardinality(delete_keys) > 0 then
    delete from inventory i using unnest(delete_streams, delete_keys) as d (stream, key)
      where i.stream = d.stream and i.key = d.key;
  end if;

  if cardinality(upsert_keys) > 0 then
    insert into inventory as i (stream, key, uid, resource_version, body)
      select * from unnest(upsert_streams, upsert_keys, upsert_uids, upsert_versions, upsert_bodies)
      on conflict (stream, key) do update
        set uid = excluded.uid, resource_version = excluded.resource_version, body = excluded.body;
  end if;
  return 'ok';
end
$$;
-- +goose StatementEnd
