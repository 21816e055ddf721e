# What a cluster runs on a host: units that kubexm brought, and the processes of pods.
# The caller sets kx_root, where originals are; kx_runtime, the unit of the container runtime, and kx_keep: a unit that is
# to go on running, or nothing. It also brings the functions of the runtime, kx_rt_….

# kx_brought UNIT: true if it was not there before kubexm came: systemd did not know it, or its file was not there.
kx_brought() {
  for u_file in "unit/$1" "file/%2Fetc%2Fsystemd%2Fsystem%2F$1"; do
    u_state=
    if [ -r "$kx_root/$u_file/state" ]; then IFS= read -r u_state <"$kx_root/$u_file/state"; fi
    case $u_state in not-found*|absent) return 0 ;; esac
  done
  return 1
}

# kx_units: the units that kubexm brought and started, one a line.
kx_units() {
  for u_e in "$kx_root"/unit/*; do
    if [ -d "$u_e" ] && IFS= read -r u_name <"$u_e/name" && [ "$u_name" != "$kx_keep" ] && kx_brought "$u_name"; then
      printf '%s\n' "$u_name"
    fi
  done
}

# kx_group PATH: the processes in a control group of this path and below, seen from this host's own systemd.
kx_group() {
  g_top=$(sed -n -e 's,^[0-9]*:name=systemd:\(.*\)/init\.scope$,\1,p' -e 's,^0::\(.*\)/init\.scope$,\1,p' /proc/1/cgroup)
  g_top=$(printf '%s\n' "$g_top" | head -n 1 | sed 's/[].*^$[]/\\&/g')
  grep -ls "^[0-9]*:[^:]*:$g_top/$1" /proc/[0-9]*/cgroup | cut -d/ -f3
}

kx_pods() { if kx_brought kubelet.service; then kx_group 'kubepods[./]'; fi; }
kx_shims() {
  if [ "$kx_keep" != "$kx_runtime" ] && kx_brought "$kx_runtime"; then
    kx_group "system\.slice/$(printf %s "$kx_runtime" | sed 's/[].*^$[]/\\&/g')"
  fi
}

# kx_left: what still runs, one thing a line.
kx_left() {
  for l_unit in $(kx_units); do
    case $(systemctl show -p ActiveState --value -- "$l_unit") in inactive|failed|'') ;; *) echo "$l_unit" ;; esac
  done
  l_pods=$(kx_pods | wc -l)
  if [ "$l_pods" -gt 0 ]; then echo "$l_pods processes of pods"; fi
  l_shims=$(kx_shims | wc -l)
  if [ "$l_shims" -gt 0 ]; then echo "$l_shims processes of the runtime"; fi
}

# kx_end FUNCTION SECONDS: the processes it lists are asked to end, and after that long made to.
kx_end() {
  e_try=$(($2 * 5))
  e_pids=$($1)
  if [ -z "$e_pids" ]; then return 0; fi
  kill -TERM $e_pids 2>/dev/null
  while [ "$e_try" -gt 0 ]; do
    e_pids=$($1)
    if [ -z "$e_pids" ]; then return 0; fi
    sleep 0.2
    e_try=$((e_try - 1))
  done
  for e_try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    e_pids=$($1)
    if [ -z "$e_pids" ]; then return 0; fi
    kill -KILL $e_pids 2>/dev/null
    sleep 0.2
  done
  [ -z "$($1)" ]
}

# kx_forget_pods: the runtime, which stays, knows of no pod any more.
kx_forget_pods() {
  if ! systemctl is-active --quiet "$kx_runtime"; then return 0; fi
  if command -v crictl >/dev/null && crictl --timeout 60s rmp -f -a >/dev/null 2>&1; then return 0; fi
  kx_rt_end_pods
}

# kx_borrow_nft DIRECTORY IMAGE…: on a host without nft, the one in an image of the cluster is put there with what it needs
# to run, since nothing else can take away rules that were made with it. From the image, not from a pod: who knows what a
# pod did to its files.
kx_borrow_nft() {
  b_to=$1
  shift
  if command -v nft >/dev/null || ! kx_brought "$kx_runtime" || ! kx_rt_here; then return 0; fi
  b_at=$b_to.image
  mkdir -p -m 700 -- "$b_at" || return 1
  for b_image; do
    kx_rt_mount "$b_image" "$b_at" || continue
    b_nft=
    for b_path in usr/sbin/nft usr/bin/nft sbin/nft; do if [ -x "$b_at/$b_path" ]; then b_nft=$b_path; break; fi; done
    for b_loader in "$b_at"/lib64/ld-linux-*.so.? "$b_at"/lib/ld-linux-*.so.? "$b_at"/lib/ld-musl-*.so.1; do
      if [ -z "$b_nft" ] || ! [ -e "$b_loader" ]; then continue; fi
      b_loader=${b_loader#"$b_at"/}
      b_needs=$(chroot "$b_at" "/$b_loader" --list "/$b_nft" 2>/dev/null | grep -oE '/[^ ]+' | sed 's,^/,,' | sort -u)
      rm -rf -- "$b_to"
      mkdir -p -m 700 -- "$b_to" && ( cd -- "$b_at" && cp -L --parents -- "$b_nft" "$b_loader" $b_needs "$b_to" ) &&
        mv -- "$b_to/$b_nft" "$b_to/nft"
      break
    done
    kx_rt_unmount "$b_at" || umount -- "$b_at"
    if [ -x "$b_to/nft" ]; then break; fi
  done
  rmdir -- "$b_at"
  return 0
}

# kx_stop GRACE: nothing of the cluster runs any more. The kubelet goes first, or it would start pods again; etcd goes
# after its clients, for which it waits otherwise, and the runtime last.
kx_stop() {
  s_first= s_later= s_last=
  for s_unit in $(kx_units); do
    case $s_unit in
      kubelet.service) systemctl stop kubelet.service ;;
      kubexm-firewall.service) ;;
      etcd.service) s_later=$s_unit ;;
      "$kx_runtime") s_last=$s_unit ;;
      *) s_first="$s_first $s_unit" ;;
    esac
  done
  if [ "$kx_keep" = "$kx_runtime" ]; then kx_forget_pods || echo 'the runtime still knows of pods' >&2; fi
  if [ -n "$s_first" ]; then systemctl stop -- $s_first; fi
  kx_end kx_pods "$1" || return 1
  if [ -n "$s_later" ]; then systemctl stop -- "$s_later"; fi
  if [ -n "$s_last" ]; then systemctl stop -- "$s_last"; fi
  kx_end kx_shims 0 || return 1
  if ! kx_brought kubelet.service; then return 0; fi
  systemctl stop kubepods.slice 2>/dev/null
  for s_dir in /sys/fs/cgroup/kubepods* /sys/fs/cgroup/*/kubepods*; do
    if [ -d "$s_dir" ]; then find "$s_dir" -depth -type d -exec rmdir -- {} + 2>/dev/null; fi
  done
  for s_unit in $(kx_units); do systemctl reset-failed -- "$s_unit" 2>/dev/null; done
  return 0
}
