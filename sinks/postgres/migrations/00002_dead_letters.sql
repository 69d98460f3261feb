-- +goose Up

create table dead_letters (
  cluster text not null,
  slot    int not null,
  epoch   bigint not null,
  batch   bigint not null,
  n       int not null,         -- within the batch, from 1
  time    timestamptz not null, -- when it was written, by this server's clock
  stream  text not null,
  reason  text not null,        -- why it can't be read
  body    bytea not null,       -- as it came
  primary key (cluster, slot, epoch, batch, n)
);
comment on table dead_letters is 'what the API server sent and could not be read as an object, as it came';
