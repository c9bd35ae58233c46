{{- /* What a schema cannot say, and what it says in words that help nobody. All mistakes at once. */ -}}
{{- define "lockgate.mistakes" -}}
{{- $wrong := list }}
{{- $v := .Values }}
{{- $c := $v.config }}
{{- $files := $v.files }}
{{- if not $v.image.repository }}
{{- $wrong = append $wrong "image.repository: write the image that has `lockgate` in it, such as registry.example.com/lockgate; none is published" }}
{{- end }}
{{- if not $v.auth.existingSecret }}
{{- $wrong = append $wrong (printf "auth.existingSecret: write the name of a Secret with the entries that `auth` names, such as lockgate-auth: kubectl create secret generic lockgate-auth%s --from-literal=%s=$(openssl rand -hex 32)" (ternary "" (printf " --from-literal=%s=$(openssl rand -hex 32)" $v.auth.key) (empty $v.auth.key)) $v.auth.secret) }}
{{- end }}
{{- $clients := or $v.tls.clientCa.configMap $v.tls.clientCa.secret }}
{{- $issuers := dig "auth" "issuers" dict $c }}
{{- $open := eq (dig "auth" "anonymous" "" $c | default "") "everywhere" }}
{{- if not (or $v.auth.key $issuers (dig "auth" "keys_file" "" $c) $files.apiKeys.secret $clients $open) }}
{{- $wrong = append $wrong "auth.key: without it, callers need another way to show who they are: write `files.apiKeys.secret`, `config.auth.issuers` or `tls.clientCa`" }}
{{- end }}
{{- if and $issuers (not (dig "http" "public_url" "" $c)) }}
{{- $wrong = append $wrong "config.http.public_url: write where clients reach the gateway, such as https://mcp.example.com: tokens of `config.auth.issuers` are made for it" }}
{{- end }}

{{- $listed := not (kindIs "invalid" (dig "policy" "tools" "allow" nil $c)) }}
{{- $named := or (dig "policy" "files" "" $c) $files.policies.configMap $files.policies.secret }}
{{- if and (eq (dig "profile" "" $c | default "") "production") (not (or $listed $named)) }}
{{- $wrong = append $wrong "config.policy.tools.allow: `config.profile: production` requires it: list the tools that may be used, such as [time__*], or write `files.policies` or `config.policy.files`" }}
{{- end }}

{{- /* Keys of the configuration that the chart writes itself, and where to write them instead. */ -}}
{{- $instead := dict "listen" "take it out: pods listen on port 3001, `service.port` is the Service's" "secret" "write `auth.existingSecret` and `auth.secret`, the entry that holds it" "old_secrets" "write `auth.oldSecrets`, the entries that hold them" "store" "write `store` beside `config`: `store.url` and `store.keys` name entries of a Secret, `store.sqlite` is a file on a volume" "redis" "write `redis` beside `config`: `redis.url` names an entry of a Secret" "replicas" "take it out: pods find each other where there can be several" }}
{{- range $key, $words := $instead }}
{{- if hasKey $c $key }}{{ $wrong = append $wrong (printf "config.%s: the chart sets this; %s" $key $words) }}{{ end }}
{{- end }}
{{- $below := list (list "admin" "listen" "take it out: it is port 3002 of the pod, and `admin.service.enabled: true` gives it a Service") (list "auth" "key" "write `auth.existingSecret` and `auth.key`, the entry that holds it") (list "http" "tls" "write `tls.existingSecret` or `tls.certManager.issuer`") (list "http" "drain" "write `drainSeconds`, from which the pod's grace follows") }}
{{- if $files.apiKeys.secret }}{{ $below = append $below (list "auth" "keys_file" "take one of it and `files.apiKeys` out") }}{{ end }}
{{- if or $files.pins.configMap $files.pins.secret }}{{ $below = append $below (list "pins" "file" "take one of it and `files.pins` out") }}{{ end }}
{{- if or $files.ca.configMap $files.ca.secret }}{{ $below = append $below (list "egress" "ca_file" "take one of it and `files.ca` out") }}{{ end }}
{{- range $below }}
{{- if hasKey (get $c (index . 0) | default dict) (index . 1) }}{{ $wrong = append $wrong (printf "config.%s.%s: the chart sets this; %s" (index . 0) (index . 1) (index . 2)) }}{{ end }}
{{- end }}

{{- range $name, $of := dict "files.policies" $files.policies "files.pins" $files.pins "files.ca" $files.ca "tls.clientCa" $v.tls.clientCa "tests.ca" $v.tests.ca }}
{{- if and $of.configMap $of.secret }}{{ $wrong = append $wrong (printf "%s: names a ConfigMap and a Secret; take one of them out" $name) }}{{ end }}
{{- end }}
{{- if and $v.tls.existingSecret $v.tls.certManager.issuer }}
{{- $wrong = append $wrong "tls: names `existingSecret` and `certManager.issuer`; take one of them out" }}
{{- end }}
{{- if and $clients (not (include "lockgate.certificate" .)) }}
{{- $wrong = append $wrong "tls.clientCa: client certificates need TLS in the pod: write `tls.existingSecret` or `tls.certManager.issuer` as well" }}
{{- end }}

{{- $store := $v.store }}
{{- $many := or $v.autoscaling.enabled (gt (int $v.replicas) 1) }}
{{- if and $store.sqlite.enabled $store.url }}
{{- $wrong = append $wrong "store: names `url` (PostgreSQL) and `sqlite`; take one of them out" }}
{{- end }}
{{- if and $store.sqlite.enabled $many }}
{{- $wrong = append $wrong (printf "store.sqlite: a file of SQLite belongs to one pod, and there can be %s: write `replicas: 1` and `autoscaling.enabled: false`, or keep the store in PostgreSQL: `store: { existingSecret: NAME, url: ENTRY }`" (ternary (printf "%d" (int $v.autoscaling.maxReplicas)) (printf "%d" (int $v.replicas)) $v.autoscaling.enabled)) }}
{{- end }}
{{- if and (or $store.url $store.keys) (not $store.existingSecret) }}
{{- $wrong = append $wrong "store.existingSecret: write the name of the Secret that has the entries which `store.url` and `store.keys` name" }}
{{- end }}

{{- if and $v.redis.url (not $v.redis.existingSecret) }}
{{- $wrong = append $wrong "redis.existingSecret: write the name of the Secret that has the entry which `redis.url` names" }}
{{- end }}
{{- if and (or $v.redis.existingSecret $v.redis.prefix) (not $v.redis.url) }}
{{- $wrong = append $wrong "redis.url: write the entry of the Secret that holds the address, rediss://USER:PASSWORD@HOST:6379/0" }}
{{- end }}

{{- if $v.autoscaling.enabled }}
{{- if gt (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas) }}
{{- $wrong = append $wrong (printf "autoscaling.maxReplicas: %d is less than minReplicas, %d; write more" (int $v.autoscaling.maxReplicas) (int $v.autoscaling.minReplicas)) }}
{{- end }}
{{- if not (or $v.autoscaling.cpu $v.autoscaling.requestsInFlight $v.autoscaling.metrics) }}
{{- $wrong = append $wrong "autoscaling: nothing says when to scale: write `cpu`, `requestsInFlight` or `metrics`" }}
{{- end }}
{{- if and $v.autoscaling.cpu (not (dig "requests" "cpu" "" $v.resources)) }}
{{- $wrong = append $wrong "resources.requests.cpu: write it, because `autoscaling.cpu` is per cent of it, or `autoscaling.cpu: null`" }}
{{- end }}
{{- end }}
{{- if and $v.ingress.enabled (not $v.ingress.hosts) }}
{{- $wrong = append $wrong "ingress.hosts: write the names that clients use, such as [mcp.example.com]" }}
{{- end }}
{{- if $v.httpRoute.enabled }}
{{- if not $v.httpRoute.parentRefs }}
{{- $wrong = append $wrong "httpRoute.parentRefs: write the Gateway that the route belongs to, such as [{ name: public, namespace: gateways }]" }}
{{- end }}
{{- if not $v.httpRoute.hostnames }}
{{- $wrong = append $wrong "httpRoute.hostnames: write the names that clients use, such as [mcp.example.com]" }}
{{- end }}
{{- if and (include "lockgate.certificate" .) (not $v.httpRoute.backendCa) }}
{{- $wrong = append $wrong "httpRoute.backendCa: the pods speak TLS, so write the name of a ConfigMap with `ca.crt`, by which the Gateway knows their certificate" }}
{{- end }}
{{- end }}
{{- if $wrong }}
{{- fail (printf "\n\n  %s\n" (join "\n  " $wrong)) }}
{{- end }}
{{- end }}
