#!/usr/bin/env bash
# A cluster as people with experience script it: stacked kubeadm over OpenSSH. The same payload goes to every host in
# parallel, all wait until every host is prepared, control planes join one by one, workers all at once.
#
#   expert.sh PAYLOAD KEY KNOWN_HOSTS VERSION "CP1 CP2 …" "W1 W2 …"     (addresses; PAYLOAD as benchmarks/cluster.py packs it)
set -euo pipefail
payload=$1 key=$2 known=$3 version=$4
read -ra planes <<<"$5"
read -ra workers <<<"$6"
all=("${planes[@]}" "${workers[@]}")
first=${planes[0]}
sockets=$(mktemp -d)
trap 'rm -rf "$sockets"' EXIT
options=(-F none -i "$key" -o UserKnownHostsFile="$known" -o BatchMode=yes -o LogLevel=ERROR -c aes128-gcm@openssh.com
    -o ControlMaster=auto -o ControlPath="$sockets/%h" -o ControlPersist=60)

on() { local host=$1; shift; ssh "${options[@]}" "root@$host" "$@"; }
phase() { echo "$1 $((SECONDS - last))"; last=$SECONDS; }
everywhere() {
    local pids=() host
    for host in "${all[@]}"; do "$1" "$host" & pids+=($!); done
    for pid in "${pids[@]}"; do wait "$pid"; done
}
last=$SECONDS

push() { on "$1" 'mkdir -p /root/payload && tar -C /root/payload -xf -' <"$payload"; }

prepare() {
    on "$1" 'bash -seu' <<PREPARE
cd /root/payload
echo "$first endpoint.local" >>/etc/hosts
cat >/etc/sysctl.d/90-kubernetes.conf <<'CONF'
net.bridge.bridge-nf-call-iptables = 1
net.ipv4.ip_forward = 1
CONF
sysctl -q -p /etc/sysctl.d/90-kubernetes.conf
tar -C /usr/local -xf containerd.tar.gz
install -m 755 runc /usr/local/sbin/runc
mkdir -p /opt/cni/bin && tar -C /opt/cni/bin -xf cni-plugins.tgz
tar -C /usr/local/bin -xf crictl.tar.gz
install -m 755 kubeadm kubelet kubectl /usr/local/bin/
mkdir -p /etc/containerd && cp containerd.toml /etc/containerd/config.toml
cp containerd.service kubelet.service /etc/systemd/system/
systemctl daemon-reload
systemctl enable -q --now containerd
systemctl enable -q kubelet
until ctr version >/dev/null 2>&1; do sleep 0.2; done
ctr -n k8s.io images import images.tar >/dev/null
PREPARE
}

everywhere push
phase push
everywhere prepare
phase prepare

certificates=$(openssl rand -hex 32)
on "$first" 'bash -seu' <<INIT
cat >/root/kubeadm.yaml <<'CONF'
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
certificateKey: $certificates
nodeRegistration:
  ignorePreflightErrors: [all]
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: $version
controlPlaneEndpoint: endpoint.local:6443
networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/16}
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack: {maxPerCore: 0, min: 0}
CONF
kubeadm init --config /root/kubeadm.yaml --upload-certs >/root/init.log 2>&1 || { tail -20 /root/init.log >&2; exit 1; }
kubectl --kubeconfig /etc/kubernetes/admin.conf apply -f /root/payload/network.yaml >/dev/null
INIT
phase init
join=$(on "$first" 'kubeadm token create --print-join-command 2>/dev/null')

for host in "${planes[@]:1}"; do
    on "$host" "$join --control-plane --certificate-key $certificates --ignore-preflight-errors=all >/root/join.log 2>&1 || { tail -20 /root/join.log >&2; exit 1; }"
done
phase planes
join_worker() { on "$1" "$join --ignore-preflight-errors=all >/root/join.log 2>&1 || { tail -20 /root/join.log >&2; exit 1; }"; }
pids=()
for host in "${workers[@]}"; do join_worker "$host" & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid"; done
phase workers

on "$first" 'bash -seu' <<READY
export KUBECONFIG=/etc/kubernetes/admin.conf
kubectl wait --for=condition=Ready nodes --all --timeout=300s >/dev/null
kubectl -n kube-system rollout status deployment/coredns --timeout=300s >/dev/null
READY
phase ready
