-- Texts that come from objects are stored escaped, since they may have a NUL: see Escape in internal/pgdb.
update inventory set key = replace(key, e'\x01', e'\x01\x02') where position(e'\x01' in key) > 0;
