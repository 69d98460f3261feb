-- Run by internal/pgdb in one transaction, with this schema as its search_path.

create table schemas (
  cluster  text not null,
  path     text not null,        -- apis/apps/v1
  since    timestamptz not null, -- when the exporter read it first, by its clock
  hash     text not null,        -- the API server's
  document bytea not null,       -- gzip
  primary key (cluster, path, since)
);
comment on table schemas is 'OpenAPI v3 documents of the API server, since when they were served';
