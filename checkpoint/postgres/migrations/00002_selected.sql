-- Run by internal/pgdb in one transaction, with this schema as its search_path.

-- The streams that the slot's owner has selected, as a JSON list; empty until an owner has recorded them.
alter table slots add column selected text not null default '';
