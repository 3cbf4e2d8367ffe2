{{/* Name of the release's objects: the release's own, with the chart's where it does not say it. */}}
{{- define "pochade.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "pochade.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pochade.labels" -}}
{{ include "pochade.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: pochade
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "pochade.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "pochade.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* Of (dict "root" $ "image" NAME). */}}
{{- define "pochade.image" -}}
{{- $image := get .root.Values.images .image -}}
{{- $name := ternary (printf "%s/%s" .root.Values.images.registry $image.name) $image.name (ne .root.Values.images.registry "") -}}
{{- if $image.digest }}{{ $name }}@{{ $image.digest }}{{ else }}{{ $name }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The classes of workers with their defaults, as JSON. */}}
{{- define "pochade.classes" -}}
{{- $classes := dict -}}
{{- range $name, $class := .Values.workers -}}
{{- $_ := set $classes $name (mergeOverwrite (deepCopy $.Values.workerDefaults) ($class | default dict)) -}}
{{- end -}}
{{- toJson $classes -}}
{{- end }}

{{/* The most workers of all classes. */}}
{{- define "pochade.maximum" -}}
{{- $sum := 0 -}}
{{- range $name, $class := include "pochade.classes" . | fromJson -}}
{{- $sum = add $sum (ternary $class.maximum $class.minimum (and $.Values.keda.enabled $class.scale)) -}}
{{- end -}}
{{- $sum -}}
{{- end }}

{{- define "pochade.jobsPartitions" -}}
{{ .Values.kafka.jobsPartitions | default (max 4 (include "pochade.maximum" . | int)) | int }}
{{- end }}

{{- define "pochade.bootstrap" -}}
{{ .Values.kafka.bootstrapServers | default (printf "%s-kafka-bootstrap:9093" .Values.strimzi.cluster) }}
{{- end }}

{{- define "pochade.caSecret" -}}
{{ .Values.kafka.caSecret | default (ternary (printf "%s-cluster-ca-cert" .Values.strimzi.cluster) "" .Values.strimzi.enabled) }}
{{- end }}

{{/* What the chart sets of pochade.toml, and `settings` over it, as JSON. */}}
{{- define "pochade.settings" -}}
{{- $kafka := dict "bootstrap_servers" (include "pochade.bootstrap" .) "prefix" .Values.kafka.prefix "flow_partitions" .Values.kafka.flowPartitions "jobs_partitions" (include "pochade.jobsPartitions" . | int) -}}
{{- $properties := deepCopy .Values.kafka.properties -}}
{{- if include "pochade.caSecret" . -}}
{{- $_ := set $properties "ssl.ca.location" "/run/secrets/kafka-ca/ca.crt" -}}
{{- end -}}
{{- if eq .Values.kafka.authentication "scram-sha-512" -}}
{{- $properties = mergeOverwrite (dict "security.protocol" "SASL_SSL" "sasl.mechanism" "SCRAM-SHA-512" "sasl.password" "file:/run/secrets/kafka/password") $properties -}}
{{- else if eq .Values.kafka.authentication "tls" -}}
{{- $properties = mergeOverwrite (dict "security.protocol" "SSL" "ssl.certificate.location" "/run/secrets/kafka/user.crt" "ssl.key.location" "/run/secrets/kafka/user.key") $properties -}}
{{- end -}}
{{- if $properties }}{{ $_ := set $kafka "properties" $properties }}{{ end -}}
{{- $made := dict "kafka" $kafka "http" (dict "host" "0.0.0.0" "port" 9100) -}}
{{- if .Values.catalog }}{{ $_ := set $made "catalog" "/etc/pochade/catalog.toml" }}{{ end -}}
{{- if .Values.store.url -}}
{{- $store := dict "url" .Values.store.url -}}
{{- if .Values.store.endpoint }}{{ $_ := set $store "s3_endpoint_url" .Values.store.endpoint }}{{ end -}}
{{- $_ := set $made "store" $store -}}
{{- else if .Values.store.volume.enabled -}}
{{- $_ := set $made "store" (dict "folder" "/images") -}}
{{- end -}}
{{- if and .Values.weights.enabled .Values.weights.remote -}}
{{- $_ := set $made "worker" (dict "components" (dict "remote" .Values.weights.remote)) -}}
{{- end -}}
{{- if .Values.keda.enabled -}}
{{- $_ := set $made "planner" (dict "scale" (dict "when" "always" "max_workers" (include "pochade.maximum" . | int))) -}}
{{- end -}}
{{- range $name := list "gateway" "console" -}}
{{- $door := get $.Values $name -}}
{{- if $door.expose -}}
{{- $section := dict "host" "0.0.0.0" "authentication" (ternary "bearer" "keys" (eq $name "gateway")) -}}
{{- if $door.publicUrl }}{{ $_ := set $section "public_url" $door.publicUrl }}{{ end -}}
{{- if $door.tlsSecret -}}
{{- $_ := set $section "tls_certificate" (printf "/run/secrets/%s-tls/tls.crt" $name) -}}
{{- $_ := set $section "tls_key" (printf "/run/secrets/%s-tls/tls.key" $name) -}}
{{- end -}}
{{- $_ := set $made $name $section -}}
{{- end -}}
{{- end -}}
{{- $_ := set $made "gateway" (mergeOverwrite (dict "url_secret" "file:/run/secrets/gateway/url-secret") ($made.gateway | default dict)) -}}
{{- toJson (mergeOverwrite $made (deepCopy .Values.settings)) -}}
{{- end }}

{{/* A table of settings as TOML, of (dict "path" PREFIX "table" TABLE): values first, then the tables below it. */}}
{{- define "pochade.toml" -}}
{{- range $key, $value := .table }}{{ if not (kindIs "map" $value) }}
{{ include "pochade.key" $key }} = {{ if kindIs "float64" $value }}{{ if eq (floor $value) $value }}{{ int64 $value }}{{ else }}{{ toJson $value }}{{ end }}{{ else }}{{ toJson $value }}{{ end }}
{{- end }}{{ end }}
{{- $path := .path }}
{{- range $key, $value := .table }}{{ if kindIs "map" $value }}
{{- $at := include "pochade.key" $key }}
{{- if $path }}{{ $at = printf "%s.%s" $path $at }}{{ end }}

[{{ $at }}]
{{- include "pochade.toml" (dict "path" $at "table" $value) }}
{{- end }}{{ end }}
{{- end }}

{{- define "pochade.key" -}}
{{ if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ toJson . }}{{ end }}
{{- end }}

{{/* Flags of the settings of one role or class: --set KEY=VALUE, as JSON. */}}
{{- define "pochade.flags" -}}
{{- $flags := list -}}
{{- range $key, $value := . -}}
{{- $text := toString $value -}}
{{- if kindIs "float64" $value }}{{ if eq (floor $value) $value }}{{ $text = int64 $value | toString }}{{ end }}{{ end -}}
{{- if or (kindIs "map" $value) (kindIs "slice" $value) }}{{ $text = toJson $value }}{{ end -}}
{{- $flags = concat $flags (list "--set" (printf "%s=%s" $key $text)) -}}
{{- end -}}
{{- toJson $flags -}}
{{- end }}

{{/* What no schema can say: a sentence a mistake. */}}
{{- define "pochade.check" -}}
{{- $wrong := list -}}
{{- if not (or .Values.kafka.bootstrapServers .Values.strimzi.enabled) -}}
{{- $wrong = append $wrong "kafka.bootstrapServers is empty: set HOST:PORT of a cluster, or strimzi.enabled=true" -}}
{{- end -}}
{{- if and (not .Values.store.url) (not .Values.store.volume.enabled) -}}
{{- $wrong = append $wrong "store.url is empty: set s3://BUCKET/PREFIX, or store.volume.enabled=true on one node; pods share no folder otherwise" -}}
{{- end -}}
{{- range $name := list "classifier" "router" "discriminator" "ledger" -}}
{{- $replicas := (get $.Values.roles $name).replicas -}}
{{- if gt (int $replicas) (int $.Values.kafka.flowPartitions) -}}
{{- $wrong = append $wrong (printf "roles.%s.replicas is %d, and only kafka.flowPartitions=%d pods would get records: lower it, or make the topics with more partitions" $name (int $replicas) (int $.Values.kafka.flowPartitions)) -}}
{{- end -}}
{{- end -}}
{{- $general := list -}}
{{- range $name, $class := include "pochade.classes" . | fromJson -}}
{{- if gt (int $class.minimum) (int $class.maximum) -}}
{{- $wrong = append $wrong (printf "workers.%s.minimum is %d, above its maximum of %d" $name (int $class.minimum) (int $class.maximum)) -}}
{{- end -}}
{{- if and $class.scale (not $class.variant) (not $class.query) }}{{ $general = append $general $name }}{{ end -}}
{{- end -}}
{{- if and .Values.keda.enabled (gt (len $general) 1) -}}
{{- $wrong = append $wrong (printf "workers %s would each start all workers that the plan wants: set variant or query of all but one, or scale=false" (join ", " $general)) -}}
{{- end -}}
{{- if and .Values.keda.enabled (not .Values.keda.prometheus) -}}
{{- $wrong = append $wrong "keda.prometheus is empty: set http://HOST:PORT of the Prometheus that scrapes the planner" -}}
{{- end -}}
{{- if lt (include "pochade.jobsPartitions" . | int) (include "pochade.maximum" . | int) -}}
{{- $wrong = append $wrong (printf "kafka.jobsPartitions is %s, and all classes may have %s workers: raise it (before topics are made), or lower the maximum of a class" (include "pochade.jobsPartitions" .) (include "pochade.maximum" .)) -}}
{{- end -}}
{{- range $name := list "gateway" "console" -}}
{{- $door := get $.Values $name -}}
{{- if and $door.expose (not $door.tlsSecret) (not (hasPrefix "https://" $door.publicUrl)) -}}
{{- $wrong = append $wrong (printf "%s.expose needs %s.tlsSecret, or %s.publicUrl=https://HOST of a proxy: keys must not travel in clear" $name $name $name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.gateway.ingress.enabled (not .Values.gateway.expose) -}}
{{- $wrong = append $wrong "gateway.ingress.enabled needs gateway.expose=true" -}}
{{- end -}}
{{- if and .Values.strimzi.enabled (not .Values.strimzi.objects) -}}
{{- if or (ne .Values.kafka.prefix "pochade") (ne (int .Values.kafka.flowPartitions) 4) (ne (include "pochade.jobsPartitions" . | int) 4) (ne .Values.strimzi.cluster "kafka") .Values.catalog (.Values.settings.catalog | default "tiny" | ne "tiny") (eq .Values.kafka.authentication "tls") -}}
{{- $wrong = append $wrong (printf "strimzi.objects is empty, and the chart's own topics are for prefix pochade, 4 partitions, catalog tiny and passwords: pochade --set kafka.prefix=%s --set kafka.flow_partitions=%d --set kafka.jobs_partitions=%s topics render strimzi --cluster %s > strimzi.yaml, then --set-file strimzi.objects=strimzi.yaml" .Values.kafka.prefix (int .Values.kafka.flowPartitions) (include "pochade.jobsPartitions" .) .Values.strimzi.cluster) -}}
{{- end -}}
{{- if eq .Values.kafka.authentication "none" -}}
{{- $wrong = append $wrong "strimzi.enabled needs kafka.authentication: scram-sha-512, or tls with strimzi.objects of `pochade topics render strimzi --authentication tls`" -}}
{{- end -}}
{{- end -}}
{{- if $wrong }}{{ fail (printf "\n- %s" (join "\n- " $wrong)) }}{{ end -}}
{{- end }}
