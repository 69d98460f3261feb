package apiclient

import (
	"testing"

	"kubecdc/change"
)

// An answer to any request over the connection of a watch shows what has come over it, if the watch was open before the request.
func TestAnyAnswerOverAWatchsConnectionIsASignOfLife(t *testing.T) {
	_, client := newClusters(t)
	pods := change.NewStream(change.Resource{Version: "v1", Plural: "pods"}, "", "", "")
	if _, err := listOf("pods", client); err != nil {
		t.Fatal(err)
	}
	w, err := client.Watch(t.Context(), pods, false, "7", 60)
	must(t, err)
	defer w.Close()
	over := w.Connection()
	before := client.Answered(over)
	if before.IsZero() || over.Shows(over, before) {
		t.Errorf("an answer from before the watch was open (%s) shows what has come", before)
	}
	if _, err := listOf("secrets", client); !IsRefused(err) {
		t.Fatal(err)
	}
	if after := client.Answered(over); !after.After(before) || !over.Shows(over, after) {
		t.Errorf("a 404 shows nothing: it was asked for at %s, the answer before it at %s", after, before)
	}
	fresh, err := client.Fresh()
	must(t, err)
	other, asked := fresh.Confirm(t.Context())
	if other == nil || over.Shows(other, asked) || !client.Answered(other).IsZero() {
		t.Errorf("an answer over another connection (%v) shows what has come over this one", other)
	}
}
