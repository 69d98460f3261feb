-- Run by internal/pgdb in one transaction, with this schema as its search_path.

create table schemas (
  cluster  text not null,
  path     text not null,        -- apis/apps/v1, or resources
  since    timestamptz not null, -- when the exporter read it first, by its clock
  hash     text not null,        -- changes with the document
  document bytea not null,       -- gzip
  primary key (cluster, path, since)
);
comment on table schemas is 'OpenAPI v3 documents of the API server, and the list of selected resources, since when they were served';
