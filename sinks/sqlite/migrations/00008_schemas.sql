-- +goose Up

-- OpenAPI v3 documents of the API server, and the list of selected resources, since when they were served.
create table log_schemas (
  cluster  integer not null,
  path     text not null,    -- apis/apps/v1, or resources
  since    integer not null, -- microseconds since 1970
  hash     text not null,    -- changes with the document
  document blob not null,    -- gzip
  primary key (cluster, path, since)
);
