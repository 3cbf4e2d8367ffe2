{{/*
One Deployment, of a dict:
  root; component (name of the role, or worker-CLASS); role (its word for `serve`); image; replicas (nil: an autoscaler's);
  flags (of settings); grace and shutdown (seconds); resources; class (of a worker, or nil)
*/}}
{{- define "pochade.deployment" -}}
{{- $root := .root -}}
{{- $class := .class | default dict -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "pochade.name" $root }}-{{ .component }}
  labels:
    {{- include "pochade.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- with $class.queue }}
    kueue.x-k8s.io/queue-name: {{ . }}
    {{- end }}
spec:
  {{- if not (kindIs "invalid" .replicas) }}
  replicas: {{ .replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  {{- if .class }}
  strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: {{ toJson $class.disruption }}}}  # a device has one worker: the old one leaves first
  {{- else }}
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  {{- end }}
  selector:
    matchLabels:
      {{- include "pochade.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
  template:
    metadata:
      labels:
        {{- include "pochade.selector" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
        app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
        {{- with $root.Values.podLabels }}{{ toYaml . | nindent 8 }}{{ end }}
      annotations:
        checksum/settings: {{ include "pochade.configuration" $root | sha256sum }}
        {{- with $root.Values.podAnnotations }}{{ toYaml . | nindent 8 }}{{ end }}
    spec:
      terminationGracePeriodSeconds: {{ .grace }}
      {{- include "pochade.spec" . | nindent 6 }}
      {{- with $class.runtimeClassName }}
      runtimeClassName: {{ . }}
      {{- end }}
      {{- with $class.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with merge (dict) ($class.nodeSelector | default dict) $root.Values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with concat ($class.tolerations | default list) $root.Values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $class.affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- if or $class.spreadOverZones (not .class) }}
        - {{ include "pochade.spread" (dict "root" $root "component" .component "key" "topology.kubernetes.io/zone") | nindent 10 | trim }}
        {{- end }}
        - {{ include "pochade.spread" (dict "root" $root "component" .component "key" "kubernetes.io/hostname") | nindent 10 | trim }}
      containers:
        - name: {{ .role }}
          args: {{ concat (.flags | default (list)) (list "serve" .role) | toJson }}
          {{- include "pochade.container" . | nindent 10 }}
          ports:
            - {name: metrics, containerPort: 9100}
            {{- if eq .role "gateway" }}
            - {name: http, containerPort: 8760}
            {{- else if eq .role "console" }}
            - {name: http, containerPort: 8770}
            {{- end }}
          startupProbe: {httpGet: {path: /livez, port: metrics}, periodSeconds: 5, failureThreshold: 60}
          livenessProbe: {httpGet: {path: /livez, port: metrics}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 3}
          readinessProbe: {httpGet: {path: /readyz, port: metrics}, periodSeconds: 5, timeoutSeconds: 5}
          {{- if eq .role "gateway" }}
          # SIGTERM closes the door at once; for these seconds proxies still learn that the pod leaves
          lifecycle: {preStop: {sleep: {seconds: 5}}}
          {{- end }}
          {{- $resources := deepCopy .resources }}
          {{- with ($class.device | default dict).resource }}
          {{- $_ := set $resources "limits" (merge (dict . 1) ($resources.limits | default dict)) }}
          {{- end }}
          resources: {{- toYaml $resources | nindent 12 }}
{{- end }}

{{- define "pochade.spread" -}}
maxSkew: 1
topologyKey: {{ .key }}
whenUnsatisfiable: ScheduleAnyway
labelSelector:
  matchLabels:
    {{- include "pochade.selector" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* What every pod has: of (dict "root" $ "role" ROLE), where ROLE is one of those of `pochade topics acls`. */}}
{{- define "pochade.spec" -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ include "pochade.serviceAccount" .root }}
automountServiceAccountToken: false
enableServiceLinks: false  # else a Service named pochade-gateway would set POCHADE_GATEWAY_PORT
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with $values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
volumes:
  - {name: home, emptyDir: {}}
  - {name: tmp, emptyDir: {}}
  - {name: settings, configMap: {name: {{ include "pochade.name" .root }}-settings}}
  {{- if ne $values.kafka.authentication "none" }}
  - {name: kafka-user, secret: {secretName: {{ $values.kafka.prefix }}-{{ .role }}, defaultMode: 0440}}
  {{- end }}
  {{- with include "pochade.caSecret" .root }}
  - {name: kafka-ca, secret: {secretName: {{ . }}, items: [{key: ca.crt, path: ca.crt}]}}
  {{- end }}
  {{- if and (not $values.store.url) $values.store.volume.enabled }}
  - {name: images, persistentVolumeClaim: {claimName: {{ $values.store.volume.claim | default (printf "%s-images" (include "pochade.name" .root)) }}}}
  {{- end }}
  {{- if and $values.weights.enabled (has .role (list "worker" "classifier" "discriminator")) }}
  - {name: weights, persistentVolumeClaim: {claimName: {{ $values.weights.claim | default (printf "%s-weights" (include "pochade.name" .root)) }}}}
  {{- end }}
  {{- if has .role (list "gateway" "console") }}
  - {name: url-secret, secret: {secretName: {{ $values.gateway.urlSecret | default (printf "%s-gateway" (include "pochade.name" .root)) }}, defaultMode: 0440}}
  {{- with (get $values .role).tlsSecret }}
  - {name: tls, secret: {secretName: {{ . }}, defaultMode: 0440}}
  {{- end }}
  {{- end }}
  {{- with $values.extraVolumes }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}

{{- define "pochade.container" -}}
{{- $values := .root.Values -}}
image: {{ include "pochade.image" . | quote }}
imagePullPolicy: {{ $values.images.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - {name: POCHADE_CONFIG, value: /etc/pochade/pochade.toml}
  - {name: POCHADE_HOME, value: /var/lib/pochade}
  - {name: HOME, value: /var/lib/pochade}
  {{- if .shutdown }}
  - {name: POCHADE_SHUTDOWN_TIMEOUT_S, value: {{ .shutdown | quote }}}
  {{- end }}
  {{- if eq .role "worker" }}
  - {name: POCHADE_WORKER__ID, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  {{- end }}
  {{- if and $values.weights.enabled (has .role (list "worker" "classifier" "discriminator")) }}
  - {name: HF_HOME, value: /weights/hub}
  {{- end }}
  {{- with $values.extraEnv }}{{ toYaml . | nindent 2 }}{{ end }}
{{- with $values.store.credentialsSecret }}
envFrom:
  - secretRef: {name: {{ . }}}
{{- end }}
volumeMounts:
  - {name: home, mountPath: /var/lib/pochade}
  - {name: tmp, mountPath: /tmp}
  - {name: settings, mountPath: /etc/pochade, readOnly: true}
  {{- if ne $values.kafka.authentication "none" }}
  - {name: kafka-user, mountPath: /run/secrets/kafka, readOnly: true}
  {{- end }}
  {{- if include "pochade.caSecret" .root }}
  - {name: kafka-ca, mountPath: /run/secrets/kafka-ca, readOnly: true}
  {{- end }}
  {{- if and (not $values.store.url) $values.store.volume.enabled }}
  - {name: images, mountPath: /images}
  {{- end }}
  {{- if and $values.weights.enabled (has .role (list "worker" "classifier" "discriminator")) }}
  - {name: weights, mountPath: /weights}
  {{- end }}
  {{- if has .role (list "gateway" "console") }}
  - {name: url-secret, mountPath: /run/secrets/gateway, readOnly: true}
  {{- if (get $values .role).tlsSecret }}
  - {name: tls, mountPath: /run/secrets/{{ .role }}-tls, readOnly: true}
  {{- end }}
  {{- end }}
  {{- with $values.extraVolumeMounts }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
