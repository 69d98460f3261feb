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

// Life is all that a watch shows of an object, as templates: «N» is its number, «U» its uid, «V» the resourceVersion, «T2» the time of
// its third state, «M2» that time with microseconds, and «H3-23» a part of the text that no other object has.
type Life struct {
	Types  []string
	States []json.RawMessage
}

// record writes the lives of one object of each resource, for bench/capacity.
func (l *load) record(ctx context.Context, file string) error {
	l.pause = 1100 * time.Millisecond // times have seconds
	at := time.Now().UTC().Format(time.RFC3339)
	lives := map[string]Life{}
	for _, r := range []struct {
		name, path string
		write      func() error
	}{
		{"leases", leasesPath, func() error { return l.beats(ctx, leasesPath, lease, "", `{"spec":{"renewTime":"%T"}}`) }},
		{"nodes", nodesPath, func() error { return l.beats(ctx, nodesPath, node, nodeStatus, heartbeat) }},
		{"pods", podsPath, func() error { return l.live(ctx, recorded) }},
		{"events", eventsPath, func() error { return l.event(ctx, recorded) }},
		{"deployments", appsPath + "deployments", func() error { return l.roll(ctx, "deployments", recorded, 1) }},
		{"replicasets", appsPath + "replicasets", func() error { return l.roll(ctx, "replicasets", recorded, 1) }},
		{"endpointslices", slicesPath, func() error { return l.replaceEndpoint(ctx) }},
		{"jobs", jobsPath, func() error { return l.work(ctx, at) }},
	} {
		life, err := l.watched(ctx, r.path, r.write)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		lives[r.name] = life
		fmt.Printf("%s: %d states\n", r.name, len(life.States))
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

// beats makes an object and renews it twice.
func (l *load) beats(ctx context.Context, path, object, status, beat string) error {
	name := fmt.Sprintf("%s/node-%d", path, recorded)
	steps := [][4]string{{"POST", path, "kubelet", render(object, recorded, "")}}
	if status != "" {
		steps = append(steps, [4]string{"PATCH", name + "/status", "kubelet", render(status, recorded, "")})
		name += "/status"
	}
	if err := l.all(ctx, steps); err != nil {
		return err
	}
	for range 2 {
		at := time.Now().UTC().Format(time.RFC3339)
		if status == "" {
			at = now()
		}
		if err := l.all(ctx, [][4]string{{"PATCH", name, "kubelet", render(beat, recorded, at)}}); err != nil {
			return err
		}
	}
	return nil
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
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(stream)
		for s.Buffer(nil, 1<<20); s.Scan(); {
			if strings.Contains(s.Text(), fmt.Sprint(recorded)) {
				lines <- s.Text()
			}
		}
	}()
	if err := write(); err != nil {
		return life, err
	}
	time.AfterFunc(2*time.Second, cancel) // the watch has shown all by then
	var times []time.Time
	for line := range lines {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
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

const (
	appsPath   = "/apis/apps/v1/namespaces/default/"
	slicesPath = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	jobsPath   = "/apis/batch/v1/namespaces/default/jobs"
)

// replaceEndpoint makes a slice of ten endpoints, and changes it as the replacement of a pod does: one ends, is gone, another comes, is ready.
func (l *load) replaceEndpoint(ctx context.Context) error {
	path := fmt.Sprintf("%s/app-%d", slicesPath, recorded)
	steps := [][4]string{{"POST", slicesPath, "kube-controller-manager", endpoints(10, "true", "false")}}
	for _, s := range []string{endpoints(10, "false", "true"), endpoints(9, "true", "false"), endpoints(10, "false", "false"), endpoints(10, "true", "false")} {
		steps = append(steps, [4]string{"PATCH", path, "kube-controller-manager", s})
	}
	return l.all(ctx, steps)
}

// endpoints is a slice whose last endpoint is ready or ends.
func endpoints(n int, ready, ending string) string {
	var all []string
	for i := range n {
		r, e := "true", "false"
		if i == 9 {
			r, e = ready, ending
		}
		all = append(all, fmt.Sprintf(`{"addresses":["10.1.%d.3"],"conditions":{"ready":%s,"serving":%[2]s,"terminating":%s},"nodeName":"node-%d",
"targetRef":{"kind":"Pod","name":"app-%d-7c5b6d8f9-%[5]dx","namespace":"default","uid":"0b1f4a52-6f0e-4dd8-9f0b-0000000000%02[1]d"},"zone":"eu-1a"}`, i, r, e, i*31, recorded))
	}
	return render(`{"metadata":{"name":"app-%N","labels":{"endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io",
"kubernetes.io/service-name":"app-%N"}},"addressType":"IPv4","ports":[{"name":"http","port":8080,"protocol":"TCP"}],"endpoints":[`+strings.Join(all, ",")+`]}`, recorded, "")
}

// work is the life of a job with one pod.
func (l *load) work(ctx context.Context, at string) error {
	path := fmt.Sprintf("%s/job-%d", jobsPath, recorded)
	status := func(text string) [4]string {
		return [4]string{"PATCH", path + "/status", "kube-controller-manager", render(text, recorded, at)}
	}
	const uncounted = `"uncountedTerminatedPods":{}`
	return l.all(ctx, [][4]string{
		{"POST", jobsPath, "kube-controller-manager", render(job, recorded, at)},
		status(`{"status":{"startTime":"%T","active":1,"ready":0,"terminating":0,` + uncounted + `}}`),
		status(`{"status":{"ready":1}}`),
		status(`{"status":{"active":0,"ready":0,"uncountedTerminatedPods":{"succeeded":["1b1f4a52-6f0e-4dd8-9f0b-000000000003"]},"conditions":[{"type":"SuccessCriteriaMet","status":"True","reason":"CompletionsReached","message":"Reached expected number of succeeded pods","lastProbeTime":"%T","lastTransitionTime":"%T"}]}}`),
		{"DELETE", path, "", `{"propagationPolicy":"Background"}`},
	})
}

const job = `{"metadata":{"name":"job-%N","labels":{"app":"report"},"ownerReferences":[{"apiVersion":"batch/v1","kind":"CronJob","name":"report",
"uid":"0b1f4a52-6f0e-4dd8-9f0b-000000000002","controller":true,"blockOwnerDeletion":true}]},"spec":{"backoffLimit":6,"ttlSecondsAfterFinished":600,
"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"app","image":"registry.example.com/app:v0","env":[%ENV]}]}}}}`
