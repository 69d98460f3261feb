-- Run by internal/pgdb in one transaction, with this schema as its search_path.

-- What lived at a moment is read in etcd's order, bytewise by namespace/name. It is what lives now, and what was deleted after the moment.
-- Each index has one expression, so that write_batch never takes it for the primary key.
create index objects_by_key on objects (((cluster || '/' || resource || '/' || namespace || '/' || name) collate "C"));
create index changes_deleted on changes (((cluster || '/' || resource || '/' || namespace || '/' || name) collate "C"), written) where op = 'd';

-- Deletions that were found by comparing states: before their gap's end nobody knows when they happened.
create index changes_found on changes (((cluster || '/' || resource || '/' || namespace || '/' || name) collate "C"))
  where op = 'd' and (inferred or gap is not null);

-- An object's last change by a time is found without reading its other changes. Until the end the table can be read.
alter index changes_by_object rename to changes_by_object_;
create index changes_by_object on changes (cluster, resource, namespace, name, written);
drop index changes_by_object_;
