{head}BEGIN;
DROP VIEW IF EXISTS {objects}, {changes};

-- The objects as they are.
CREATE VIEW {objects} AS SELECT
  {object columns},
{object members}
FROM (SELECT *, {object body} AS readable FROM kubecdc_log.objects) AS objects
WHERE api_group = {group} AND resource = {plural};

-- Every change: the object as the change left it; of a delete, as it was before.
CREATE VIEW {changes} AS SELECT
  {change columns},
{change members}
FROM (SELECT *, {change body} AS readable FROM kubecdc_log.changes) AS changes
WHERE api_group = {group} AND resource = {plural};

COMMIT;
