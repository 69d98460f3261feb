-- +goose Up

-- A statement that may run a trigger takes twice as long: SQLite copies each page before such a statement changes it. Commits delete
-- bases themselves.
drop trigger forget_base;
