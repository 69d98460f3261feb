-- +goose Up

-- How many objects of a stream live by all batches. If log_objects has another number, somebody has removed some.
alter table log_streams add column objects integer not null default 0;
update log_streams set objects = (select count(*) from log_objects where stream = log_streams.id and gone is null);
