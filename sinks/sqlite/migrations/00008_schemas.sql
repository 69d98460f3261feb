-- +goose Up

-- OpenAPI v3 documents of the API server, since when they were served.
create table log_schemas (
  cluster  integer not null,
  path     text not null,    -- apis/apps/v1
  since    integer not null, -- microseconds since 1970
  hash     text not null,    -- the API server's
  document blob not null,    -- gzip
  primary key (cluster, path, since)
);
