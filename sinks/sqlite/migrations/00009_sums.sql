-- +goose Up

-- A checksum of the rows of a batch: SQLite does not notice a damaged value. Null: an earlier release has written the batch.
alter table log_batches add column sum integer;
