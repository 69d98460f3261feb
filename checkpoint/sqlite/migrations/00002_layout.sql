-- +goose Up

-- How many slots the streams hash onto. Slots beyond that are left over from an earlier layout.
create table layouts (
  cluster integer primary key references clusters,
  slots   integer not null
) strict;
insert into layouts select cluster, max(slot) + 1 from slots group by cluster;
