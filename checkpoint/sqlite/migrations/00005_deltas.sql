-- +goose Up

-- What an update changes of a body is stored as a delta of it, which is its base. Bases have a table of their own: SQLite writes
-- the whole row again when a part of it changes, and so many rows without bases take one page.
alter table inventory rename to former;
create table inventory (
  id               integer primary key,
  stream           integer not null,
  key              text not null,
  uid              text not null,
  resource_version text not null,
  lost             integer not null default false, -- the log has lost its record of the object
  delta            blob, -- empty: the base is the body; null: there is no body
  unique (stream, key)
) strict;
insert into inventory
  select rowid, stream, key, uid, resource_version, lost, case when body is not null then x'' end from former order by rowid;
create table bases (
  id   integer primary key references inventory on delete cascade,
  base blob not null -- compressed
) strict;
insert into bases select rowid, body from former where body is not null order by rowid;
drop table former;

-- +goose StatementBegin
create trigger forget_base after update of delta on inventory when new.delta is null and old.delta is not null begin
  delete from bases where id = new.id;
end;
-- +goose StatementEnd
