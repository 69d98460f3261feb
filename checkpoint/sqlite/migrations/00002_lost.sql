-- +goose Up

-- Objects that the log had lost had a minus before their resourceVersion. The table is copied, since a new column would come after
-- the body: see version 1.
create table marked (
  stream           integer not null,
  key              text not null,
  uid              text not null,
  resource_version text not null,
  lost             integer not null default false, -- the log has lost its record of the object
  body             blob, -- compressed; null where before-images are off
  primary key (stream, key)
) strict;
insert into marked
  select stream, key, uid, ltrim(resource_version, '-'), resource_version like '-%', body from inventory order by stream, key;
drop table inventory;
alter table marked rename to inventory;
