-- +goose Up

-- What many batches of a slot did to positions in half a minute, if no control record is beside them: whoever asks how far streams had
-- come reads it in their place.
create table log_spans (
  first     integer primary key, -- batch
  last      integer not null,    -- batch
  slot      integer not null,
  batches   integer not null,    -- how many
  earliest  integer not null,    -- time of their positions
  positions text not null        -- the last one of each stream, as if the last batch had all
);
