package checkpointtest

import (
	"errors"
	"strings"
	"testing"

	"kubecdc/checkpoint"
)

func bindLog(t *testing.T, s *suite) {
	s.must(s.store.BindLog(s.ctx, "kafka:abc/prod"))
	s.must(s.store.BindLog(s.ctx, "kafka:abc/prod"))
	err := s.store.BindLog(s.ctx, "kafka:abc/test")
	var other *checkpoint.OtherLogError
	if !errors.As(err, &other) || other.Cluster != "prod" || other.Stored != "kafka:abc/prod" || other.Found != "kafka:abc/test" {
		t.Fatalf("error is %v", err)
	}
	if text := err.Error(); !strings.Contains(text, "KUBECDC_CHECKPOINT") || !strings.Contains(text, "kafka:abc/test") {
		t.Fatalf("the error does not say what to do: %s", text)
	}
	Bind(s.t, s.store, "staging", "uid-2")
	s.must(s.store.BindLog(s.ctx, "kafka:abc/test"))
}

func pinPartitions(t *testing.T, s *suite) {
	for _, step := range []struct {
		topic     string
		found     int
		anew      bool
		want      int
		otherwise string
	}{
		{"a", 3, true, 3, "a new topic"},
		{"a", 5, false, 3, "partitions were added"},
		{"b", 7, false, 7, "another topic, which was there already"},
		{"a", 2, false, 2, "it was made anew behind our back, with fewer"},
		{"a", 5, false, 2, "partitions were added again"},
		{"a", 6, true, 6, "it was made anew"},
	} {
		got, err := s.store.PinPartitions(s.ctx, step.topic, step.found, step.anew)
		s.must(err)
		if got != step.want {
			t.Errorf("%s: %d partitions of %d, want %d", step.otherwise, got, step.found, step.want)
		}
	}
	Bind(s.t, s.store, "staging", "uid-2")
	if got, err := s.store.PinPartitions(s.ctx, "a", 9, false); err != nil || got != 9 {
		t.Errorf("another cluster: %d partitions, %v", got, err)
	}
}
