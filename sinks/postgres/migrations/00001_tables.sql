-- Run by internal/pgdb in one transaction, with this schema as its search_path; each function keeps that search_path.

-- Bodies are of type json, not jsonb: it keeps the API server's text byte for byte, and takes what jsonb refuses,
-- such as \u0000. Cast to jsonb for its operators and indexes, e.g. (after::jsonb) @> '{"spec":{"replicas":3}}'.

-- changes, batches and control are partitioned by the time at which they were written, by this server's clock. What is older than
-- KUBECDC_SINK_POSTGRES_HISTORY is dropped by whole partitions. Their primary keys end with that time because Postgres wants the
-- partition key there; it is slots that keeps (cluster, slot, epoch, batch) from being there twice.

create table clusters (
  cluster text primary key, -- its name, as in all other tables
  uid     text not null,    -- its identity: no other cluster of that name may write
  history interval          -- how long every change stays at least; null: for ever. The longest of all clusters counts
);

create table slots (
  cluster      text not null,
  slot         int not null,
  epoch        bigint not null,           -- of the newest owner; older ones can write no more
  seq          bigint not null default 0, -- of the last batch
  tail_epoch   bigint not null default 0, -- batches of older epochs were given up: see LostTailError
  checkpointed bigint not null default 0, -- the last batch that the checkpoint is known to have: later ones may be read back
  opened_at    timestamptz not null default now(),
  primary key (cluster, slot)
) with (fillfactor = 50);

create table batches (
  cluster   text not null,
  slot      int not null,
  epoch     bigint not null,
  seq       bigint not null,
  written   timestamptz not null, -- by this server's clock; the same in changes and control
  changes   int not null,         -- how many the batch has
  positions json not null,        -- how far each stream is complete with this batch
  primary key (cluster, slot, epoch, seq, written)
) partition by range (written);
comment on table batches is 'one row for each batch: all of it was written at once';

-- The order of the log is the primary key's, slot by slot. There is no serial id on purpose: with several writers
-- numbers become visible out of order, and a reader that asks for "id > the last one I saw" would miss rows.
create table changes (
  cluster          text not null,
  slot             int not null,
  epoch            bigint not null,
  batch            bigint not null,
  n                int not null,           -- within the batch, from 1
  time             timestamptz not null,   -- when the exporter saw it
  op               text not null,
  api_version      text not null,
  api_group        text not null,          -- '' for the core group
  kind             text not null,
  resource         text not null,          -- plural, as in URLs
  namespace        text not null,          -- '' for cluster-scoped objects
  name             text not null,
  uid              text not null,
  resource_version text not null,
  inferred         boolean not null,
  gap              text,
  stream           text not null,
  before           json,
  after            json,
  happened         timestamptz not null,   -- when it happened, as far as the object tells; else time
  happened_from    text not null,          -- what tells that: managedFields, creationTimestamp, deletionTimestamp or exporter
  managers         text,                   -- the field managers that made it; null: not known
  fields_changed   text,                   -- what an update changed: spec.replicas,status.conditions
  written          timestamptz not null,   -- when the batch was written, by this server's clock
  primary key (cluster, slot, epoch, batch, n, written)
) partition by range (written);
create index changes_by_object on changes (cluster, resource, namespace, name);
comment on table changes is 'every change, never updated; read it in the order of its primary key, slot by slot';
comment on column changes.op is 'c created, u updated, d deleted, r read by the first list of a stream';
comment on column changes.inferred is 'found by comparing a list with what was known, not seen as an event';
comment on column changes.happened is 'when it happened, as far as the object tells; else when the exporter saw it';
comment on column changes.happened_from is 'managedFields, creationTimestamp or deletionTimestamp, which are to the second; or exporter';
comment on column changes.managers is 'the field managers that made it, with commas between; null where managedFields does not tell';
comment on column changes.fields_changed is 'what an update changed, two levels deep, at most ten paths with commas between';
comment on column changes.name is 'with U+0001 U+0001 for a NUL, and U+0001 U+0002 for a U+0001, as in all texts that come from objects';
comment on column changes.gap is 'the gap that it was found in, of which control has a record; null when seen live';

create table objects (
  cluster          text not null,
  api_group        text not null,
  resource         text not null,
  namespace        text not null,
  name             text not null,
  api_version      text not null,
  kind             text not null,
  uid              text not null,
  resource_version text not null,
  time             timestamptz not null,
  stream           text not null,        -- the stream that told its last change
  body             json not null,
  primary key (cluster, api_group, resource, namespace, name)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
comment on column objects.name is 'with U+0001 U+0001 for a NUL, and U+0001 U+0002 for a U+0001, as in all texts that come from objects';
comment on table objects is 'the current state: what is left when all changes are applied';

create table control (
  cluster text not null,
  slot    int not null,
  epoch   bigint not null,
  batch   bigint not null,
  n       int not null,
  time    timestamptz not null,
  type    text not null,
  stream  text,
  record  json not null,
  written timestamptz not null, -- when the batch was written, by this server's clock
  primary key (cluster, slot, epoch, batch, n, written)
) partition by range (written);
comment on table control is 'watermarks, snapshots, gaps: what tells a quiet stream from a broken one';

create table dead_letters (
  cluster text not null,
  slot    int not null,
  epoch   bigint not null,
  batch   bigint not null,
  n       int not null,         -- within the batch, from 1
  time    timestamptz not null, -- when it was written, by this server's clock
  stream  text not null,
  reason  text not null,        -- why it can't be read
  body    bytea not null,       -- as it came
  primary key (cluster, slot, epoch, batch, n)
);
comment on table dead_letters is 'what the API server sent and could not be read as an object, as it came';

create table positions (
  cluster text not null,
  stream  text not null,
  version text not null,        -- empty: its first list had not ended, or the log had lost it
  moved   timestamptz not null,
  ended   text not null,
  written timestamptz not null,
  primary key (cluster, stream)
);
comment on table positions is 'how far each stream was complete with the batches that were dropped; newer ones are in batches';

create view partitions as
  select p.relname::text as parent, c.relname::text as name,
    substring(pg_get_expr(c.relpartbound, c.oid) from 'FROM \(''([^'']+)''\)')::timestamptz as lower, -- null while it is dropped
    substring(pg_get_expr(c.relpartbound, c.oid) from 'TO \(''([^'']+)''\)')::timestamptz as upper
  from pg_inherits i join pg_class p on p.oid = i.inhparent join pg_class c on c.oid = i.inhrelid
  where i.inhparent in ('batches'::regclass, 'changes'::regclass, 'control'::regclass);
comment on view partitions is 'the partitions of batches, changes and control, each with the span of time that it holds';

-- clock gives the time to all functions here. A test puts another one in its place.
create function clock() returns timestamptz language sql volatile as 'select clock_timestamp()';

-- make_partitions makes the partitions that are missing for now and for the span of in_days after it. It makes a table first and
-- attaches it then, which keeps nobody from reading or writing. A partition begins where one of another length ends.
create function make_partitions(in_days int) returns void
language plpgsql
set timezone = 'UTC'
set datestyle = 'ISO'
as $$
declare
  span constant int := in_days * 86400;
  now_ constant timestamptz := clock();
  in_parent text;
  at timestamptz;
  until timestamptz;
  start timestamptz;
begin
  perform pg_advisory_xact_lock(hashtextextended('kubecdc_log.make_partitions', 0));
  foreach in_parent in array array['batches', 'changes', 'control'] loop
    at := now_;
    while at <= now_ + span * interval '1 second' loop
      select upper into until from partitions where parent = in_parent and lower <= at and at < upper;
      if not found then
        start := to_timestamp(floor(extract(epoch from at) / span) * span);
        until := least(start + span * interval '1 second',
          (select min(lower) from partitions where parent = in_parent and lower > at));
        start := greatest(start, (select max(upper) from partitions where parent = in_parent and upper <= at));
        execute format('create table %I (like %I including all)', in_parent || to_char(start, '_YYYYMMDD'), in_parent);
        execute format('alter table %I attach partition %I for values from (%L) to (%L)',
          in_parent, in_parent || to_char(start, '_YYYYMMDD'), start, until);
      end if;
      at := until;
    end loop;
  end loop;
end
$$;

-- The identity of the log is made with the tables. Backups and replicas keep it, and it does not depend on the server's address.
create table identity (
  id uuid not null default gen_random_uuid()
);
insert into identity default values;

-- write_batch is a whole batch in one statement, so that it takes one round trip however much it holds, and holds no lock while
-- its parameters are on their way from a client that may stop in the middle. It answers ok; fenced, if the slot has another
-- epoch; or stale, if the batch does not follow the slot's last one: a server that failed over to a standby that was behind may
-- have lost that one under a running session. in_restart says that the batches after the checkpoint were given up, and that this
-- one follows the checkpoint's. change_last says that a change is the last one of its object in the batch.
create function write_batch(
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

-- lz4 is much cheaper than the default. Not every build has it; to Postgres 13 it is a syntax error.
do $$
begin
  execute 'alter table changes alter column before set compression lz4, alter column after set compression lz4';
  execute 'alter table objects alter column body set compression lz4';
exception when feature_not_supported or invalid_parameter_value or syntax_error then
  null;
end
$$;
