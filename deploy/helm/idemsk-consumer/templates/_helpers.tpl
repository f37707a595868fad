{{- define "consumer.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "consumer.labels" -}}
{{ include "consumer.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "consumer.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default .Release.Name .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "consumer.image" -}}
{{- $image := .Values.image -}}
{{- $repository := required "image.repository is not set: name the image of your program, or of idemsk-consumer" $image.repository -}}
{{- if $image.digest -}}
{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $repository }}:{{ required "image.tag is not set: set it, or image.digest" $image.tag }}
{{- end }}
{{- end }}

{{- define "consumer.refused" -}}
{{- if and .Values.sidecars (semverCompare "<1.29-0" .Capabilities.KubeVersion.Version) }}
{{- fail "sidecars need Kubernetes 1.29: in an older one the process would never start" }}
{{- end }}
{{- $static := "a Deployment has no names for static members" }}
{{- $refused := dict "IDEMSK_KAFKA_INSTANCE_ID" $static "IDEMSK_KAFKA_LEAVE" $static
  "IDEMSK_DRAIN_TIMEOUT" "set drainSeconds" "IDEMSK_HTTP_ADDR" "it is :9464" }}
{{- range $name, $reason := $refused }}
{{- if or (hasKey $.Values.settings $name) (hasKey $.Values.secrets $name) }}
{{- fail (printf "leave %s out of settings and secrets: %s" $name $reason) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "consumer.env" -}}
{{- include "consumer.refused" . }}
{{- range $name := list "IDEMSK_KAFKA_BROKERS" "IDEMSK_KAFKA_TOPICS" "IDEMSK_KAFKA_GROUP" }}
{{- if not (hasKey $.Values.secrets $name) }}
{{- $ignored := required (printf "settings.%s is not set: set it, or secrets.%s" $name $name) (get $.Values.settings $name) }}
{{- end }}
{{- end -}}
- name: IDEMSK_HTTP_ADDR
  value: ":9464"
- name: IDEMSK_DRAIN_TIMEOUT
  value: {{ printf "%ds" (int .Values.drainSeconds) | quote }}
{{- range $name, $value := .Values.settings }}
{{- if hasKey $.Values.secrets $name }}
{{- fail (printf "%s is in settings and in secrets: leave one of them out" $name) }}
{{- end }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- range $name, $secret := .Values.secrets }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ $secret.name | quote }}
      key: {{ $secret.key | quote }}
{{- end }}
{{- end }}
