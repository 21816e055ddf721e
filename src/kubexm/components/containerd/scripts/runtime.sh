# What delete asks of containerd that CRI cannot do. Nothing here is an error on a host where it never ran.

kx_rt_here() { command -v ctr >/dev/null; }

# kx_rt_end_pods: no container of Kubernetes is left.
kx_rt_end_pods() {
  for p_id in $(ctr -n k8s.io tasks ls -q); do ctr -n k8s.io tasks kill -a -s SIGKILL "$p_id"; done
  sleep 1
  for p_id in $(ctr -n k8s.io tasks ls -q); do ctr -n k8s.io tasks delete -f "$p_id"; done
  for p_id in $(ctr -n k8s.io containers ls -q); do ctr -n k8s.io containers delete "$p_id" || return 1; done
}

kx_rt_mount() { ctr -n k8s.io images mount "$1" "$2" >/dev/null 2>&1; }
kx_rt_unmount() { ctr -n k8s.io images unmount --rm "$1" >/dev/null 2>&1; }
