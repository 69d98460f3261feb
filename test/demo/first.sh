#!/bin/bash
# The session of docs/images/first.svg, on an empty cluster of kubectl's: make first RESTART='command that restarts its API server'
set -eu
PATH=$PWD/bin:$PATH
HOME=$(mktemp -d) && export HOME KUBECDC_LISTEN=127.0.0.1:0
say() { printf '\e[2m%s\e[0m\n' "# $*"; sleep 1; }
ask() { printf '\e[1;32m$ \e[0;1m%s\e[0m\n' "$*"; eval "$*"; }
seen() { for _ in $(seq 100); do ! exporter history "$1" 2>/dev/null | grep -q "$2" || break; sleep 0.1; done; }

say "one command, a kubeconfig, no server: it lists, watches, and keeps each change in a file"
ask "exporter run --resources deployments.apps &"
sleep 3
ask "kubectl create deployment web --image=nginx:1.28"
seen deploy/web created
say "it is killed; the cluster goes on without it, and its API server restarts, so that no watch can resume"
ask "kill -9 %1"
wait %1 2>/dev/null || true
ask "kubectl set image deployment/web nginx=nginx:1.29"
ask "kubectl scale deployment web --replicas=0"
ask "kubectl delete deployment web"
eval "$RESTART"
say "nothing is left of it in the cluster. Back again:"
ask "exporter run --resources deployments.apps &"
seen deploy/web deleted
sleep 3
say "what happened, and who did it?"
ask "exporter history deploy/web"
kill $!
wait $!
