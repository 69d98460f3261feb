-- Run by internal/pgdb in one transaction, with this schema as its search_path.

-- The streams that the log has, also those without objects, are found without reading other control records.
create index control_begins on control (cluster, stream) where type = 'snapshot-begin';
