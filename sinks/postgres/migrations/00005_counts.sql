-- Run by internal/pgdb in one transaction, with this schema as its search_path.

-- What batches have put into the tables. If the tables hold less, somebody has removed it.
create table counts (
  cluster text not null,
  stream  text not null,
  objects bigint not null, -- rows of objects
  primary key (cluster, stream)
) with (fillfactor = 50);
comment on table counts is 'how many objects of each stream there are by all batches; if objects has another number, some were removed by hand';

create index objects_by_stream on objects (cluster, stream);
insert into counts select cluster, stream, count(*) from objects group by cluster, stream;

alter table slots add column recorded timestamptz not null default '-infinity'; -- a gap record says what was lost until then

-- write_batch counts the objects of each stream, too.
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

  -- A loss that is recorded is counted no more.
  if 'gap' = any (control_type) then
    update counts k set objects = (select count(*) from objects o where o.cluster = in_cluster and o.stream = k.stream)
      from unnest(control_type, control_stream, control_record) as c (type, stream, record)
      where k.cluster = in_cluster and k.stream = c.stream and c.type = 'gap' and c.record->'gap'->>'from' = '0';
    update slots set recorded = now_ where cluster = in_cluster and slot = in_slot and exists (
      select from unnest(control_type, control_record) as c (type, record) where c.type = 'gap' and c.record->'gap'->>'from' = '0');
  end if;

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
  ), counted as (
    insert into counts as k
      select in_cluster, stream, sum(n) from (
          select c.stream, 1 as n from c where c.op <> 'd' and c.is_last
        union all
          select o.stream, -1 from c join objects o on o.cluster = in_cluster and o.api_group = c.api_group
            and o.resource = c.resource and o.namespace = c.namespace and o.name = c.name where c.is_last
        ) as d group by stream having sum(n) <> 0 order by stream
      on conflict (cluster, stream) do update set objects = k.objects + excluded.objects
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
