-- +goose Up

-- As before. But the first change of an object in a gap has no user: the revisions before it may be lost, and their writers with them.
drop view changes_by;
create view changes_by as
select k.cluster, r.resource, o.namespace, o.name, o.uid, char(c.op & 255) as op, c.version, c.time,
  json_extract(q.told, '$.user') as username, json_extract(q.told, '$.impersonatedUser') as impersonated,
  a.verb, a.subresource, json_extract(q.told, '$.userAgent') as user_agent, json_extract(a.rest, '$.auditID') as audit_id
from log_changes c
join log_streams s on s.id = c.stream
join log_objects o on o.id = c.object
join log_resources r on r.id = o.resource
join log_clusters k on k.id = r.cluster
left join log_audit a on a.resource = o.resource and a.name = o.name and a.namespace = o.namespace and a.uid = o.uid
  and a.code between 200 and 299 and json_extract(a.rest, '$.retried') is null and coalesce(json_extract(a.rest, '$.effect'), '') <> 'nothing'
  and c.op & 256 = 0 and case c.op & 255
    when 99 then a.created and instr(s.stream, '?') = 0
    when 114 then false
    else (
      select (c.op & 255 = 117 and p.version = cast(json_extract(a.rest, '$.versionBegan') as integer) and a.before = c.version
        or p.version = a.before
          and case json_extract(a.rest, '$.effect') when 'wrote' then (cast(c.version as integer) - cast(a.before as integer)) % 420 <> 0
            else a.after not in ('', a.before) end
          and (c.op & 255 <> 117 or cast(c.version as integer) > cast(a.before as integer) and a.after in ('', c.version)))
        and (c.gap is null or p.gap = c.gap)
      from log_changes p where p.object = c.object and p.id < c.id order by p.id desc limit 1) end
left join log_requesters q on q.id = a.requester;
