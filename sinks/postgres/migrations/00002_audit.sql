-- Run by internal/pgdb in one transaction, with this schema as its search_path.

create table audit (
  cluster        text not null,
  id             text not null,           -- the same each time that the event comes
  received       timestamptz not null,    -- when the exporter got the event, by its clock
  time           timestamptz not null,    -- when the API server received the request
  resource       text not null,           -- with its group: deployments.apps
  namespace      text not null,
  name           text not null,           -- '' of a deletecollection
  uid            text not null,           -- '' where the event does not tell
  version_before text not null,           -- the resourceVersion that the request found; '' where the event does not tell
  version_after  text not null,
  who            text not null,           -- as whom the request acted
  verb           text not null,
  code           int not null,
  record         json not null,           -- all of it
  primary key (cluster, id)
);
create index audit_by_name on audit (cluster, resource, name);
create index audit_by_who on audit (cluster, who, received);
create index audit_by_time on audit (received);
comment on table audit is 'who asked: a row for each request that could have changed an object; it goes with the history of the changes';

-- A column "user" would be the role that asks, wherever it is not quoted. Postgres can't read a \u0000 in JSON: of a user's name it becomes
-- U+FFFD, and the version before is not read from a body.
create view changes_by as
  select c.cluster, r.resource, c.namespace, c.name, c.uid, c.op, c.resource_version as version, c.time, a.told->>'user' as username,
    a.told->>'impersonatedUser' as impersonated, a.verb, a.told->>'subresource' as subresource, a.told->>'userAgent' as user_agent,
    a.told->>'auditID' as audit_id
  from changes c
  cross join lateral (select c.resource || coalesce('.' || nullif(c.api_group, ''), '') as resource) r
  left join lateral (
    select *, replace(record::text, '\u0000', '\ufffd')::json as told from audit
    where cluster = c.cluster and resource = r.resource and name = c.name and namespace = c.namespace and uid = c.uid and code between 200 and 299
  ) a on not c.inferred and a.told->>'retried' is null and case c.op when 'c' then a.told->>'created' = 'true' when 'r' then false
    else a.told->>'effect' = 'wrote' and a.version_before <> c.resource_version and a.version_before = (
      select p.resource_version from changes p where p.cluster = c.cluster and p.resource = c.resource and p.api_group = c.api_group
        and p.namespace = c.namespace and p.name = c.name and p.uid = c.uid
        and (p.written, p.epoch, p.batch, p.n) < (c.written, c.epoch, c.batch, c.n)
      order by p.written desc, p.epoch desc, p.batch desc, p.n desc limit 1) end;
comment on view changes_by is 'each change with the request that is known to have made it (docs/who.md, grade exact); no username: none is. Several rows for one change: it was one of them. The version before is that of the object''s change before';
