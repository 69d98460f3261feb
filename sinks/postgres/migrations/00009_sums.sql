-- Run by internal/pgdb in one transaction, with this schema as its search_path.

-- A checksum of what a batch has in batches, changes and control. The writer sets it for the statement that calls write_batch.
-- Null: an earlier release has written the batch.
alter table batches add column sum bigint;
alter table batches alter column sum set default nullif(current_setting('kubecdc.sum', true), '')::bigint;
comment on column batches.sum is 'checksum of positions, and of the columns in changes and control; null: not known';
