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
