#!/bin/bash
# inside.sh NAME GPUS NODE-ROOT PROGRAMS RUNTIME METRICS IMAGES STATE: PID 1 of a node. It mounts the node's root, starts every component, and
# ends them on SIGTERM.
# It runs in its own namespaces (mount, pid, network, cgroup, ipc, uts): no rule, address, mount or setting of the machine changes.
set -eu
NAME=$1 GPUS=$2 LOWER=$3 PROGRAMS=$4 RUNTIME=$5 METRICS=$6 IMAGES=$7 STATE=$8 ROOT=$8/root
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$STATE/upper,workdir=$STATE/work" "$ROOT"
mkdir -p "$ROOT"/{pki,proc,sys,dev,run,tmp,images,etc/cni/net.d,etc/containerd,opt/cni/bin,opt/node,opt/runtime,opt/metrics,var/lib/containerd,var/lib/kubelet,var/log/node,srv/volumes}
mount -t proc proc "$ROOT/proc"; mount -t sysfs sysfs "$ROOT/sys"; mount --rbind /dev "$ROOT/dev"
mount -t tmpfs tmpfs "$ROOT/run"; mount -t tmpfs tmpfs "$ROOT/tmp"; mount -t tmpfs -o mode=755 cgroup "$ROOT/sys/fs/cgroup"
while read -r controllers; do  # the cgroup v1 hierarchies, with the controllers that this machine combines
  mkdir -p "$ROOT/sys/fs/cgroup/$controllers"; mount -t cgroup -o "$controllers" cgroup "$ROOT/sys/fs/cgroup/$controllers"
done < <(awk -F: '$2 != "" && $2 !~ /^name=/ {print $2}' /proc/self/cgroup)
# The kubelet would set these for the whole machine; bind-mounted files make it believe that they are set.
number=0
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  number=$((number + 1)); echo "${setting#*=}" > "$STATE/setting$number"; mount --bind "$STATE/setting$number" "$ROOT/proc/sys/${setting%=*}"
done
for kept in containerd kubelet; do mount --bind "$STATE/$kept" "$ROOT/var/lib/$kept"; done
mount --make-shared "$ROOT/var/lib/kubelet"
mount --bind "$STATE/pki" "$ROOT/pki"; mount --bind "$STATE/log" "$ROOT/var/log/node"
mount --bind -o ro "$PROGRAMS" "$ROOT/opt/node"; mount --bind -o ro "$RUNTIME" "$ROOT/opt/runtime"
mount --bind -o ro "$METRICS" "$ROOT/opt/metrics"; mount --bind -o ro "$IMAGES" "$ROOT/images"
for plugin in bridge host-local loopback portmap; do ln -sf "/opt/runtime/$plugin" "$ROOT/opt/cni/bin/$plugin"; done
hostname "$NAME"; echo "$NAME" > "$ROOT/etc/hostname"; echo "127.0.0.1 localhost $NAME" > "$ROOT/etc/hosts"; : > "$ROOT/etc/resolv.conf"
cp "$STATE"/config/10-bridge.conflist "$ROOT/etc/cni/net.d/"; cp "$STATE"/config/containerd.toml "$ROOT/etc/containerd/config.toml"; cp "$STATE"/config/{kubelet,proxy,storageclass,volume,metrics}.yaml "$ROOT/etc/"

# The node's address is on this bridge; Pods have their own bridge. Nothing routes out of the node.
ip link set lo up
ip link add node0 type bridge; ip addr add 10.200.0.1/24 dev node0; ip link set node0 up; ip route add default via 10.200.0.254 dev node0
echo 1 > /proc/sys/net/ipv4/ip_forward

# chroot alone is not enough: the mount namespace would keep the machine's root, and `kubectl exec` would enter it.
cd "$ROOT"; mkdir -p old; pivot_root . old
exec chroot . /bin/bash -s "$NAME" "$GPUS" <<'INSIDE'
NAME=$1 GPUS=$2; umount -l /old; export PATH=/opt/node:/opt/runtime:/opt/metrics:/usr/sbin:/usr/bin:/sbin:/bin; cd /
part() { log=$1; shift; "$@" > "/var/log/node/$log.log" 2>&1 & }
until_done() { for _ in $(seq 300); do "$@" > /dev/null 2>&1 && return; sleep 0.2; done; return 1; }
ADMIN="node kubectl --kubeconfig /pki/admin.kubeconfig"
ETCD=http://127.0.0.1
part containerd containerd
part etcd node etcd --data-dir /var/lib/etcd --listen-client-urls $ETCD:2379 --advertise-client-urls $ETCD:2379 --listen-peer-urls $ETCD:2380 \
  --initial-advertise-peer-urls $ETCD:2380 --initial-cluster default=$ETCD:2380 --unsafe-no-fsync
part apiserver node kube-apiserver --etcd-servers=$ETCD:2379 --secure-port=6443 --bind-address=0.0.0.0 --advertise-address=10.200.0.1 \
  --tls-cert-file=/pki/apiserver.crt --tls-private-key-file=/pki/apiserver.key \
  --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=/pki/sa.pub --service-account-signing-key-file=/pki/sa.key \
  --token-auth-file=/pki/tokens.csv --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --service-cluster-ip-range=10.96.0.0/16 \
  --kubelet-client-certificate=/pki/kubelet-client.crt --kubelet-client-key=/pki/kubelet-client.key --kubelet-preferred-address-types=InternalIP \
  --proxy-client-cert-file=/pki/kubelet-client.crt --proxy-client-key-file=/pki/kubelet-client.key --requestheader-client-ca-file=/pki/ca.crt \
  --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra-
import() { until_done ctr version; for image in /images/*.tar; do ctr -n k8s.io images import "$image"; done; }
import > /var/log/node/import.log 2>&1 & IMPORT=$!
until_done $ADMIN get --raw /readyz
part controller-manager node kube-controller-manager --kubeconfig=/pki/controller-manager.kubeconfig --service-account-private-key-file=/pki/sa.key \
  --root-ca-file=/pki/ca.crt --use-service-account-credentials --leader-elect=false --secure-port=0 \
  --horizontal-pod-autoscaler-sync-period=3s
part scheduler node kube-scheduler --kubeconfig=/pki/scheduler.kubeconfig --leader-elect=false --secure-port=0
part kubelet node kubelet --config=/etc/kubelet.yaml --kubeconfig=/pki/kubelet.kubeconfig --hostname-override="$NAME" --node-ip=10.200.0.1
part proxy node kube-proxy --config=/etc/proxy.yaml --hostname-override="$NAME"
part dns node dns --kubeconfig=/pki/admin.kubeconfig --listen=10.200.0.1:53
until_done $ADMIN wait --for=condition=Ready "node/$NAME" --timeout=60s
part gpus node gpus --count="$GPUS"
part metrics-server metrics-server --kubeconfig=/pki/admin.kubeconfig --authentication-kubeconfig=/pki/admin.kubeconfig --authorization-kubeconfig=/pki/admin.kubeconfig \
  --secure-port=4443 --cert-dir=/run/metrics-server --kubelet-insecure-tls --metric-resolution=10s --kubelet-request-timeout=5s
for number in $(seq $((2 * GPUS))); do mkdir -p "/srv/volumes/$number"; echo ---; sed "s/NUMBER/$number/" /etc/volume.yaml; done | cat /etc/storageclass.yaml - > /etc/volumes.yaml
$ADMIN apply -f /etc/volumes.yaml -f /etc/metrics.yaml > /var/log/node/applied.log 2>&1
until_done $ADMIN get --raw /apis/metrics.k8s.io/v1beta1 # a namespace cannot be deleted while an APIService has no backend
wait "$IMPORT"; touch /pki/ready
trap 'kill 0' TERM; while :; do wait -n || true; sleep 1; done
INSIDE
