{{- define "kubecdc.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "kubecdc.fullname" -}}
{{- $name := include "kubecdc.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "kubecdc.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "kubecdc.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kubecdc.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kubecdc.labels" -}}
{{ include "kubecdc.selectorLabels" . }}
{{ include "kubecdc.moreLabels" . }}
{{- end }}

{{- define "kubecdc.serveLabels" -}}
{{ include "kubecdc.serveSelector" . }}
{{ include "kubecdc.moreLabels" . }}
{{- end }}

{{- define "kubecdc.moreLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "kubecdc.serviceAccount" -}}
{{- default (ternary (include "kubecdc.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{- define "kubecdc.image" -}}
{{- $registry := default .Values.image.registry (.Values.global).imageRegistry }}
{{- $repository := list $registry .Values.image.repository | compact | join "/" }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- /* The text of a setting's value. YAML reads on and off as booleans, and numbers as floats. */}}
{{- define "kubecdc.text" -}}
{{- if kindIs "bool" . }}{{ ternary "on" "off" . }}
{{- else if kindIs "slice" . }}{{ join "," . }}
{{- else if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}
{{- else }}{{ . }}
{{- end }}
{{- end }}

{{- /* The settings of config as text. */}}
{{- define "kubecdc.set" -}}
{{- $config := dict }}
{{- range $name, $value := .Values.config }}
{{- if not (kindIs "invalid" $value) }}
{{- $_ := set $config $name (include "kubecdc.text" $value) }}
{{- end }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{- /* The settings of config, secret and extraEnv. */}}
{{- define "kubecdc.given" -}}
{{- $given := mergeOverwrite (include "kubecdc.set" . | fromYaml) (default dict .Values.secret) }}
{{- range .Values.extraEnv }}
{{- $_ := set $given .name (default "elsewhere" .value) }}
{{- end }}
{{- toYaml $given }}
{{- end }}

{{- /* The sink. If none is named, brokers mean kafka, also those that extraEnvFrom may have. A database, or a Secret that may name one,
leaves the sink open. */}}
{{- define "kubecdc.sink" -}}
{{- $given := include "kubecdc.given" . | fromYaml }}
{{- if $given.KUBECDC_SINK }}{{ $given.KUBECDC_SINK }}
{{- else if or $given.KUBECDC_KAFKA_BROKERS .Values.extraEnvFrom }}kafka
{{- else if not (or .Values.existingSecret $given.KUBECDC_SINK_POSTGRES (not (hasPrefix "sqlite:" (default "sqlite:" $given.KUBECDC_CHECKPOINT)))) }}sqlite
{{- end }}
{{- end }}

{{- /* Not empty if nothing names the resources nor a sink, as without values. */}}
{{- define "kubecdc.exportsBuiltIn" -}}
{{- $given := include "kubecdc.given" . | fromYaml }}
{{- if and (eq (include "kubecdc.sink" .) "sqlite") (not $given.KUBECDC_SINK) (not $given.KUBECDC_RESOURCES) }}true{{ end }}
{{- end }}

{{- /* All resources that Kubernetes 1.27 and every later release serve, without Secrets and Leases. */}}
{{- define "kubecdc.builtIn" -}}
configmaps,endpoints,events,limitranges,namespaces,nodes,persistentvolumeclaims,persistentvolumes,pods,podtemplates,replicationcontrollers,
resourcequotas,serviceaccounts,services,
controllerrevisions.apps,daemonsets.apps,deployments.apps,replicasets.apps,statefulsets.apps,
cronjobs.batch,jobs.batch,horizontalpodautoscalers.autoscaling,poddisruptionbudgets.policy,
ingressclasses.networking.k8s.io,ingresses.networking.k8s.io,networkpolicies.networking.k8s.io,endpointslices.discovery.k8s.io,
clusterrolebindings.rbac.authorization.k8s.io,clusterroles.rbac.authorization.k8s.io,rolebindings.rbac.authorization.k8s.io,
roles.rbac.authorization.k8s.io,
csidrivers.storage.k8s.io,csinodes.storage.k8s.io,csistoragecapacities.storage.k8s.io,storageclasses.storage.k8s.io,
volumeattachments.storage.k8s.io,
priorityclasses.scheduling.k8s.io,runtimeclasses.node.k8s.io,certificatesigningrequests.certificates.k8s.io,
mutatingwebhookconfigurations.admissionregistration.k8s.io,validatingwebhookconfigurations.admissionregistration.k8s.io,
customresourcedefinitions.apiextensions.k8s.io,apiservices.apiregistration.k8s.io,
flowschemas.flowcontrol.apiserver.k8s.io,prioritylevelconfigurations.flowcontrol.apiserver.k8s.io
{{- end }}

{{- /* Resources that only later releases serve by default. A rule may name what is not served, and a setting may not. */}}
{{- define "kubecdc.laterBuiltIn" -}}
validatingadmissionpolicies.admissionregistration.k8s.io,validatingadmissionpolicybindings.admissionregistration.k8s.io,
mutatingadmissionpolicies.admissionregistration.k8s.io,mutatingadmissionpolicybindings.admissionregistration.k8s.io,
ipaddresses.networking.k8s.io,servicecidrs.networking.k8s.io,volumeattributesclasses.storage.k8s.io,
deviceclasses.resource.k8s.io,devicetaintrules.resource.k8s.io,resourceclaims.resource.k8s.io,resourceclaimtemplates.resource.k8s.io,resourceslices.resource.k8s.io,
clustertrustbundles.certificates.k8s.io,podcertificaterequests.certificates.k8s.io,
storageversionmigrations.storagemigration.k8s.io
{{- end }}

{{- /* The settings of config, with those that other values imply. */}}
{{- define "kubecdc.config" -}}
{{- $config := include "kubecdc.set" . | fromYaml }}
{{- $_ := set $config "KUBECDC_SINK" (include "kubecdc.sink" .) }}
{{- if not $config.KUBECDC_RESOURCES }}
{{- $_ := set $config "KUBECDC_RESOURCES" "pods,services,configmaps,deployments.apps,statefulsets.apps" }}
{{- if include "kubecdc.exportsBuiltIn" . }}
{{- $_ := set $config "KUBECDC_RESOURCES" (ternary "*,!leases.coordination.k8s.io" (include "kubecdc.builtIn" . | nospace) .Values.rbac.aggregate) }}
{{- end }}
{{- end }}
{{- if and (include "kubecdc.persists" .) (not (hasKey $config "KUBECDC_CHECKPOINT")) }}
{{- $_ := set $config "KUBECDC_CHECKPOINT" "sqlite:/var/lib/kubecdc/checkpoint.db" }}
{{- end }}
{{- if and (include "kubecdc.spools" .) (not (hasKey $config "KUBECDC_SPOOL_DIR")) }}
{{- $_ := set $config "KUBECDC_SPOOL_DIR" "/var/lib/kubecdc-spool" }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{- /* Not empty if there is a volume for the spool. */}}
{{- define "kubecdc.spools" -}}
{{- if and .Values.spool.enabled (has (include "kubecdc.sink" .) (list "kafka" "postgres")) }}true{{ end }}
{{- end }}

{{- /* Not empty if there is a volume for the SQLite file. */}}
{{- define "kubecdc.persists" -}}
{{- if kindIs "bool" .Values.persistence.enabled }}{{ if .Values.persistence.enabled }}true{{ end }}
{{- else if and (eq (include "kubecdc.sink" .) "sqlite") (not (include "kubecdc.given" . | fromYaml).KUBECDC_CHECKPOINT) (not .Values.existingSecret) (not .Values.extraEnvFrom) }}true
{{- end }}
{{- end }}

{{- /* How many bytes a size is, such as 1GiB or 1Gi; 0 if it is none. */}}
{{- define "kubecdc.bytes" -}}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" . }}
{{- $unit := trimPrefix $number . | nospace }}
{{- $power := dict "" 0 "K" 1 "M" 2 "G" 3 "T" 4 "P" 5 "E" 6 }}
{{- $prefix := regexFind "^[kKMGTPE]?" $unit | upper }}
{{- $bytes := float64 $number }}
{{- range until (int (get $power $prefix)) }}
{{- $bytes = mulf $bytes (ternary 1024 1000 (contains "i" $unit)) }}
{{- end }}
{{- int64 $bytes }}
{{- end }}

{{- /* The port of KUBECDC_LISTEN; empty: nothing is served. */}}
{{- define "kubecdc.port" -}}
{{- regexFind "[0-9]+$" (default ":8080" (include "kubecdc.config" . | fromYaml).KUBECDC_LISTEN) }}
{{- end }}

{{- /* Not empty if the past is served. */}}
{{- define "kubecdc.serves" -}}
{{- if (.Values.serve).enabled }}true{{ end }}
{{- end }}

{{- /* Not empty if it is served by a container of the exporter's Pod, which has the file of the log. */}}
{{- define "kubecdc.servesBeside" -}}
{{- if and (include "kubecdc.serves" .) (eq (include "kubecdc.sink" .) "sqlite") }}true{{ end }}
{{- end }}

{{- /* Not empty if it is served from a mirror of the topics. */}}
{{- define "kubecdc.mirrors" -}}
{{- if and (include "kubecdc.serves" .) (eq (include "kubecdc.sink" .) "kafka") }}true{{ end }}
{{- end }}

{{- define "kubecdc.serveName" -}}
{{- printf "%s-serve" (include "kubecdc.fullname" . | trunc 57 | trimSuffix "-") }}
{{- end }}

{{- /* What selects the Pods that serve the past. */}}
{{- define "kubecdc.serveSelector" -}}
{{- if include "kubecdc.servesBeside" . }}
{{- include "kubecdc.selectorLabels" . }}
{{- else -}}
app.kubernetes.io/name: {{ include "kubecdc.name" . | trunc 57 | trimSuffix "-" }}-serve
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- end }}

{{- /* A probe as text; with HTTPS if the exporter serves that, unless the probe says otherwise. */}}
{{- define "kubecdc.probe" -}}
{{- $probe := deepCopy (default dict (index . 1)) }}
{{- if and (index . 0).KUBECDC_HTTP_TLS_CERT $probe.httpGet }}
{{- $_ := merge $probe (dict "httpGet" (dict "scheme" "HTTPS")) }}
{{- end }}
{{- with $probe }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- define "kubecdc.secret" -}}
{{- default (ternary (include "kubecdc.fullname" .) "" (not (empty .Values.secret))) .Values.existingSecret }}
{{- end }}

{{- /* 90% of the memory limit of resources, for GOMEMLIMIT. */}}
{{- define "kubecdc.memory" -}}
{{- $limit := dig "limits" "memory" "" (default dict .) | toString }}
{{- if regexMatch "^[0-9]+Mi$" $limit }}
{{- printf "%dMiB" (div (mul (trimSuffix "Mi" $limit | int64) 9) 10) }}
{{- else if regexMatch "^[0-9]+Gi$" $limit }}
{{- printf "%dMiB" (div (mul (trimSuffix "Gi" $limit | int64) 9216) 10) }}
{{- end }}
{{- end }}

{{- /* Where a container gets its settings: the ConfigMap, a Secret, and extraEnvFrom. */}}
{{- define "kubecdc.envFrom" -}}
{{- $root := index . 0 -}}
- configMapRef:
    name: {{ include "kubecdc.fullname" $root }}
{{- with index . 1 }}
- secretRef:
    name: {{ . }} # KUBECDC_CHECKPOINT and others with passwords
{{- end }}
{{- with $root.Values.extraEnvFrom }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The variables of a container with these resources. */}}
{{- define "kubecdc.env" -}}
{{- with include "kubecdc.memory" (index . 1) -}}
- name: GOMEMLIMIT # a little under the limit below
  value: {{ . }}
{{- end }}
{{- with (index . 0).Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The labels of Pods that these labels select. */}}
{{- define "kubecdc.podLabels" -}}
{{- $root := index . 0 }}
{{- include (index . 1) $root }}
{{- with merge dict $root.Values.podLabels $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "kubecdc.podAnnotations" -}}
checksum/config: {{ include (print $.Template.BasePath "/configmap.yaml") . | sha256sum }}
{{- if .Values.secret }}
# Not a hash of the Secret, from which a weak password could be guessed: each upgrade restarts the Pods.
kubecdc/revision: {{ .Release.Revision | quote }}
{{- end }}
{{- with .Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The fields of a Pod that values have. */}}
{{- define "kubecdc.podFields" }}
{{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName"
  "hostAliases" "dnsPolicy" "dnsConfig" "initContainers" }}
{{- with index $.Values $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* list and watch on KUBECDC_RESOURCES, one rule for each API group. */}}
{{- define "kubecdc.rules" -}}
{{- $named := dict }}
{{- $leftOut := dict }}
{{- $entries := (include "kubecdc.config" . | fromYaml).KUBECDC_RESOURCES }}
{{- if and .Values.rbac.aggregate (include "kubecdc.exportsBuiltIn" .) }}
{{- $entries = printf "%s,%s" (include "kubecdc.builtIn" .) (include "kubecdc.laterBuiltIn" .) | nospace }}
{{- end }}
{{- range $entry := splitList "," $entries | compact }}
{{- $id := regexReplaceAll "^(!?[^.]*)\\.v[1-9][^.]*" (trim $entry) "${1}" }}
{{- $resource := trimPrefix "!" $id | splitList "." | first }}
{{- $group := trimPrefix "!" $id | splitList "." | rest | join "." }}
{{- $to := ternary $leftOut $named (hasPrefix "!" $id) }}
{{- $_ := set $to $group (append (default list (get $to $group)) $resource) }}
{{- end }}
{{- /* Kubernetes adds no resource to the core group any more. */}}
{{- $core := list "*" "configmaps" "endpoints" "events" "limitranges" "namespaces" "nodes" "persistentvolumeclaims" "persistentvolumes" "pods" "podtemplates" "replicationcontrollers" "resourcequotas" "secrets" "serviceaccounts" "services" }}
{{- range concat (default list (get $named "")) (default list (get $leftOut "")) }}
{{- if not (has . $core) }}
{{- fail (printf "config.KUBECDC_RESOURCES: %s is not in the core group: write the plural with its group, as in deployments.apps (kubectl api-resources lists them)" .) }}
{{- end }}
{{- end }}
{{- range $group, $resources := $named }}
{{- $not := default list (get $leftOut $group) }}
{{- if has "*" $resources }}
{{- if or (eq $group "") $not }}
{{- fail "config.KUBECDC_RESOURCES: which resources *, or a pattern and ! in one group, stand for, only the cluster knows: set rbac.create to false and apply what exporter rbac prints, or name the resources" }}
{{- end }}
{{- $resources = list "*" }}
{{- end }}
{{- range $not }}
{{- $resources = without $resources . }}
{{- end }}
{{- with $resources }}
- apiGroups: [{{ $group | quote }}]
  resources: {{ . | uniq | sortAlpha | toJson }}
  verbs: [list, watch]
{{- end }}
{{- end }}
{{- end }}

{{- /* The rights of the ClusterRole system:auth-delegator. */}}
{{- define "kubecdc.reviews" -}}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}

{{- define "kubecdc.namespaces" -}}
{{- (include "kubecdc.config" . | fromYaml).KUBECDC_NAMESPACES | default "" | nospace }}
{{- end }}

{{- /* The name of a role and its binding. They are outside of the release's namespace, where a release of the same name in another
one has its own. */}}
{{- define "kubecdc.roleName" -}}
{{- $name := include "kubecdc.fullname" (index . 0) }}
{{- $namespace := include "kubecdc.namespace" (index . 0) }}
{{- print $name (index . 1) (ternary "" (print ":" $namespace) (eq $name $namespace)) }}
{{- end }}

{{- define "kubecdc.subject" -}}
- kind: ServiceAccount
  name: {{ include "kubecdc.serviceAccount" . }}
  namespace: {{ include "kubecdc.namespace" . }}
{{- end }}

{{- /* What is missing or contradicts itself, before anything is rendered. */}}
{{- define "kubecdc.check" -}}
{{- $elsewhere := keys (default dict .Values.secret) }}
{{- range .Values.extraEnv }}
{{- $elsewhere = append $elsewhere .name }}
{{- end }}
{{- range $name := list "KUBECDC_RESOURCES" "KUBECDC_NAMESPACES" "KUBECDC_LISTEN" "KUBECDC_HTTP_ACCESS" "KUBECDC_HTTP_TLS_CERT" "KUBECONFIG" }}
{{- if has $name $elsewhere }}
{{- fail (printf "%s: set it in config: roles, ports and probes depend on it, and would be those of another value" $name) }}
{{- end }}
{{- end }}
{{- $listen := default "" (include "kubecdc.config" . | fromYaml).KUBECDC_LISTEN }}
{{- if eq "0" (include "kubecdc.port" .) }}
{{- fail "config.KUBECDC_LISTEN: the Pod needs a fixed port: write it in place of 0" }}
{{- end }}
{{- if and (regexMatch "^(localhost|127\\.|\\[::1\\])" $listen) (or (dig "httpGet" "" (default dict .Values.livenessProbe)) (dig "httpGet" "" (default dict .Values.readinessProbe))) }}
{{- fail "config.KUBECDC_LISTEN: kubelet's probes don't reach a loopback address, so the Pod would be restarted again and again: set livenessProbe and readinessProbe to null, or use KUBECDC_HTTP_ACCESS" }}
{{- end }}
{{- $given := mergeOverwrite (include "kubecdc.config" . | fromYaml) (include "kubecdc.given" . | fromYaml) }}
{{- $unseen := or .Values.existingSecret .Values.extraEnvFrom }}
{{- $sink := include "kubecdc.sink" . }}
{{- if and (has $sink (list "kafka" "")) (not $given.KUBECDC_KAFKA_BROKERS) (not .Values.extraEnvFrom) }}
{{- fail "no brokers: set config.KUBECDC_KAFKA_BROKERS to host:port,… or config.KUBECDC_SINK to another sink" }}
{{- end }}
{{- if and (eq $sink "postgres") (not $given.KUBECDC_SINK_POSTGRES) (not $unseen) }}
{{- fail "no database to write to: set secret.KUBECDC_SINK_POSTGRES to postgres://USER:PASSWORD@HOST/DB, or existingSecret to a Secret that has it" }}
{{- end }}
{{- if and (not $given.KUBECDC_CHECKPOINT) (not $unseen) }}
{{- fail "no checkpoint: set secret.KUBECDC_CHECKPOINT to postgres://USER:PASSWORD@HOST/DB, existingSecret to a Secret that has it, or persistence.enabled to true for an SQLite file on a volume" }}
{{- end }}
{{- $spool := default "1GiB" $given.KUBECDC_SPOOL_SIZE | toString }}
{{- if and (include "kubecdc.spools" .) (not .Values.spool.existingClaim) (ge (include "kubecdc.bytes" $spool | int64) (include "kubecdc.bytes" (toString .Values.spool.sizeLimit) | int64)) }}
{{- fail (printf "spool.sizeLimit: it must be more than KUBECDC_SPOOL_SIZE (%s), or kubelet evicts the Pod and the spool is lost" $spool) }}
{{- end }}
{{- if and .Values.rbac.create (not .Values.rbac.clusterRole) (or (not $given.KUBECDC_NAMESPACES) (not $given.KUBECDC_CLUSTER) .Values.rbac.aggregate (eq (default "" $given.KUBECDC_HTTP_ACCESS) "kubernetes") (include "kubecdc.serves" .)) }}
{{- fail "rbac.clusterRole: without it set config.KUBECDC_NAMESPACES, and config.KUBECDC_CLUSTER to a name that no other cluster has; rbac.aggregate, serve and KUBECDC_HTTP_ACCESS=kubernetes need it" }}
{{- end }}
{{- if include "kubecdc.serves" . }}
{{- if not .Values.serve.tlsSecret }}
{{- fail "serve.tlsSecret: kubectl sends tokens only over TLS: set it to a Secret that has tls.crt and tls.key, such as cert-manager's" }}
{{- end }}
{{- if eq $sink "stdout" }}
{{- fail "serve.enabled: a log in stdout can't be read: set config.KUBECDC_SINK to another sink" }}
{{- end }}
{{- if and (include "kubecdc.servesBeside" .) (eq "8443" (include "kubecdc.port" .)) }}
{{- fail "config.KUBECDC_LISTEN: port 8443 of the Pod is that of serve: choose another one" }}
{{- end }}
{{- if and (include "kubecdc.mirrors" .) .Values.serve.existingClaim (gt (int .Values.serve.replicas) 1) }}
{{- fail "serve.replicas: one process has the copy of the topics: set it to 1, or existingClaim to none" }}
{{- end }}
{{- $copy := default "4GiB" $given.KUBECDC_SQLITE_MAX_SIZE | toString }}
{{- if and (include "kubecdc.mirrors" .) (not .Values.serve.existingClaim) (ge (include "kubecdc.bytes" $copy | int64) (include "kubecdc.bytes" .Values.serve.sizeLimit | int64)) }}
{{- fail (printf "serve.sizeLimit: it must be more than KUBECDC_SQLITE_MAX_SIZE (%s), or kubelet evicts the Pod, and it copies all topics again" $copy) }}
{{- end }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (hasPrefix "sqlite:" (default "" $given.KUBECDC_CHECKPOINT)) }}
{{- fail "replicas: an SQLite checkpoint is for one process: set replicas to 1, or KUBECDC_CHECKPOINT to postgres://…" }}
{{- end }}
{{- if and (or .Values.serviceMonitor.enabled .Values.podMonitor.enabled) (not (include "kubecdc.port" .)) }}
{{- fail "serviceMonitor, podMonitor: nothing is served: set config.KUBECDC_LISTEN to :8080" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not .Values.service.enabled) }}
{{- fail "serviceMonitor: it needs the Service: set service.enabled to true, or use podMonitor" }}
{{- end }}
{{- with .Values.podDisruptionBudget }}
{{- if and .enabled .minAvailable (not (kindIs "string" .minAvailable)) (ge (int .minAvailable) (int $.Values.replicas)) }}
{{- fail "podDisruptionBudget.minAvailable: it allows no eviction, so no node with a Pod of this release can be drained: use maxUnavailable, or more replicas" }}
{{- end }}
{{- end }}
{{- if and .Values.secret .Values.existingSecret }}
{{- fail "secret and existingSecret: the Pod reads one of them: add the keys of secret to the Secret that existingSecret names" }}
{{- end }}
{{- end }}
