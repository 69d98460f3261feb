-- The last gap and the last proof of each stream, for a status.
create table last_controls (
  stream  int not null references streams,
  type    text not null,
  control json not null,
  primary key (stream, type)
) with (fillfactor = 70);
