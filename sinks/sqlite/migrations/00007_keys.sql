-- +goose Up

-- What lived at a moment is read in etcd's order, bytewise by namespace/name.
alter table log_objects add column key text as (namespace || '/' || name) virtual;
drop index log_objects_by_name;
create unique index log_objects_by_key on log_objects (resource, key, uid);

-- Deletions that were found by comparing states: before their gap's end nobody knows when they happened.
create index log_changes_found on log_changes (object) where op & 255 = 100 and (op & 256 <> 0 or gap is not null);
