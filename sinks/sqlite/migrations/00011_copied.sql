-- +goose Up

-- Another log that is copied into this file.
create table log_copied (
  identity text not null, -- of the other log; empty: the copy begins anew
  cut      text not null  -- up to which the file has it, as JSON
);

-- Since when the changes of a resource are complete, if that is later than for the file, and what was lost without a gap record.
create table log_incomplete (
  resource integer primary key,
  since    integer not null,
  lost     text not null
);

-- The dead letters of changes whose bodies are stubs.
create table log_stubs (
  change      integer primary key,
  dead_letter text not null
);
