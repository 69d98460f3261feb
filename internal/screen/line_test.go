package screen_test

import (
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/screen"
)

var now = time.Date(2026, 11, 26, 14, 0, 0, 0, time.Local)

// Any line fits. The changed fields are shortened before the author.
func TestAChangeFitsIntoALine(t *testing.T) {
	plain := screen.NewColours(false)
	c := screen.Change{Time: now, Op: change.Update, Resource: "deployments.apps", Namespace: "shop", Name: "web", What: "spec.template, metadata.annotations", Author: "alice"}
	for width, want := range map[int]string{
		100: "14:00:00 ~ deploy/web -n shop  spec.template, metadata.annotations  by alice",
		60:  "14:00:00 ~ deploy/web -n shop  spec.template, met…  by alice",
		20:  "14:00:00 ~ deploy/w…",
	} {
		if got := string(c.Line(width, plain, now)); got != want {
			t.Errorf("in %d columns: %q, want %q", width, got, want)
		}
	}
	for _, name := range []string{"数据库-配置-配置-配置-配置", "👩‍👩‍👧-a\x1b[2J", strings.Repeat("e\u0301", 40)} {
		c.Name, c.What = name, name
		for width := 20; width < 120; width++ {
			if got := screen.Width(string(c.Line(width, plain, now))); got > width {
				t.Errorf("%q takes %d columns of %d", name, got, width)
			}
		}
	}
}

func TestATimeHasTheDateOfAnotherDay(t *testing.T) {
	for want, age := range map[string]time.Duration{"13:59:00": time.Minute, "Nov 25 14:00:00": 24 * time.Hour, "2025-11-26 14:00:00": 365 * 24 * time.Hour} {
		if got := screen.Clock(now.Add(-age), now); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
