package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const (
	appsPath   = "/apis/apps/v1/namespaces/default/"
	slicesPath = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	jobsPath   = "/apis/batch/v1/namespaces/default/jobs"
)

// replaceEndpoint makes a slice of ten endpoints, and changes it as the replacement of a pod does: one ends, is gone, another comes, is ready.
func (l *load) replaceEndpoint(ctx context.Context, i int) error {
	path := fmt.Sprintf("%s/app-%d", slicesPath, i)
	steps := [][4]string{{"POST", slicesPath, "kube-controller-manager", endpoints(i, 10, "true", "false")}}
	for _, s := range []string{endpoints(i, 10, "false", "true"), endpoints(i, 9, "true", "false"), endpoints(i, 10, "false", "false"),
		endpoints(i, 10, "true", "false")} {
		steps = append(steps, [4]string{"PATCH", path, "kube-controller-manager", s})
	}
	return l.all(ctx, steps)
}

// endpoints is a slice whose tenth endpoint is ready or ends.
func endpoints(slice, n int, ready, ending string) string {
	var all []string
	for i := range n {
		r, e := "true", "false"
		if i == 9 {
			r, e = ready, ending
		}
		all = append(all, fmt.Sprintf(`{"addresses":["10.1.%d.3"],"conditions":{"ready":%s,"serving":%[2]s,"terminating":%s},"nodeName":"node-%d",
"targetRef":{"kind":"Pod","name":"app-%d-7c5b6d8f9-%[5]dx","namespace":"default","uid":"0b1f4a52-6f0e-4dd8-9f0b-0000000000%02[1]d"},"zone":"eu-1a"}`, i, r, e, i*31, slice))
	}
	return render(`{"metadata":{"name":"app-%N","labels":{"endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io",
"kubernetes.io/service-name":"app-%N"}},"addressType":"IPv4","ports":[{"name":"http","port":8080,"protocol":"TCP"}],"endpoints":[`+strings.Join(all, ",")+`]}`, slice, "")
}

// work is the life of a job with one pod.
func (l *load) work(ctx context.Context, i int) error {
	path, moment := fmt.Sprintf("%s/job-%d", jobsPath, i), time.Now().UTC().Format(time.RFC3339)
	steps := [][4]string{{"POST", jobsPath, "kube-controller-manager", render(job, i, moment)}}
	for _, status := range []string{jobStarted, jobReady, jobSucceeded} {
		steps = append(steps, [4]string{"PATCH", path + "/status", "kube-controller-manager", render(status, i, moment)})
	}
	return l.all(ctx, append(steps, [4]string{"DELETE", path, "", `{"propagationPolicy":"Background"}`}))
}

const (
	job = `{"metadata":{"name":"job-%N","labels":{"app":"report"},"ownerReferences":[{"apiVersion":"batch/v1","kind":"CronJob","name":"report",
"uid":"0b1f4a52-6f0e-4dd8-9f0b-000000000002","controller":true,"blockOwnerDeletion":true}]},"spec":{"backoffLimit":6,"ttlSecondsAfterFinished":600,
"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"app","image":"registry.example.com/app:v0","env":[%ENV]}]}}}}`
	jobStarted   = `{"status":{"startTime":"%T","active":1,"ready":0,"terminating":0,"uncountedTerminatedPods":{}}}`
	jobReady     = `{"status":{"ready":1}}`
	jobSucceeded = `{"status":{"active":0,"ready":0,"uncountedTerminatedPods":{"succeeded":["1b1f4a52-6f0e-4dd8-9f0b-000000000003"]},"conditions":[
{"type":"SuccessCriteriaMet","status":"True","reason":"CompletionsReached","message":"Reached expected number of succeeded pods","lastProbeTime":"%T","lastTransitionTime":"%T"}]}}`
)
