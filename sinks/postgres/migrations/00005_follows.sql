-- As in version 3, but that a batch must follow the slot's last one: a server that failed over to a standby that was behind may have
-- lost that one under a running session.

-- write_batch is a whole batch in one statement, so that it takes one round trip however much it holds, and holds no lock while
-- its parameters are on their way from a client that may stop in the middle. It answers ok; fenced, if the slot has another
-- epoch; or stale, if the batch does not follow the slot's last one, which the log may have lost. in_restart says that the batches after the checkpoint
-- were given up, and that this one follows the checkpoint's. change_last says that a change is the last one of its object in
-- the batch.
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
  now_ constant timestamptz := clock();
begin
  -- A batch is written when the checkpoint has the one before it.
  update slots set seq = in_seq, checkpointed = in_seq - 1, tail_epoch = case when in_restart then in_epoch else tail_epoch end
    where cluster = in_cluster and slot = in_slot and epoch = in_epoch and (seq = in_seq - 1 or in_restart);
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
        namespace, name, uid, resource_version, inferred, gap, stream, before, after, now_,
        happened, happened_from, managers, fields_changed
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
