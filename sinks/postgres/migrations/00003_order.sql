-- Run by internal/pgdb in one transaction, with this schema as its search_path.

-- The time at which a batch was written is the order of the log: in a slot it never goes back, whatever the server's clock does, and batches
-- that share it are in the order of (epoch, seq). A new owner of a slot writes after all that the log has.
alter table slots add column written timestamptz not null default '-infinity';
comment on column slots.written is 'of the last batch, or what the next one may not be before';

-- A batch that was written when the clock had gone back gets the time of the one before it.
with stepped as materialized (
  select * from (
    select cluster, slot, epoch, seq, written, max(written) over (partition by cluster, slot order by epoch, seq) as latest from batches
  ) b where written < latest
), moved_changes as (
  update changes c set written = s.latest from stepped s
    where (c.cluster, c.slot, c.epoch, c.batch, c.written) = (s.cluster, s.slot, s.epoch, s.seq, s.written)
), moved_control as (
  update control c set written = s.latest from stepped s
    where (c.cluster, c.slot, c.epoch, c.batch, c.written) = (s.cluster, s.slot, s.epoch, s.seq, s.written)
)
update batches b set written = s.latest from stepped s
  where (b.cluster, b.slot, b.epoch, b.seq, b.written) = (s.cluster, s.slot, s.epoch, s.seq, s.written);
update slots s set written = b.written from (select cluster, slot, max(written) as written from batches group by cluster, slot) b
  where (b.cluster, b.slot) = (s.cluster, s.slot);

-- As before, but for now_.
create or replace function write_batch(
  in_cluster text, in_slot int, in_epoch bigint, in_seq bigint, in_restart boolean, in_positions json,
  change_time timestamptz[], change_op text[], change_api_version text[], change_group text[], change_kind text[],
  change_resource text[], change_namespace text[], change_name text[], change_uid text[], change_version text[],
  change_inferred boolean[], change_gap text[], change_stream text[], change_before json[], change_after json[],
  change_last boolean[], change_happened timestamptz[], change_happened_from text[], change_managers text[],
  change_fields_changed text[],
  control_time timestamptz[], control_type text[], control_stream text[], control_record json[],
  letter_stream text[], letter_reason text[], letter_body bytea[]
) returns text
language plpgsql
set work_mem = '64MB'       -- the arrays, as rows
set enable_hashjoin = off   -- objects are found by key, never by a scan,
set enable_mergejoin = off  -- whatever the table held when this plan was made
as $$
declare
  now_ timestamptz;
begin
  -- A batch is written when the checkpoint has the one before it.
  update slots set seq = in_seq, checkpointed = in_seq - 1, tail_epoch = case when in_restart then in_epoch else tail_epoch end,
      written = greatest(written, clock())
    where cluster = in_cluster and slot = in_slot and epoch = in_epoch and (seq = in_seq - 1 or in_restart)
    returning written into now_;
  if not found then
    perform from slots where cluster = in_cluster and slot = in_slot and epoch = in_epoch;
    return case when found then 'stale' else 'fenced' end;
  end if;

  insert into batches values
    (in_cluster, in_slot, in_epoch, in_seq, now_, coalesce(cardinality(change_op), 0), in_positions);

  insert into control
    select in_cluster, in_slot, in_epoch, in_seq, n, time, type, stream, record, now_
    from unnest(control_time, control_type, control_stream, control_record)
      with ordinality as c (time, type, stream, record, n);

  insert into dead_letters
    select in_cluster, in_slot, in_epoch, in_seq, n, now_, stream, reason, body
    from unnest(letter_stream, letter_reason, letter_body) with ordinality as l (stream, reason, body, n);

  if cardinality(change_op) = 0 then
    return 'ok';
  end if;
  with c as materialized (
    select * from unnest(change_time, change_op, change_api_version, change_group, change_kind, change_resource,
        change_namespace, change_name, change_uid, change_version, change_inferred, change_gap, change_stream,
        change_before, change_after, change_last, change_happened, change_happened_from, change_managers,
        change_fields_changed)
      with ordinality as c (time, op, api_version, api_group, kind, resource, namespace, name, uid, resource_version,
        inferred, gap, stream, before, after, is_last, happened, happened_from, managers, fields_changed, n)
  ), logged as (
    insert into changes
      select in_cluster, in_slot, in_epoch, in_seq, n, time, op, api_version, api_group, kind, resource,
        namespace, name, uid, resource_version, inferred, gap, stream, before, after,
        happened, happened_from, managers, fields_changed, now_
      from c
  ), deleted as (
    delete from objects o using c
      where c.op = 'd' and c.is_last and o.cluster = in_cluster and o.api_group = c.api_group
        and o.resource = c.resource and o.namespace = c.namespace and o.name = c.name
  )
  insert into objects as o
    select in_cluster, api_group, resource, namespace, name, api_version, kind, uid, resource_version, time, stream, after
    from c where c.op <> 'd' and c.is_last
    on conflict (cluster, api_group, resource, namespace, name) do update
      set api_version = excluded.api_version, kind = excluded.kind, uid = excluded.uid,
        resource_version = excluded.resource_version, time = excluded.time, stream = excluded.stream, body = excluded.body;
  return 'ok';
end
$$;
