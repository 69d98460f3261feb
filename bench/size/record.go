package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// recorded is the number of the objects whose lives are recorded.
const recorded = 7777

// Life is all that a watch shows of an object, as templates. «N» is its number, «U» its uid, «V» the resourceVersion, «T2» the time of
// its third state, «M2» that time with microseconds. «H3-23» is a part of the text that no other object has.
type Life struct {
	Types  []string
	States []json.RawMessage
}

// record writes the life of one object of each resource, for bench/capacity.
func (l *load) record(ctx context.Context, file string) error {
	l.pause = 1100 * time.Millisecond // times have seconds
	if err := l.makeNode(ctx, recorded); err != nil {
		return err
	}
	lives := map[string]Life{}
	for _, r := range []struct {
		name, path string
		write      func() error
	}{
		{"leases", leasesPath, func() error { return l.renew(ctx, recorded, 2) }},
		{"nodes", nodesPath, func() error { return l.beat(ctx, recorded, 2) }},
		{"pods", podsPath, func() error { return l.live(ctx, recorded) }},
		{"events", eventsPath, func() error { return l.event(ctx, recorded) }},
		{"deployments", appsPath + "deployments", func() error { return l.roll(ctx, "deployments", recorded, 1) }},
		{"replicasets", appsPath + "replicasets", func() error { return l.roll(ctx, "replicasets", recorded, 1) }},
		{"endpointslices", slicesPath, func() error { return l.replaceEndpoint(ctx, recorded) }},
		{"jobs", jobsPath, func() error { return l.work(ctx, recorded) }},
	} {
		life, err := l.watched(ctx, r.path, r.write)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		lives[r.name] = life
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(lives)
}

// watched records what a watch shows while something is written.
func (l *load) watched(ctx context.Context, path string, write func() error) (life Life, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := l.api.Get().AbsPath(path).Param("watch", "1").Stream(ctx)
	if err != nil {
		return life, err
	}
	defer stream.Close()
	if err := write(); err != nil {
		return life, err
	}
	time.AfterFunc(2*time.Second, cancel) // the watch has shown all by then
	var times []time.Time
	s := bufio.NewScanner(stream)
	for s.Buffer(nil, 1<<20); s.Scan(); {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := json.Unmarshal(s.Bytes(), &event); err != nil {
			return life, err
		}
		times = append(times, madeAt(string(event.Object), times))
		life.Types = append(life.Types, event.Type)
		life.States = append(life.States, json.RawMessage(templateOf(string(event.Object), times)))
	}
	return life, nil
}

var (
	timeText  = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z`)
	ownPart   = regexp.MustCompile(`[0-9a-f]{20,64}`)
	uidText   = regexp.MustCompile(`"uid":"[0-9a-f-]{36}"`) // the first one is the object's own
	rvText    = regexp.MustCompile(`"resourceVersion":"\d+"`)
	yearsAway = 24 * time.Hour
)

// madeAt is the newest time in an object's bytes, or a second after the state before.
func madeAt(object string, before []time.Time) (newest time.Time) {
	for _, text := range timeText.FindAllString(object, -1) {
		if t, err := time.Parse(time.RFC3339, text); err == nil && t.After(newest) && time.Since(t).Abs() < yearsAway {
			newest = t
		}
	}
	if n := len(before); n > 0 && !newest.After(before[n-1]) {
		newest = before[n-1].Add(time.Second)
	}
	return newest
}

func templateOf(object string, times []time.Time) string {
	own := render("%OWN", recorded, "")
	if own := uidText.FindString(object); own != "" {
		object = strings.Replace(object, own, `"uid":"«U»"`, 1)
	}
	object = rvText.ReplaceAllString(object, `"resourceVersion":"«V»"`)
	object = ownPart.ReplaceAllStringFunc(object, func(part string) string {
		if from := strings.Index(own, part); from >= 0 {
			return fmt.Sprintf("«H%d-%d»", from, from+len(part))
		}
		return part
	})
	object = timeText.ReplaceAllStringFunc(object, func(text string) string {
		t, _ := time.Parse(time.RFC3339, text)
		step := 0
		for i, made := range times {
			if !t.Before(made.Truncate(time.Second)) {
				step = i
			}
		}
		switch {
		case t.Before(times[0].Add(-yearsAway)):
			return text
		case strings.Contains(text, "."):
			return fmt.Sprintf("«M%d»", step)
		}
		return fmt.Sprintf("«T%d»", step)
	})
	return strings.ReplaceAll(object, fmt.Sprint(recorded), "«N»")
}
