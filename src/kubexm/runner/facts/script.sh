# Prints all facts about a host, in sections that start with a marker line. Needs sh, coreutils and util-linux only;
# anything else is used if it is there. Changes nothing. Interpreting is done by whoever reads this, not here.
# The caller sets kx_marker, a word no output contains; kx_state, kubexm's own directory on the host; kx_modules and
# kx_programs, where programs are staged; kx_options, patterns for the kernel modules and options that matter.
# Few processes are started, since most of the time this takes is spent in starting them.
exec 2>/dev/null
s() { printf '\n%s %s\n' "$kx_marker" "$1"; }
have() { command -v "$1" >/dev/null; }

s clock.begin; date +%s.%N
read -r kx_release </proc/sys/kernel/osrelease || kx_release=$(uname -r)
s files
head -v -c 65536 /etc/os-release /usr/lib/os-release /proc/sys/kernel/hostname /proc/sys/kernel/osrelease \
  /proc/sys/kernel/version /proc/sys/kernel/random/boot_id /proc/uptime /proc/meminfo /proc/swaps /etc/machine-id \
  /var/lib/dbus/machine-id /sys/class/dmi/id/product_uuid /sys/class/dmi/id/sys_vendor \
  /sys/class/dmi/id/product_name /run/systemd/container /sys/devices/system/cpu/online /etc/resolv.conf \
  /sys/fs/cgroup/cgroup.controllers /proc/cgroups /proc/1/comm /proc/self/status /proc/1/status \
  /sys/fs/selinux/enforce /etc/selinux/config /sys/module/apparmor/parameters/enabled \
  /proc/sys/net/netfilter/nf_conntrack_max /proc/filesystems /proc/modules /etc/ufw/ufw.conf /etc/timezone \
  /proc/sys/net/ipv4/ip_forward "$kx_state/lease"
s cpu; nproc; head -n 40 /proc/cpuinfo
s machine; uname -m
s df; timeout 10 df -P -k -T -l
s disks
for d in /sys/block/*; do
  case ${d##*/} in loop*|ram*|zram*|sr*|fd*|dm-*|md*) continue ;; esac
  if read -r n <"$d/size"; then
    read -r r <"$d/queue/rotational" || r=-; read -r m <"$d/device/model" || m=
    printf '%s %s %s %s\n' "${d##*/}" "$n" "$r" "$m"
  fi
done
s user; id -u; printf '%s\n' "${SUDO_USER-}"

s links
for i in /sys/class/net/*; do
  if [ -e "$i/address" ]; then
    read -r m <"$i/address" || m=; read -r t <"$i/mtu" || t=0; read -r o <"$i/operstate" || o=unknown
    v=virtual; if [ -e "$i/device" ]; then v=physical; fi
    printf '%s %s %s %s %s\n' "${i##*/}" "${m:--}" "${t:-0}" "${o:-unknown}" "$v"
  fi
done
if have ip; then
  s ip-addr; ip -o addr show
  s ip-route; ip -4 route show default
  s ip-route6; ip -6 route show default
else
  s proc-net; head -v -c 262144 /proc/net/if_inet6 /proc/net/fib_trie /proc/net/route /proc/net/ipv6_route
fi

s flags
if [ -d /run/systemd/system ]; then echo systemd; fi
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo cgroup2; elif [ -d /sys/fs/cgroup ]; then echo cgroup1; fi
if [ -w /proc/sys/net/netfilter/nf_conntrack_max ]; then echo conntrack-writable; fi
if [ -e /run/systemd/timesync/synchronized ]; then echo timesyncd-synchronized; fi
if [ -e /var/run/reboot-required ]; then echo reboot-required; fi
s timezone; readlink /etc/localtime
s systemd
kx_version=
for p in /usr/lib/systemd/libsystemd-shared-*.so /usr/lib64/systemd/libsystemd-shared-*.so \
  /usr/lib/*/systemd/libsystemd-shared-*.so /lib/systemd/libsystemd-shared-*.so; do
  if [ -e "$p" ]; then kx_version=${p##*-shared-}; echo "systemd ${kx_version%.so}"; break; fi
done
if [ -z "$kx_version" ] && have systemctl; then systemctl --version; fi

s sys-module; echo /sys/module/*
if [ -r "/lib/modules/$kx_release/modules.builtin" ]; then
  s modules.builtin; grep -E "$kx_modules" "/lib/modules/$kx_release/modules.builtin"
  s modules.dep; grep -oE "^[^:]*$kx_modules" "/lib/modules/$kx_release/modules.dep"
else
  s kernel-config
  if [ -r "/boot/config-$kx_release" ]; then grep -E "$kx_options" "/boot/config-$kx_release"
  elif [ -r /proc/config.gz ] && have gzip; then gzip -dc /proc/config.gz | grep -E "$kx_options"; fi
fi
s probes
for p in /proc/sys/net/bridge/bridge-nf-call-iptables /proc/sys/net/netfilter/nf_conntrack_max /proc/net/ip_vs \
  /proc/net/ip_tables_names /proc/net/ip6_tables_names /dev/net/tun; do
  if [ -e "$p" ]; then echo "$p"; fi
done

s commands
for c in apt-get dpkg dnf yum rpm zypper apk pacman systemctl journalctl ip ss iptables ip6tables nft ipset ebtables \
  conntrack socat ethtool modprobe sysctl tar gzip zstd xz curl wget chronyc chronyd ntpd timedatectl ufw firewall-cmd \
  mount umount swapoff flock useradd groupadd restorecon sudo containerd dockerd crio podman nerdctl ctr crictl runc \
  crun kubelet kubeadm kubectl kube-apiserver kube-controller-manager kube-scheduler kube-proxy etcd etcdctl k3s rke2 \
  k0s microk8s helm haproxy keepalived python3 lvm mount.nfs iscsiadm setsid timeout sha256sum; do
  command -v "$c"
done
if [ -d /run/systemd/system ]; then
  s units
  # Asking systemd takes milliseconds a unit, so only for those that are there.
  kx_units=
  for u in containerd docker crio cri-docker podman kubelet etcd kube-apiserver kube-controller-manager kube-scheduler \
    kube-proxy k3s k3s-agent rke2-server rke2-agent k0scontroller k0sworker snap.microk8s.daemon-kubelite haproxy \
    kubexm-haproxy \
    keepalived chrony chronyd systemd-timesyncd ntp ntpd ntpsec openntpd firewalld ufw nftables iptables \
    NetworkManager systemd-networkd systemd-resolved multipathd; do
    for d in /etc /run /usr/local/lib /usr/lib /lib; do
      if [ -e "$d/systemd/system/$u.service" ] || [ -L "$d/systemd/system/$u.service" ]; then
        kx_units="$kx_units $u.service"; break
      fi
    done
  done
  if [ -n "$kx_units" ]; then
    kx_shown=$(timeout 10 systemctl show -p Id -p LoadState -p ActiveState -p SubState -p UnitFileState -p FragmentPath \
      -p MainPID $kx_units)
    printf '%s\n' "$kx_shown"
  fi
fi
if [ -e "$kx_state/cluster.json" ]; then
  # Programs that are staged by version tell it by their path; others are asked, as they run, not as they are on disk now.
  s programs
  kx_main() {
    case $kx_id in kubelet.*|containerd.*|etcd.*|kube-*|kubexm-haproxy.*) ;; *) return ;; esac
    kx_exe=$(readlink "/proc/$kx_pid/exe") || return
    kx_said=
    case $kx_id:$kx_exe in
      *:"$kx_programs"/*) ;;
      kubexm-haproxy.*) kx_said=$(timeout 5 chroot "/proc/$kx_pid/root" /usr/local/sbin/haproxy -v | head -n 1) ;;
      *) kx_said=$(timeout 5 "/proc/$kx_pid/exe" --version | head -n 1) ;;
    esac
    printf '%s\t%s\t%s\n' "${kx_id%.service}" "$kx_exe" "$kx_said"
  }
  kx_id= kx_pid=
  while IFS='=' read -r k v; do
    case $k in
      Id) kx_id=$v ;;
      MainPID) kx_pid=$v ;;
      '') if [ -n "$kx_id" ] && [ "${kx_pid:-0}" != 0 ]; then kx_main; fi; kx_id= kx_pid= ;;
    esac
  done <<EOT
${kx_shown-}

EOT
  s containers
  grep -oE '"io\.kubernetes\.cri\.(container-name|image-name|sandbox-namespace)": *"[^"]*"' \
    /run/containerd/io.containerd.runtime.v2.task/k8s.io/*/config.json /dev/null
  s manifests; grep -E '^ *(- )?image:' /etc/kubernetes/manifests/*.yaml /dev/null
  s staged
  for p in "$kx_programs"/*/*; do
    if [ -L "$p" ]; then printf '%s\t%s\n' "$p" "$(readlink "$p")"; elif [ -d "$p" ]; then printf '%s\t\n' "$p"; fi
  done
  if ! [ -L "$kx_programs/runc/current" ] && have runc; then s asked; printf 'runc\t'; timeout 5 runc --version | head -n 1; fi
fi
s sockets
for p in /run/containerd/containerd.sock /run/docker.sock /run/crio/crio.sock /run/cri-dockerd.sock \
  /run/podman/podman.sock /run/k3s/containerd/containerd.sock; do
  if [ -S "$p" ]; then echo "$p"; fi
done
s leftovers
for p in /etc/kubernetes /etc/kubernetes/manifests /etc/kubernetes/pki /etc/kubernetes/admin.conf \
  /etc/kubernetes/kubelet.conf /var/lib/etcd /var/lib/kubelet /var/lib/containerd /var/lib/docker /etc/cni/net.d \
  /opt/cni/bin /etc/containerd /etc/rancher /var/lib/rancher /var/lib/k0s /var/snap/microk8s; do
  if [ -d "$p" ]; then
    for f in "$p"/* "$p"/.[!.]*; do
      if [ -e "$f" ] || [ -L "$f" ]; then echo "$p"; break; fi
    done
  elif [ -e "$p" ]; then echo "$p"; fi
done
s timesync
if have chronyc; then timeout 3 chronyc -n -c tracking
elif [ -d /run/systemd/system ] && have timedatectl && ! [ -e /usr/lib/systemd/systemd-timesyncd ]; then
  timeout 3 timedatectl show -p NTPSynchronized
fi
if have ss; then s ss; timeout 10 ss -H -l -t -u -n -p
else
  s proc-ports; head -v -c 262144 /proc/net/tcp /proc/net/tcp6 /proc/net/udp /proc/net/udp6
  s proc-fd; ls -l /proc/[0-9]*/fd | grep -E '^/proc/|socket:'
  s proc-comm; grep -s '' /proc/[0-9]*/comm
fi
if [ -e "$kx_state/cluster.json" ]; then s marker; cat "$kx_state/cluster.json"; fi
if [ -e "$kx_state/intent.json" ]; then s intent; cat "$kx_state/intent.json"; fi
s fences; for p in /run/kubexm/fence.*; do if [ -e "$p" ]; then printf '%s\n' "${p##*.}"; fi; done
s stamps; for p in "$kx_state"/stamps/*; do if [ -e "$p" ]; then printf '%s\n' "${p##*/}"; fi; done
s clock.end; date +%s.%N
s end
exit 0
