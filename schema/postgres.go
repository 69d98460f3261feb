package schema

import "strings"

// These columns of the Postgres sink's tables (sinks/postgres/migrations) are in the views, too.
var (
	objectColumns = []string{"cluster", "namespace", "name", "uid", "resource_version", "time"}
	changeColumns = []string{"cluster", "slot", "epoch", "batch", "n", "written", "time", "op", "namespace", "name", "uid",
		"resource_version", "inferred", "gap"}
)

// withoutNUL returns an expression for a body that all operators can read. A text can't contain NUL, or half of a surrogate pair.
// If a body has an escape for one, even in another member, ->> would be an error. The expression replaces it by U+FFFD. An escape
// has an even number of backslashes before it.
func withoutNUL(body string) string {
	const one = `'(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\u)[dD][c-fC-F]..)'`
	return "CASE WHEN " + body + `::text !~ '\\u(?:0000|[dD][89a-fA-F])' THEN ` + body + `
  ELSE regexp_replace(` + body + `::text, ` + one + `, '\1` + "\uFFFD" + `', 'g')::json END`
}

// postgres makes two views of the sink's tables, one of the current objects and one of all changes.
func postgres(t Table) (string, error) {
	objects, err := flatten(t.Object, objectColumns...)
	if err != nil {
		return "", err
	}
	changes, err := flatten(t.Object, changeColumns...)
	if err != nil {
		return "", err
	}
	text := fill("postgres.sql", "head", comment("--", t.Resource.ID()+" ("+t.Resource.APIVersion()+
		"), tables of the Postgres sink",
		"Maps, lists and objects without a schema are of type json. A NUL is shown as U+FFFD, since a text can't have it."),
		"objects", quote(`"`, t.name()), "object columns", strings.Join(objectColumns, ", "), "object members",
		arrows(objects, "readable"),
		"object body", withoutNUL("body"),
		"changes", quote(`"`, t.name()+"_changes"), "change columns", strings.Join(changeColumns, ", "),
		"change members", arrows(changes, "readable"), "change body", withoutNUL("coalesce(after, before)"),
		"group", quote("'", t.Resource.Group), "plural", quote("'", t.Resource.Plural))
	return strings.ReplaceAll(text, "\x00", "\uFFFD"), nil // a member's name may contain it
}
