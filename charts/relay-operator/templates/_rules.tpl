{{- /* Generated from the models by `make generate`; edits here are lost. */ -}}
{{- define "relay-operator.rules.watched" -}}
# the intent annotation and the finalizer
- apiGroups:
  - gpurelay.dev
  resources:
  - cloudaccounts
  - gpuclusters
  - gpupods
  - gpuvms
  - inferencebatches
  - sshkeys
  - registrycredentials
  - apikeys
  - organizationmembers
  - vmsnapshots
  - runnerpools
  - provisioningtokens
  - providernodes
  - inferencebackends
  - nodereservations
  - servingdeployments
  - inferencebatchschedules
  verbs:
  - get
  - list
  - watch
  - patch
# what the cloud says
- apiGroups:
  - gpurelay.dev
  resources:
  - cloudaccounts/status
  - gpuclusters/status
  - gpupods/status
  - gpuvms/status
  - inferencebatches/status
  - sshkeys/status
  - registrycredentials/status
  - apikeys/status
  - organizationmembers/status
  - vmsnapshots/status
  - runnerpools/status
  - provisioningtokens/status
  - providernodes/status
  - inferencebackends/status
  - nodereservations/status
  - servingdeployments/status
  - inferencebatchschedules/status
  verbs:
  - patch
# lifetime.ttlSecondsAfterStopped and ttlSecondsAfterFinished
- apiGroups:
  - gpurelay.dev
  resources:
  - gpuclusters
  - gpupods
  - gpuvms
  - inferencebatches
  verbs:
  - delete
# what schedules start, replace and clear away
- apiGroups:
  - gpurelay.dev
  resources:
  - inferencebatches
  verbs:
  - create
  - delete
# keys and env are read; connections, API keys and webhook secrets are written
- apiGroups:
  - ''
  resources:
  - secrets
  verbs:
  - get
  - create
  - patch
# env and batch input are read; connections, answers, who spent what are kept
- apiGroups:
  - ''
  resources:
  - configmaps
  verbs:
  - get
  - create
  - patch
# the place that a batch claimed and had no answers for
- apiGroups:
  - ''
  resources:
  - configmaps
  verbs:
  - delete
# what happened, for people
- apiGroups:
  - events.k8s.io
  resources:
  - events
  verbs:
  - create
{{- end }}

{{- define "relay-operator.rules.ending" -}}
# the intent annotation and the finalizer
- apiGroups:
  - gpurelay.dev
  resources:
  - cloudaccounts
  - gpuclusters
  - gpupods
  - gpuvms
  - inferencebatches
  - sshkeys
  - registrycredentials
  - apikeys
  - organizationmembers
  - vmsnapshots
  - runnerpools
  - provisioningtokens
  - providernodes
  - inferencebackends
  - nodereservations
  - servingdeployments
  - inferencebatchschedules
  verbs:
  - get
  - list
  - watch
  - patch
# what the cloud says
- apiGroups:
  - gpurelay.dev
  resources:
  - cloudaccounts/status
  - gpuclusters/status
  - gpupods/status
  - gpuvms/status
  - inferencebatches/status
  - sshkeys/status
  - registrycredentials/status
  - apikeys/status
  - organizationmembers/status
  - vmsnapshots/status
  - runnerpools/status
  - provisioningtokens/status
  - providernodes/status
  - inferencebackends/status
  - nodereservations/status
  - servingdeployments/status
  - inferencebatchschedules/status
  verbs:
  - patch
{{- end }}

{{- define "relay-operator.rules.clusterAccounts" -}}
# the intent annotation and the finalizer
- apiGroups:
  - gpurelay.dev
  resources:
  - clustercloudaccounts
  verbs:
  - get
  - list
  - watch
  - patch
# what the cloud says
- apiGroups:
  - gpurelay.dev
  resources:
  - clustercloudaccounts/status
  verbs:
  - patch
# what the cloud sells, made for people to read
- apiGroups:
  - gpurelay.dev
  resources:
  - gpumodels
  verbs:
  - list
  - create
  - delete
# what of it is free
- apiGroups:
  - gpurelay.dev
  resources:
  - gpumodels/status
  verbs:
  - patch
# the labels that allowedNamespaces selects
- apiGroups:
  - ''
  resources:
  - namespaces
  verbs:
  - get
{{- end }}

{{- define "relay-operator.rules.own" -}}
# leader election
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - get
  - patch
  resourceNames:
  - '{{ .Values.leaderElection.leaseName }}'
# the first replica makes the Lease; a create has no name to restrict
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
# the label that the webhook Service selects
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - patch
# keys and webhook secrets of cluster-wide accounts
- apiGroups:
  - ''
  resources:
  - secrets
  verbs:
  - get
  - create
  - patch
# what vanished with something in the cloud; who spent what
- apiGroups:
  - ''
  resources:
  - configmaps
  verbs:
  - get
  - create
  - patch
  - list
  - delete
{{- end }}

{{- define "relay-operator.rules.viewers" -}}
# seeing
- apiGroups:
  - gpurelay.dev
  resources:
  - cloudaccounts
  - gpuclusters
  - gpupods
  - gpuvms
  - inferencebatches
  - sshkeys
  - registrycredentials
  - apikeys
  - organizationmembers
  - vmsnapshots
  - runnerpools
  - provisioningtokens
  - providernodes
  - inferencebackends
  - nodereservations
  - servingdeployments
  - inferencebatchschedules
  - gpumodels
  verbs:
  - get
  - list
  - watch
{{- end }}

{{- define "relay-operator.rules.editors" -}}
# writing
- apiGroups:
  - gpurelay.dev
  resources:
  - cloudaccounts
  - gpuclusters
  - gpupods
  - gpuvms
  - inferencebatches
  - sshkeys
  - registrycredentials
  - apikeys
  - organizationmembers
  - vmsnapshots
  - runnerpools
  - provisioningtokens
  - providernodes
  - inferencebackends
  - nodereservations
  - servingdeployments
  - inferencebatchschedules
  verbs:
  - create
  - update
  - patch
  - delete
  - deletecollection
# kubectl scale and autoscalers
- apiGroups:
  - gpurelay.dev
  resources:
  - gpuclusters/scale
  - servingdeployments/scale
  verbs:
  - get
  - update
  - patch
{{- end }}
