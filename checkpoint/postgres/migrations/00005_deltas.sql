-- What an update changes of a body is stored as a delta, and the body stays as it is: so it is its delta's base.
alter table inventory add column delta bytea; -- null: the body is the object's

drop function commit_batch, put_page; -- they had other parameters

-- put_objects keeps the body of a row that gets a delta and no body. Postgres then writes nothing of it, however long it is: a
-- new version of a row refers to what the former one has out of line.
create function put_objects(streams int[], keys text[], uids text[], versions text[], bodies bytea[], deltas bytea[]) returns void
language plpgsql as $$
begin
  insert into inventory as i (stream, key, uid, resource_version, body, delta)
    select * from unnest(streams, keys, uids, versions, bodies, deltas)
    on conflict (stream, key) do update
      set uid = excluded.uid, resource_version = excluded.resource_version, lost = false, delta = excluded.delta,
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
