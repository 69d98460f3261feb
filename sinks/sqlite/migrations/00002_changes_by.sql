-- +goose Up

-- Each change with the request that is known to have made it (docs/who.md, grade exact); no username: none is. Several rows for one change:
-- it was one of them. The version before is that of the object's change before. Op 99 is c, 114 is r.
create view changes_by as
select k.cluster, r.resource, o.namespace, o.name, o.uid, char(c.op & 255) as op, c.version, c.time,
  json_extract(q.told, '$.user') as username, json_extract(q.told, '$.impersonatedUser') as impersonated,
  a.verb, a.subresource, json_extract(q.told, '$.userAgent') as user_agent, json_extract(a.rest, '$.auditID') as audit_id
from log_changes c
join log_objects o on o.id = c.object
join log_resources r on r.id = o.resource
join log_clusters k on k.id = r.cluster
left join log_audit a on a.resource = o.resource and a.name = o.name and a.namespace = o.namespace and a.uid = o.uid
  and a.code between 200 and 299 and json_extract(a.rest, '$.retried') is null and c.op & 256 = 0 and case c.op & 255 when 99 then a.created when 114 then false
    else json_extract(a.rest, '$.effect') = 'wrote' and a.before <> c.version
      and a.before = (select p.version from log_changes p where p.object = c.object and p.id < c.id order by p.id desc limit 1) end
left join log_requesters q on q.id = a.requester;
