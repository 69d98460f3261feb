-- +goose Up

-- Which log this is: made anew with the tables, and kept by backups and replicas, whatever the server's address is.
create table identity (
  id uuid not null default gen_random_uuid()
);
insert into identity default values;
