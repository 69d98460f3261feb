-- +goose Up

-- The log lies beside the checkpoint in one file, so its tables begin with log_. One counter numbers batches and changes: a batch
-- takes the next number, and its changes those after it. So the numbers are the order of the log, and the batch of a change is the
-- last one before it. Times are milliseconds since 1970.

create table log_identity (id text not null);
insert into log_identity values (lower(hex(randomblob(16))));

create table log_clusters (
  id      integer primary key,
  cluster text not null unique, -- its name
  uid     text not null         -- its identity: no other cluster of that name may write
);

create table log_slots (
  id      integer primary key,
  cluster integer not null,
  slot    integer not null,
  epoch   integer not null,           -- of the newest owner; older ones can write no more
  seq     integer not null default 0, -- of the last batch
  unique (cluster, slot)
);

create table log_resources (
  id       integer primary key,
  cluster  integer not null,
  resource text not null, -- deployments.apps
  unique (cluster, resource)
);

-- What the bodies of a resource are packed with.
create table log_dictionaries (
  resource   integer primary key,
  dictionary blob not null
);

create table log_streams (
  id       integer primary key,
  resource integer not null,
  stream   text not null,
  unique (resource, stream)
);

-- Of a slot, ids and numbers rise together.
create table log_batches (
  id        integer primary key,
  slot      integer not null, -- of log_slots
  epoch     integer not null,
  seq       integer not null,
  written   integer not null, -- never less than that of the batch before, whatever the clock does
  changes   integer not null,
  positions text not null     -- [stream, resourceVersion, ms before written, 1 if a watermark says so, ended] of each stream that it moves
);

-- A name that comes back with another uid is another object.
create table log_objects (
  id        integer primary key, -- of its first change
  resource  integer not null,
  namespace text not null,
  name      text not null,
  uid       text not null,
  stream    integer not null, -- of its last change
  gone      integer           -- the change that deleted it
);
create unique index log_objects_by_name on log_objects (resource, name, namespace, uid);
create index log_objects_live on log_objects (stream) where gone is null;

-- A body is whole (back is 0), or what differs from the whole body of the same object that so many numbers before has.
create table log_changes (
  id      integer primary key,
  object  integer not null,
  stream  integer not null,
  op      integer not null, -- the letter's code; + 256: inferred; + 512: the state before is that of the object's change before
  version not null,         -- the resourceVersion: a number, or text where it is none
  time    integer not null, -- when the exporter saw it
  gap     text,             -- in which it was found
  back    integer,          -- null: no body
  body    blob,
  before  blob              -- whole, where the state before is no other change's
);
create index log_changes_by_object on log_changes (object, id);

create table log_controls (
  batch  integer not null,
  n      integer not null,
  record text not null,
  primary key (batch, n)
) without rowid;

create table log_dead_letters (
  batch  integer not null,
  n      integer not null,
  stream text not null,
  reason text not null,
  body   blob not null, -- as it came
  primary key (batch, n)
);

create table log_positions (
  stream  integer primary key,
  version text not null, -- empty: its first list has not ended, or the log has lost it
  time    integer not null,
  ended   text not null
);

-- What the history begins after. Of changes up to there those remain that later bodies, or objects that live, are made of.
create table log_kept (
  after integer not null, -- the last change, or batch, that may be gone
  since integer not null  -- when the batch after that was written; 0: nothing is gone
);
insert into log_kept values (0, 0);

-- Who asked: what many audit records have in common, as JSON.
create table log_requesters (
  id   integer primary key,
  who  text not null, -- as whom the requests acted
  told text not null unique
);

-- Audit records, in the order in which they came. Times are microseconds since 1970.
create table log_audit (
  n           integer primary key,
  id          blob not null unique,
  requester   integer not null,
  received    integer not null,
  time        integer not null,
  answered    integer not null,
  resource    integer not null,
  namespace   text not null,
  name        text not null,
  uid         text not null,
  before      not null, -- the resourceVersion before the request, as in log_changes; empty: not told
  after       not null,
  created     integer not null,
  verb        text not null,
  subresource text not null,
  code        integer not null,
  rest        text not null -- the other members of the record, as JSON
);
create index log_audit_by_name on log_audit (resource, name);
create index log_audit_by_requester on log_audit (requester);
create index log_audit_by_time on log_audit (received);
