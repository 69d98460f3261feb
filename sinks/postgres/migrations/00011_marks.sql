-- Run by internal/pgdb in one transaction, with this schema as its search_path.

-- Marks for dashboards: what somebody changed between two times, never statuses, and the gaps in which changes may be missing. A function, and no
-- view, since a view would group all of the log before it is asked for a range. Changes that were written more than an hour after the range are
-- left out. Objects with a controller count for it: a rollout is one mark of its Deployment, and one for the Pods of each ReplicaSet.
create or replace function marks(since timestamptz, until timestamptz)
returns table (cluster text, "time" timestamptz, timeend timestamptz, namespace text, text text, tags text)
language sql stable as $$
  with made as (
    select c.cluster, c.namespace, c.op, c.kind, c.name, c.uid, c.happened, c.managers, o.owner,
      case when c.op = 'u' then array(select p from unnest(string_to_array(c.fields_changed, ',')) p where p not like all (array['status%', 'metadata%'])) end as paths
    from changes c
    left join lateral (
      select (r->>'kind') || ' ' || (r->>'name') as owner
      from json_array_elements(replace(coalesce(c.after, c.before)::text, '\u0000', '\ufffd')::json->'metadata'->'ownerReferences') r
      where r->>'controller' = 'true' limit 1) o on true
    where c.written >= since - interval '5 minutes' and c.written < until + interval '1 hour' and c.happened >= since and c.happened < until
      and c.resource not in ('events', 'leases', 'endpoints', 'endpointslices')
      and (c.op in ('c', 'd') or c.op = 'u' and (c.fields_changed ~ '(^|,)(?!status|metadata)' or c.fields_changed is null and c.inferred))
  ), grouped as (
    select m.cluster, m.namespace, m.op, m.kind, coalesce(m.owner, m.kind || ' ' || m.name) as subject, m.owner is not null as owned,
      min(m.happened) as began, count(distinct m.uid) as objects,
      (select string_agg(distinct p, ', ') from unnest(array_agg(array_to_string(m.paths, ','))) s, unnest(string_to_array(s, ',')) p) as paths,
      string_agg(distinct m.managers, ', ') as managers
    from made m
    group by m.cluster, m.namespace, m.op, m.kind, subject, owned, date_trunc('minute', m.happened)
  )
  select g.cluster, g.began, null::timestamptz, g.namespace,
    g.subject || coalesce(' in ' || nullif(g.namespace, ''), '') || case when g.owned then ': ' || g.objects || ' ' || g.kind else '' end
      || case g.op when 'c' then ' created' when 'd' then ' deleted' else ' changed' end || coalesce(': ' || nullif(g.paths, ''), '')
      || coalesce(' by ' || g.managers, ''),
    concat_ws(',', g.cluster, nullif(g.namespace, ''), g.kind, case g.op when 'c' then 'created' when 'd' then 'deleted' else 'changed' end,
      case when g.op = 'u' and g.kind in ('Deployment', 'StatefulSet', 'DaemonSet') and g.paths like '%spec.template%' then 'rollout' end)
  from grouped g
  union all
  select c.cluster, coalesce(b.last, c.time), c.time, '',
    'changes of ' || c.stream || ' may be missing' || coalesce(': ' || (c.told->'gap'->>'reason'), ''), c.cluster || ',gap'
  from (select *, replace(record::text, '\u0000', '\ufffd')::json as told from control where type = 'gap') c
  left join lateral (select max(p.time) as last from control p where p.cluster = c.cluster and p.stream = c.stream and p.written < c.written) b on true
  where c.written >= since - interval '5 minutes' and c.time >= since and coalesce(b.last, c.time) < until and c.told->'gap'->>'complete' = 'false'
$$;
comment on function marks is 'what somebody changed between two times, and gaps, as annotations of a dashboard';
