-- +goose Up

-- Which namespaces are streams of their own: RESOURCE@NAMESPACE, ordered bytewise, with commas between.
alter table layouts add column split text not null default '';

-- Of streams that were merged: {"namespace":"resourceVersion"}, null once the position has passed all.
alter table positions add column floors text;
