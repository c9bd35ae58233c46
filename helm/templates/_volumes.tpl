{{- /* One entry of an existing ConfigMap or Secret as the file of a volume: (list NAME OF FILE). */ -}}
{{- define "lockgate.volume" -}}
{{- $of := index . 1 }}
- name: {{ index . 0 }}
  {{- if $of.configMap }}
  configMap:
    name: {{ $of.configMap }}
  {{- else }}
  secret:
    secretName: {{ $of.secret }}
    defaultMode: 0440
  {{- end }}
    {{- with index . 2 }}
    items:
      - key: {{ $of.entry }}
        path: {{ . }}
    {{- end }}
{{- end }}

{{- /* Names of the volumes below /etc/lockgate, with a space behind each. */ -}}
{{- define "lockgate.mounted" -}}
{{- $files := .Values.files }}
{{- $of := dict "policies" $files.policies "pins" $files.pins "ca" $files.ca "keys" $files.apiKeys "client-ca" .Values.tls.clientCa }}
{{- range $name, $one := $of }}{{ if or $one.configMap $one.secret }}{{ $name }} {{ end }}{{ end }}
{{- if include "lockgate.certificate" . }}tls{{ end }}
{{- end }}

{{- /* Folders and not subPaths, so that what changes arrives and is taken over. */ -}}
{{- define "lockgate.volumes" -}}
{{- $files := .Values.files -}}
- name: configuration
  configMap:
    name: {{ include "lockgate.name" . }}
- name: scratch
  emptyDir:
    sizeLimit: {{ .Values.scratch }}
{{- $all := list (list "policies" $files.policies "") (list "pins" $files.pins "pins.json") (list "ca" $files.ca "ca.crt") (list "keys" $files.apiKeys "keys.yaml") (list "client-ca" .Values.tls.clientCa "ca.crt") }}
{{- range $all }}
{{- if or (index . 1).configMap (index . 1).secret }}
{{- include "lockgate.volume" . }}
{{- end }}
{{- end }}
{{- with include "lockgate.certificate" . }}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- if .Values.store.sqlite.enabled }}
- name: store
  persistentVolumeClaim:
    claimName: {{ .Values.store.sqlite.existingClaim | default (printf "%s-store" (include "lockgate.name" .)) }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "lockgate.mounts" -}}
- name: configuration
  mountPath: /etc/lockgate/config
  readOnly: true
- name: scratch
  mountPath: /tmp
{{- range $name := splitList " " (include "lockgate.mounted" . | trim) }}
{{- if $name }}
- name: {{ $name }}
  mountPath: /etc/lockgate/{{ $name }}
  readOnly: true
{{- end }}
{{- end }}
{{- if .Values.store.sqlite.enabled }}
- name: store
  mountPath: /var/lib/lockgate
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "lockgate.variable" -}}
- name: {{ index . 0 }}
  valueFrom:
    secretKeyRef:
      name: {{ index . 1 }}
      key: {{ index . 2 }}
{{- end }}

{{- define "lockgate.variables" -}}
{{- $auth := .Values.auth }}
{{- $store := .Values.store -}}
- name: HOME
  value: /tmp
- name: LOCKGATE_CONFIG
  value: /etc/lockgate/config/lockgate.yaml
{{- if $auth.key }}
{{ include "lockgate.variable" (list "LOCKGATE_KEY" $auth.existingSecret $auth.key) }}
{{- end }}
{{ include "lockgate.variable" (list "LOCKGATE_SECRET" $auth.existingSecret $auth.secret) }}
{{- range $at, $entry := $auth.oldSecrets }}
{{ include "lockgate.variable" (list (printf "OLD_SECRET_%d" $at) $auth.existingSecret $entry) }}
{{- end }}
{{- if $store.url }}
{{ include "lockgate.variable" (list "STORE_URL" $store.existingSecret $store.url) }}
{{- end }}
{{- range $at, $entry := $store.keys }}
{{ include "lockgate.variable" (list (printf "STORE_KEY_%d" $at) $store.existingSecret $entry) }}
{{- end }}
{{- with .Values.redis }}{{ if .url }}
{{ include "lockgate.variable" (list "REDIS_URL" .existingSecret .url) }}
{{- end }}{{ end }}
{{- if include "lockgate.replicas" . }}
- name: REPLICA_ADDRESS
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
