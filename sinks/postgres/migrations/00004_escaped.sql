-- Texts that come from objects are stored escaped, since they may have a NUL: see Escape in internal/pgdb. Changes that were written
-- before stay as they are: a U+0001 in them is not escaped.
update objects set name = replace(name, e'\x01', e'\x01\x02') where position(e'\x01' in name) > 0;
comment on column changes.name is 'with U+0001 U+0001 for a NUL, and U+0001 U+0002 for a U+0001, as in all texts that come from objects';
comment on column objects.name is 'with U+0001 U+0001 for a NUL, and U+0001 U+0002 for a U+0001, as in all texts that come from objects';
