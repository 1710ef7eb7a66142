{{- define "relay-localcloud.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 53 | trimSuffix "-" -}}
{{- end }}

{{- /* Of 63 characters are <name>-management, and the label <name>-<hash> of a StatefulSet's Pods. */ -}}
{{- define "relay-localcloud.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "relay-localcloud.selectorLabels" -}}
app.kubernetes.io/name: {{ include "relay-localcloud.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "relay-localcloud.labels" -}}
{{ include "relay-localcloud.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Not the labels of the cloud's Pod: Services would lead there. */ -}}
{{- define "relay-localcloud.testLabels" -}}
app.kubernetes.io/name: {{ include "relay-localcloud.name" . }}-test
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* A list: the root, and labels that win. Twice in one object, a label is an error for Flux. */ -}}
{{- define "relay-localcloud.labelsWith" -}}
{{- toYaml (mergeOverwrite (include "relay-localcloud.labels" (first .) | fromYaml) (last . | default dict)) -}}
{{- end }}

{{- define "relay-localcloud.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end }}

{{- define "relay-localcloud.adminSecret" -}}
{{- .Values.adminToken.existingSecret | default (printf "%s-admin" (include "relay-localcloud.fullname" .)) -}}
{{- end }}

{{- /* The one name that leads to all ports. */ -}}
{{- define "relay-localcloud.host" -}}
{{- .Values.advertise | default (printf "%s.%s.svc" (include "relay-localcloud.fullname" .) .Release.Namespace) -}}
{{- end }}

{{- /* Names of what is outside of namespaces: two releases in two namespaces must not share them. */ -}}
{{- define "relay-localcloud.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "relay-localcloud.fullname" .) -}}
{{- end }}

{{- define "relay-localcloud.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "relay-localcloud.fullname" .) -}}
{{- end }}

{{- /* The program makes this name of its ServiceAccount's. */ -}}
{{- define "relay-localcloud.organizationRole" -}}
{{- printf "%s-%s-organization" .Release.Namespace (include "relay-localcloud.serviceAccountName" .) -}}
{{- end }}

{{- define "relay-localcloud.byTheCloud" -}}
- name: by-the-cloud
  expression: >-
    request.userInfo.username ==
    'system:serviceaccount:{{ .Release.Namespace }}:{{ include "relay-localcloud.serviceAccountName" . }}'
{{- end }}

{{- define "relay-localcloud.onOpenShift" -}}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1/SecurityContextConstraints" }}yes{{ end -}}
{{- end }}

{{- /* OpenShift gives each namespace users and groups of its own, and refuses Pods that name others. */ -}}
{{- define "relay-localcloud.user" -}}
runAsNonRoot: true
{{- if not (include "relay-localcloud.onOpenShift" .) }}
runAsUser: 65532
runAsGroup: 65532
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}
