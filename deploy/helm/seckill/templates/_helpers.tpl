{{- define "seckill.name" -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "seckill.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "seckill.labels" -}}
{{ include "seckill.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{- define "seckill.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{- $tag := $image.tag | default .Chart.AppVersion -}}
{{- if eq $tag "devel" -}}
{{- fail "image.tag: this chart is not of a release, so it has no version of the image to default to; set image.tag or image.digest" -}}
{{- end -}}
{{ $image.repository }}:{{ $tag }}
{{- end -}}
{{- end }}

{{/* The part of a pod that servers and the migration share. The dict has root (the scope of the chart), args of the
program, and server: the further fields of the container of a server, otherwise empty. */}}
{{- define "seckill.pod" -}}
{{- $values := .root.Values -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $values.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
volumes:
  - name: secrets
    secret:
      secretName: {{ $values.existingSecret }}
      defaultMode: 0440
      items:
      {{- range $name, $key := $values.secretKeys }}
      {{- if $key }}
        - {key: {{ $key | quote }}, path: {{ $name }}}
      {{- end }}
      {{- end }}
  # With MySQL and Redis the program writes no files; this replaces the volume of the image.
  - name: data
    emptyDir: {medium: Memory, sizeLimit: 1Mi}
  {{- with $values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
containers:
  - name: seckill
    image: {{ include "seckill.image" .root }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    args: {{ toJson .args }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    volumeMounts:
      - {name: secrets, mountPath: /etc/seckill/secrets, readOnly: true}
      - {name: data, mountPath: /var/lib/seckill}
      {{- with $values.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    resources: {{ toJson $values.resources }}
    env:
      - {name: GOMEMLIMIT, value: {{ $values.goMemLimit | quote }}}
      - name: POD_IP
        valueFrom: {fieldRef: {fieldPath: status.podIP}}
      - {name: SECKILL_ADDR, value: ":8080"}
      # Metrics and profiles, on the address of the pod only: there is no Service for them. IPv6 needs the brackets.
      - {name: SECKILL_OPS_ADDR, value: "[$(POD_IP)]:9090"}
      - {name: SECKILL_DRAIN, value: {{ printf "%ds" (int $values.drainSeconds) }}}
      {{- $variables := dict "mysqlDSN" "MYSQL_DSN_FILE" "jwtSecret" "JWT_SECRET_FILE" "redisPassword" "REDIS_PASSWORD_FILE" "redisCA" "REDIS_CA" "paymentSecret" "PAYMENT_SECRET_FILE" "eventsSecret" "EVENTS_SECRET_FILE" }}
      {{- range $name, $key := $values.secretKeys }}
      {{- if $key }}
      - {name: SECKILL_{{ get $variables $name }}, value: /etc/seckill/secrets/{{ $name }}}
      {{- end }}
      {{- end }}
      {{- range $name, $value := $values.settings }}
      - {name: SECKILL_{{ $name }}, value: {{ $value | quote }}}
      {{- end }}
      {{- range $name, $value := $values.openTelemetry }}
      - {name: OTEL_{{ $name }}, value: {{ $value | quote }}}
      {{- end }}
      {{- with $values.extraEnv }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- with .server }}
    {{- . | nindent 4 }}
    {{- end }}
{{- end }}
