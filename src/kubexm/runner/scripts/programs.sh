# Programs staged by version: ROOT/NAME/VERSION/bin/…, made active by one link, ROOT/NAME/current. Where people and units
# look for a program there is a link that goes through it and never changes. Activating needs originals.sh and paths.sh.

# kx_members DIRECTORY MEMBER…: sets kx_m to the members, one a line; all files in the directory if none are named.
kx_members() {
  m_dir=$1 kx_m=
  shift
  if [ "$#" = 0 ]; then
    for m_f in "$m_dir"/*; do if [ -f "$m_f" ]; then set -- "$@" "${m_f##*/}"; fi; done
  fi
  for m_f; do kx_m="$kx_m$m_f
"; done
}

# kx_inactive ROOT NAME VERSION INTO MEMBER…: prints nothing if the version is active and all links lead to it.
kx_inactive() {
  a_dir=$1/$2 a_version=$3 a_into=$4
  shift 4
  a_now=$(readlink -- "$a_dir/current")
  if [ "$a_now" != "$a_version" ]; then echo "${a_now:-none} is active"; return 0; fi
  kx_members "$a_dir/$a_version/bin" "$@"
  a_tab=$(printf '\t') a_want=
  set --
  while IFS= read -r a_m; do
    if [ -z "$a_m" ]; then continue; fi
    set -- "$@" "$a_into/$a_m"
    a_want="$a_want$a_into/$a_m$a_tab$a_dir/current/bin/$a_m
"
  done <<EOT
$kx_m
EOT
  if [ "$#" = 0 ]; then echo "there is nothing in $a_dir/$a_version"; return 0; fi
  # One process looks at all of them.
  a_found=$(find "$@" -maxdepth 0 -printf '%p\t%l\n' 2>/dev/null)
  if [ "$a_found
" != "$a_want" ]; then echo "links in $a_into do not lead to it"; fi
}

# kx_activate ROOT NAME VERSION INTO MEMBER…: all members switch to the version at once; what was active becomes previous.
kx_activate() {
  a_dir=$1/$2 a_version=$3 a_into=$4 a_nl='
'
  shift 4
  kx_members "$a_dir/$a_version/bin" "$@"
  while IFS= read -r a_m; do
    if [ -n "$a_m" ] && ! [ -f "$a_dir/$a_version/bin/$a_m" ]; then kx_die "there is no $a_dir/$a_version/bin/$a_m"; fi
  done <<EOT
$kx_m
EOT
  if [ "$kx_m" = "$a_nl" ] || [ -z "$kx_m" ]; then kx_die "there is nothing in $a_dir/$a_version/bin"; fi
  if command -v restorecon >/dev/null && [ -e /sys/fs/selinux/enforce ]; then restorecon -RF -- "$a_dir" || :; fi
  a_now=$(readlink -- "$a_dir/current")
  if [ "$a_now" != "$a_version" ]; then
    if [ -n "$a_now" ]; then ( kx_link "$a_dir/previous" "$a_now" ) >/dev/null || exit 1; fi
    # Where something was started from here before, a power cut must not leave less than that.
    if [ -n "$a_now" ] || [ -e "$a_into/${kx_m%%"$a_nl"*}" ]; then sync -f -- "$a_dir/$a_version" || exit 1; fi
    ( kx_link "$a_dir/current" "$a_version" ) >/dev/null || exit 1
  fi
  while IFS= read -r a_m; do
    if [ -z "$a_m" ] || [ "$(readlink -- "$a_into/$a_m")" = "$a_dir/current/bin/$a_m" ]; then continue; fi
    ( kx_link "$a_into/$a_m" "$a_dir/current/bin/$a_m" ) >/dev/null || exit 1
  done <<EOT
$kx_m
EOT
}

# kx_prunable ROOT KEPT: prints the staged versions that nothing refers to: no link, no process, no container's shim, and
# that are not among the kept (NAME/VERSION, one a line).
kx_prunable() {
  # These files end without a line break, so cat would join them.
  p_used=$({ readlink -- /proc/[0-9]*/exe; grep -h '' -- /run/containerd/io.containerd.runtime.v2.task/*/*/shim-binary-path; } \
    2>/dev/null)
  for p_dir in "$1"/*/*; do
    if ! [ -d "$p_dir" ] || [ -L "$p_dir" ]; then continue; fi
    p_name=${p_dir%/*} p_version=${p_dir##*/}
    if [ "$(readlink -- "$p_name/current")" = "$p_version" ]; then continue; fi
    if [ "$(readlink -- "$p_name/previous")" = "$p_version" ]; then continue; fi
    case "
$2
" in *"
${p_name##*/}/$p_version
"*) continue ;; esac
    case "
$p_used" in *"
$p_dir/"*) continue ;; esac
    printf '%s\n' "$p_dir"
  done
}

# kx_prune ROOT KEPT: removes them.
kx_prune() {
  kx_prunable "$1" "$2" | while IFS= read -r p_gone; do rm -rf --one-file-system -- "$p_gone" || exit 1; done
}
