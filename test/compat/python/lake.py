# Runs the files of SQL as they are, and prints the changes in changes.parquet and the objects that they leave, as JSON.
#
#   lake.py FOLDER FILE...
import json
import os
import pathlib
import sys

import duckdb

os.chdir(sys.argv[1])

if any("postgres_scanner" in pathlib.Path(file).read_text() for file in sys.argv[2:]):
    from duckdb_extensions import import_extension

    import_extension("postgres_scanner")
db = duckdb.connect()
for file in sys.argv[2:]:
    db.execute(pathlib.Path(file).read_text())


def rows(view):
    return db.execute(f"SELECT resource || ' ' || coalesce(namespace, '') || '/' || name || ' ' || version FROM {view}").fetchall()


print(json.dumps({"changes": [r[0] for r in rows("'changes.parquet'")], "objects": [r[0] for r in rows("objects")]}))
