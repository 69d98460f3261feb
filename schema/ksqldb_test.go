package schema_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/schema"
)

// ksqlWords are the words of ksqlDB's grammar that the statements are made of.
var ksqlWords = strings.Fields("SET CREATE STREAM TABLE WITH PRIMARY KEY STRING BIGINT DOUBLE BOOLEAN STRUCT MAP ARRAY " +
	"KAFKA_TOPIC KEY_FORMAT VALUE_FORMAT")

// A member may be called from, end or limit, which ksqlDB reserves: every name is quoted.
func TestKSQLDBQuotesEveryName(t *testing.T) {
	quoted := regexp.MustCompile("--.*|`[^`]*`|'[^']*'")
	for _, r := range []change.Resource{pods, deployments, autoscalers, widgets} {
		statements := write(t, "ksqldb", r, choose(t, typeOf(t, r), schema.Columns{}))
		if !strings.Contains(statements, "CREATE STREAM `") {
			t.Errorf("%s: no CREATE STREAM", r.ID())
		}
		for _, word := range regexp.MustCompile(`\w+`).FindAllString(quoted.ReplaceAllString(statements, " "), -1) {
			if !slices.Contains(ksqlWords, word) {
				t.Errorf("%s: %s is not quoted", r.ID(), word)
			}
		}
	}
}
