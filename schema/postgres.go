package schema

import "strings"

// The columns of the Postgres sink's tables (sinks/postgres/migrations) that the views have too.
var (
	objectColumns = []string{"cluster", "namespace", "name", "uid", "resource_version", "time"}
	changeColumns = []string{"cluster", "slot", "epoch", "batch", "n", "written", "time", "op", "namespace", "name", "uid",
		"resource_version", "inferred", "gap"}
)

// withoutNUL returns an expression for a body that all operators can read. A text can't have a NUL, and half of a surrogate pair is
// no character: where a body has an escape of one, even in another member, ->> would be an error. It becomes U+FFFD. The
// backslashes before an escape are an even number; otherwise it is none.
func withoutNUL(body string) string {
	const one = `'(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\u)[dD][c-fC-F]..)'`
	return "CASE WHEN " + body + `::text !~ '\\u(?:0000|[dD][89a-fA-F])' THEN ` + body + `
  ELSE regexp_replace(` + body + `::text, ` + one + `, '\1` + "\uFFFD" + `', 'g')::json END`
}

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
	text := comment("--", t.Resource.ID()+" ("+t.Resource.APIVersion()+"), tables of the Postgres sink",
		"Maps, lists and objects without a schema are of type json. A NUL is shown as U+FFFD, since a text can't have it.") + `BEGIN;
DROP VIEW IF EXISTS ` + now + ", " + history + `;

-- The objects as they are.
CREATE VIEW ` + now + ` AS SELECT
  ` + strings.Join(objectColumns, ", ") + `,
` + arrows(objects, "readable") + `
FROM (SELECT *, ` + withoutNUL("body") + ` AS readable FROM kubecdc_log.objects) AS objects` + where + `
-- Every change: the object as the change left it; of a delete, as it was before.
CREATE VIEW ` + history + ` AS SELECT
  ` + strings.Join(changeColumns, ", ") + `,
` + arrows(changes, "readable") + `
FROM (SELECT *, ` + withoutNUL("coalesce(after, before)") + ` AS readable FROM kubecdc_log.changes) AS changes` + where + `
COMMIT;
`
	return strings.ReplaceAll(text, "\x00", "\uFFFD"), nil // a member's name may have one
}
