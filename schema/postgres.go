package schema

import "strings"

// The columns of the Postgres sink's tables (sinks/postgres/migrations) that the views have too.
var (
	objectColumns = []string{"cluster", "namespace", "name", "uid", "resource_version", "time"}
	changeColumns = []string{"cluster", "slot", "epoch", "batch", "n", "written", "time", "op", "namespace", "name", "uid",
		"resource_version", "inferred", "gap"}
)

// postgres makes two views of the sink's tables: of the objects as they are, and of all changes.
func postgres(t Table) (string, error) {
	objects, err := flatten(t.Object, objectColumns...)
	if err != nil {
		return "", err
	}
	changes, err := flatten(t.Object, changeColumns...)
	if err != nil {
		return "", err
	}
	now, history := quote(`"`, t.name()), quote(`"`, t.name()+"_changes")
	where := "\nWHERE api_group = " + quote("'", t.Resource.Group) + " AND resource = " + quote("'", t.Resource.Plural) + ";\n"
	return comment("--", t.Resource.ID()+" ("+t.Resource.APIVersion()+"), tables of the Postgres sink",
		"Maps, lists and objects without a schema are of type json.") + `BEGIN;
DROP VIEW IF EXISTS ` + now + ", " + history + `;

-- The objects as they are.
CREATE VIEW ` + now + ` AS SELECT
  ` + strings.Join(objectColumns, ", ") + `,
` + arrows(objects, "body") + `
FROM kubecdc_log.objects` + where + `
-- Every change: the object as the change left it; of a delete, as it was before.
CREATE VIEW ` + history + ` AS SELECT
  ` + strings.Join(changeColumns, ", ") + `,
` + arrows(changes, "body") + `
FROM (SELECT *, coalesce(after, before) AS body FROM kubecdc_log.changes) AS changes` + where + `
COMMIT;
`, nil
}
