# How a host was where the cluster's own programs will write: directories, kernel parameters, rules of the kernel's packet
# filter. What comes there later is the cluster's, whoever wrote it. Needs originals.sh.

# kx_tree ROOT PATH: keeps whether a path was there, and if it was a directory, which names were in it.
kx_tree() {
  kx_entry "$1" tree "$2"
  if kx_kept "$kx_e"; then return 0; fi
  t_names=
  if [ -d "$2" ]; then
    t_state="dir $(stat -L -c '%a %u %g' -- "$2")" && t_names=$(mktemp) && ls -A -- "$2" >"$t_names" || return 1
  elif [ -e "$2" ] || [ -L "$2" ]; then t_state=other
  else t_state=absent; fi
  kx_note "$1" tree "$2" "$t_state" "$t_names"
  t_rc=$?
  if [ -n "$t_names" ]; then rm -f -- "$t_names"; fi
  return "$t_rc"
}

# kx_parameters ROOT KEY…: keeps kernel parameters' values; whatever they are later is the cluster's doing. One that is not
# there yet comes with a module, and has no value to go back to. One process reads them all: the shell's own reading gets no
# more than a character of some.
kx_parameters() {
  p_root=$1
  shift
  kx_rooms "$p_root" sysctl "$@" || return 1
  p_values=$(cd /proc/sys && grep -s -H -m 1 '' -- "$@")
  for p_key; do
    p_now=absent
    case "$kx_newline$p_values" in *"$kx_newline$p_key:"*)
      p_now="$kx_newline$p_values"
      p_now=${p_now#*"$kx_newline$p_key:"}
      p_now=${p_now%%"$kx_newline"*}
      p_now=$(set -f; printf '%s ' $p_now) && p_now=${p_now% }
      ;;
    *) if [ -r "/proc/sys/$p_key" ]; then p_now=''; fi ;;
    esac
    kx_note "$p_root" sysctl "$p_key" "$p_now" && kx_wrote "$p_root" sysctl "$p_key" '*' || return 1
  done
}

# kx_filters ROOT: keeps which chains, tables and sets there were.
kx_filters() {
  kx_entry "$1" network filters
  if kx_kept "$kx_e"; then return 0; fi
  f_list=$(mktemp) || return 1
  {
    for f_program in iptables ip6tables iptables-legacy ip6tables-legacy iptables-nft ip6tables-nft; do
      if ! command -v "$f_program-save" >/dev/null; then continue; fi
      "$f_program-save" 2>/dev/null | sed -n 's/^:\([^ ]*\) .*/chain \1/p'
    done
    if command -v nft >/dev/null; then nft list tables 2>/dev/null | sed -n 's/^table /table /p'; fi
    if command -v ipset >/dev/null; then ipset list -n 2>/dev/null | sed 's/^/set /'; fi
  } | LC_ALL=C sort -u >"$f_list"
  kx_note "$1" network filters known "$f_list"
  f_rc=$?
  rm -f -- "$f_list"
  return "$f_rc"
}

# kx_mounts_below PATH: what is mounted below it, as the kernel writes it, the latest first.
kx_mounts_below() {
  while read -r _ _ _ _ m_path _; do
    case $m_path in "$1"/*) printf '%s\n' "$m_path" ;; esac
  done </proc/self/mountinfo | tac
}

# kx_unmount_below PATH: one that is busy is taken out of sight, and goes when the last user does.
kx_unmount_below() {
  m_top=$(readlink -m -- "$1" | sed 's/\\/\\134/g; s/ /\\040/g; s/\t/\\011/g') || return 1
  for m_try in 1 2 3; do
    m_found=$(kx_mounts_below "$m_top")
    if [ -z "$m_found" ]; then return 0; fi
    printf '%s\n' "$m_found" | while IFS= read -r m_path; do
      m_path=$(printf '%b' "$(printf %s "$m_path" | sed 's/\\\([0-7][0-7][0-7]\)/\\0\1/g')")
      umount -- "$m_path" 2>/dev/null || umount -l -- "$m_path"
    done
  done
  [ -z "$(kx_mounts_below "$m_top")" ]
}

# kx_empty DIRECTORY [NAMES [files]]: removes what is in it, but for these names; mounts are never entered. files: no
# directory goes.
kx_empty() {
  for d_path in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if ! [ -e "$d_path" ] && ! [ -L "$d_path" ]; then continue; fi
    if [ -n "${3-}" ] && [ -d "$d_path" ] && ! [ -L "$d_path" ]; then continue; fi
    if [ -n "${2-}" ] && grep -qxF -e "${d_path##*/}" -- "$2"; then continue; fi
    rm -rf --one-file-system -- "$d_path" || return 1
  done
}

# kx_clear ENTRY PATH [noted]: a kept path is as it was, as far as the cluster wrote there. noted: only files go, and how it
# was stays known, since somebody goes on writing there: containerd ends when its directory for networks does.
kx_clear() {
  IFS= read -r c_was <"$1/state" || return 1
  if [ -n "${3-}" ]; then
    c_names=
    if [ -e "$1/content" ]; then c_names=$1/content; fi
    if [ -d "$2" ]; then kx_empty "$2" "$c_names" files; fi
    return
  fi
  kx_unmount_below "$2" || return 1
  case $c_was in
    absent)
      if mountpoint -q -- "$2" 2>/dev/null; then kx_empty "$2"
      elif [ -e "$2" ] || [ -L "$2" ]; then rm -rf --one-file-system -- "$2"; fi || return 1
      ;;
    dir*)
      if [ -d "$2" ]; then
        kx_empty "$2" "$1/content" || return 1
        set -- "$1" "$2" $c_was
        chmod -- "$4" "$2" && chown -- "$5:$6" "$2" || return 1
      fi
      ;;
  esac
  rm -rf -- "$1"
}
