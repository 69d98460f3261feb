-- Objects that the log had lost had a minus before their resourceVersion.
alter table inventory add column lost boolean not null default false; -- the log has lost its record of the object
update inventory set lost = true, resource_version = substr(resource_version, 2) where resource_version like '-%';

drop function if exists commit_batch, put_page, inventory_page, take_slot; -- version 1 had these, with other parameters

-- commit_batch is a whole commit in one statement, so that it takes one round trip however much it holds, and holds no lock while
-- its parameters are on their way from a client that may stop in the middle.
-- It answers ok; fenced, if the slot has a newer epoch; or behind, if the slot has an older epoch or none, or the batch does not
-- follow its last one. With in_relaxed it does not wait for the disk.
create function commit_batch(
  in_cluster int, in_slot int, in_epoch bigint, in_seq bigint, in_offsets jsonb, in_positions jsonb,
  position_streams int[], position_versions text[], position_times timestamptz[], position_ends text[],
  delete_streams int[], delete_keys text[],
  upsert_streams int[], upsert_keys text[], upsert_uids text[], upsert_versions text[], upsert_bodies bytea[],
  in_relaxed boolean
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
    where cluster = in_cluster and slot = in_slot and epoch = in_epoch and seq = in_seq - 1
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
    insert into inventory as i (stream, key, uid, resource_version, body)
      select * from unnest(upsert_streams, upsert_keys, upsert_uids, upsert_versions, upsert_bodies)
      on conflict (stream, key) do update
        set uid = excluded.uid, resource_version = excluded.resource_version, body = excluded.body, lost = false;
  end if;
  return 'ok';
end
$$;

-- put_page adds a page of a rebuild. It answers as commit_batch does.
create function put_page(
  in_cluster int, in_slot int, in_epoch bigint, in_page int,
  delete_streams int[], delete_keys text[],
  upsert_streams int[], upsert_keys text[], upsert_uids text[], upsert_versions text[], upsert_bodies bytea[]
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
  insert into inventory as i (stream, key, uid, resource_version, body)
    select * from unnest(upsert_streams, upsert_keys, upsert_uids, upsert_versions, upsert_bodies)
    on conflict (stream, key) do update
      set uid = excluded.uid, resource_version = excluded.resource_version, body = excluded.body, lost = false;
  return 'ok';
end
$$;

-- inventory_page walks the primary key. While a table that was just filled has no statistics, the planner would otherwise read
-- and sort all the rest for each page.
create function inventory_page(in_cluster int, in_stream text, in_after text, in_limit int)
returns table (key text, uid text, resource_version text, lost boolean)
language sql stable
set enable_bitmapscan = off
set enable_sort = off
as $$
  select i.key, i.uid, i.resource_version, i.lost from inventory i
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
