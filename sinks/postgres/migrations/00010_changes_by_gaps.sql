-- Run by internal/pgdb in one transaction, with this schema as its search_path.

-- As before. But the first change of an object in a gap has no username: the revisions before it may be lost, and their writers with them.
create or replace view changes_by as
  select c.cluster, r.resource, c.namespace, c.name, c.uid, c.op, c.resource_version as version, c.time, a.told->>'user' as username,
    a.told->>'impersonatedUser' as impersonated, a.verb, a.told->>'subresource' as subresource, a.told->>'userAgent' as user_agent,
    a.told->>'auditID' as audit_id
  from changes c
  cross join lateral (select c.resource || coalesce('.' || nullif(c.api_group, ''), '') as resource) r
  left join lateral (
    select *, replace(record::text, '\u0000', '\ufffd')::json as told from audit
    where cluster = c.cluster and resource = r.resource and name = c.name and namespace = c.namespace and uid = c.uid and code between 200 and 299
  ) a on not c.inferred and a.told->>'retried' is null and coalesce(a.told->>'effect', '') <> 'nothing' and case c.op
    when 'c' then a.told->>'created' = 'true' and position('?' in c.stream) = 0
    when 'r' then false
    else (
      select (c.op = 'u' and p.resource_version = a.told->>'versionBegan' and a.version_before = c.resource_version
        or p.resource_version = a.version_before
          and case a.told->>'effect' when 'wrote' then (nullif(c.resource_version, '')::numeric - nullif(a.version_before, '')::numeric) % 420 <> 0
            else a.version_after not in ('', a.version_before) end
          and (c.op = 'd' or c.resource_version::numeric > nullif(a.version_before, '')::numeric and a.version_after in ('', c.resource_version)))
        and (c.gap is null or p.gap = c.gap)
      from changes p where p.cluster = c.cluster and p.resource = c.resource and p.api_group = c.api_group
        and p.namespace = c.namespace and p.name = c.name and p.uid = c.uid
        and (p.written, p.epoch, p.batch, p.n) < (c.written, c.epoch, c.batch, c.n)
      order by p.written desc, p.epoch desc, p.batch desc, p.n desc limit 1) end;
