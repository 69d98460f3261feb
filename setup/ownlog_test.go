package setup

import (
	"testing"

	"kubecdc/config"
)

// Which log a question is about, by the logs that there are, and by what is known of the cluster.
func TestTheLogThatIsRead(t *testing.T) {
	kind := []EmbeddedLog{{Cluster: "kind@22222222", UID: "2"}, {Cluster: "kind", UID: "1"}}
	for what, c := range map[string]struct {
		all        []EmbeddedLog
		uid        string
		identified bool
		want       string // "": there is none
		says       bool
	}{
		"its own":                        {kind, "1", true, "kind", false},
		"its own, of a later cluster":    {kind, "2", true, "kind@22222222", false},
		"of another context":             {append([]EmbeddedLog{{Cluster: "old", UID: "3"}}, kind...), "3", true, "old", true},
		"none of this cluster":           {kind, "4", true, "", false},
		"its uid may not be seen":        {kind, "", true, "kind", false},
		"its uid may not be seen, none":  {[]EmbeddedLog{{Cluster: "old", UID: "3"}}, "", true, "", false},
		"it can't be reached":            {kind, "", false, "kind@22222222", true},
		"it can't be reached, one":       {kind[1:], "", false, "kind", false},
		"it can't be reached, of others": {[]EmbeddedLog{{Cluster: "old", UID: "3"}}, "", false, "", false},
	} {
		cluster := &Cluster{Connection: &config.Connection{}}
		cluster.Cluster, cluster.Identity.UID = "kind", c.uid
		message, err := cluster.chooseToRead(c.all, c.identified)
		if (err == nil) != (c.want != "") || err == nil && cluster.Cluster != c.want || (message != "") != c.says {
			t.Errorf("%s: %s, %q, %v", what, cluster.Cluster, message, err)
		}
	}
}
