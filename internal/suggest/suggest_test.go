package suggest_test

import (
	"testing"

	"kubecdc/internal/suggest"
)

func TestNames(t *testing.T) {
	names := []string{"history", "state", "status", "tail"}
	for text, want := range map[string]string{"hist": "history", "sta": "", "tial": "tail", "histroy": "history", "x": ""} {
		if got := suggest.Name(text, names); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
