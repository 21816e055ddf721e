# systemd units: what a unit was started from, and starting it so that this can be told later.
# The stamp of a unit holds a digest of its unit file, drop-ins and inputs, and the InvocationID it then got.

# kx_unit UNIT: sets u_* from systemd's own view.
kx_unit() {
  u_load= u_active= u_sub= u_enabled= u_invocation= u_file= u_dropins= u_reload= u_type= u_started= u_entered= u_result=
  u_status= u_code=
  u_show=$(TZ=UTC systemctl show -p LoadState -p ActiveState -p SubState -p UnitFileState -p InvocationID \
    -p FragmentPath -p DropInPaths -p NeedDaemonReload -p Type -p ExecMainStartTimestamp -p ActiveEnterTimestamp \
    -p Result -p ExecMainStatus -p ExecMainCode -- "$1") || return 1
  while IFS='=' read -r k v; do
    case $k in
      LoadState) u_load=$v ;; ActiveState) u_active=$v ;; SubState) u_sub=$v ;; UnitFileState) u_enabled=$v ;;
      InvocationID) u_invocation=$v ;; FragmentPath) u_file=$v ;; DropInPaths) u_dropins=$v ;;
      NeedDaemonReload) u_reload=$v ;; Type) u_type=$v ;; ExecMainStartTimestamp) u_started=$v ;;
      ActiveEnterTimestamp) u_entered=$v ;; Result) u_result=$v ;; ExecMainStatus) u_status=$v ;;
      ExecMainCode) u_code=$v ;;
    esac
  done <<EOT
$u_show
EOT
  # How a unit is enabled systemd remembers from when it loaded it; is-enabled looks at the disk.
  case $u_enabled:$u_active in disabled:active) u_enabled=$(systemctl is-enabled -- "$1" 2>/dev/null) || : ;; esac
}

# kx_unseen UNIT: true if a drop-in is on disk that systemd has not read; it does not tell of new directories itself.
kx_unseen() {
  case $1 in *@*.*) u_template=${1%%@*}@.${1##*.} ;; *) u_template=$1 ;; esac
  for d in /etc /run /usr/local/lib /usr/lib /lib; do
    for f in "$d/systemd/system/$1.d"/*.conf "$d/systemd/system/$u_template.d"/*.conf; do
      if ! [ -e "$f" ]; then continue; fi
      # One further up the list hides those of the same name further down.
      case $d in /etc) n=$f ;; *) n=/${f##*/} ;; esac
      case " $u_dropins " in *"$n "*) ;; *) return 0 ;; esac
    done
  done
  return 1
}

# kx_digest INPUT…: sets u_digest, and u_newest, the time of the latest change to any of these files.
# Files over 1 MiB count by size, time and inode: programs are inputs too, and reading them all takes long.
# One process looks at them all and one reads those that are read.
kx_digest() {
  u_digest= u_newest=0 u_text= u_nl='
'
  u_list=
  for i in ${u_file:+"$u_file"} $u_dropins "$@"; do
    if [ -d "$i" ]; then
      i=$(find "$i" -type f | LC_ALL=C sort)
      if [ -z "$i" ]; then continue; fi
    elif ! [ -f "$i" ]; then
      u_missing=$i
      return 1
    fi
    u_list=$u_list$i$u_nl
  done
  if [ -z "$u_list" ]; then u_stats= u_hashes=; else
    u_stats=$(IFS=$u_nl; set -f; stat -L -c '%Z %s %i %y' -- $u_list) || return 1
    u_small= u_rest=$u_list
    while IFS= read -r t; do
      z=${t#* } z=${z%% *}
      if [ "$z" -le 1048576 ]; then u_small=$u_small${u_rest%%"$u_nl"*}$u_nl; fi
      u_rest=${u_rest#*"$u_nl"}
    done <<EOT
$u_stats
EOT
    u_hashes=
    if [ -n "$u_small" ]; then u_hashes=$(IFS=$u_nl; set -f; sha256sum -- $u_small) || return 1; fi
    u_hashes=$u_hashes$u_nl
    while IFS= read -r t; do
      c=${t%% *} r=${t#* } z=${t#* } z=${z%% *}
      if [ "$z" -gt 1048576 ]; then h=$r
      else
        h=${u_hashes%%"$u_nl"*} u_hashes=${u_hashes#*"$u_nl"}
        h=${h#\\}
        h="${h%% *}  -"
      fi
      if [ "$c" -gt "$u_newest" ]; then u_newest=$c; fi
      u_text="$u_text$h ${u_list%%"$u_nl"*}$u_nl"
      u_list=${u_list#*"$u_nl"}
    done <<EOT
$u_stats
EOT
  fi
  u_digest=$(printf '%s' "$u_text" | sha256sum)
  u_digest=${u_digest%% *}
}

kx_is_up() {
  [ "$u_active" = active ] || return 1
  case $1:$u_type:$u_sub in
    *.service:*:running|*.service:oneshot:exited) return 0 ;;
    *.service:*) return 1 ;;
  esac
  return 0
}

# Of those states that are not "enabled", these cannot be enabled or need not be.
kx_is_enabled() {
  case $u_enabled in enabled|static|alias|indirect|generated|transient) return 0 ;; esac
  return 1
}

# kx_keep_unit ROOT UNIT: keeps whether the unit was enabled and up; no ROOT, no keeping.
kx_keep_unit() {
  if [ -z "$1" ]; then return 0; fi
  case $u_load in
    not-found) u_was="not-found inactive" ;;
    masked) u_was="masked inactive" ;;
    *) u_was="${u_enabled:-static} $u_active" ;;
  esac
  kx_note "$1" unit "$2" "$u_was" || kx_die "cannot keep how $2 was"
}

# kx_wrote_unit ROOT UNIT: remembers how the unit is enabled as kubexm's doing.
kx_wrote_unit() {
  if [ -z "$1" ]; then return 0; fi
  kx_wrote "$1" unit "$2" "$(systemctl is-enabled -- "$2" 2>/dev/null | head -n 1)"
}

# kx_runs_with STAMPS UNIT INPUT…: 0 if the unit is up, starts at boot and was started from these inputs as they are.
kx_runs_with() {
  u_stamps=$1 u_unit=$2
  shift 2
  kx_unit "$u_unit" || exit 3
  if ! kx_is_up "$u_unit"; then echo "$u_active ($u_sub)"; exit 1; fi
  if ! kx_is_enabled; then echo "not enabled"; exit 1; fi
  if kx_unseen "$u_unit"; then echo "unit file changed"; exit 1; fi
  s_digest= s_invocation=
  if ! read -r s_digest s_invocation <"$u_stamps/$u_unit" 2>/dev/null; then echo "not started by kubexm"; exit 1; fi
  if ! kx_digest "$@"; then echo "missing $u_missing"; exit 1; fi
  # NeedDaemonReload alone proves nothing: since systemd 257 a new file or link of any unit sets it for all of them.
  if [ "$s_digest" != "$u_digest" ]; then
    if [ "$u_reload" = yes ]; then echo "unit file changed"; else echo "inputs changed"; fi
    exit 1
  fi
  if [ "$s_invocation" = "$u_invocation" ]; then echo running; exit 0; fi
  # Started again since, by a boot, a crash or a person: that counts if no input was touched after it.
  u_at=$(date -d "${u_started:-$u_entered}" +%s 2>/dev/null) || u_at=0
  if [ "$u_newest" -lt "$u_at" ]; then echo running; exit 0; fi
  echo "started before its inputs were last touched"
  exit 1
}

# kx_log UNIT LINES: the last lines of the unit's latest invocation: its own if it said anything, else systemd's.
# What a process says just before it ends may be filed under its unit only: systemd has forgotten the invocation then.
kx_log() {
  l=
  timeout 5 journalctl --sync >/dev/null 2>&1
  if [ -n "$u_invocation" ]; then kx_lines "$2" "_SYSTEMD_INVOCATION_ID=$u_invocation"; fi
  kx_lines "$2" "_SYSTEMD_UNIT=$1" _TRANSPORT=stdout
  if [ -n "$u_invocation" ]; then kx_lines "$2" "INVOCATION_ID=$u_invocation"; fi
  kx_lines "$2" -u "$1"
  if [ -z "$l" ]; then l=$(systemctl status --no-pager -n "$2" -- "$1" 2>&1); fi
  printf '%s\n' "$l"
}

# kx_lines LINES MATCH…: the last lines of the journal that match, if none were found before.
kx_lines() {
  k=$1
  shift
  if [ -z "$l" ]; then l=$(journalctl --no-pager -q -o cat -n "$k" -b "$@" 2>/dev/null); fi
}

kx_failed() {
  kx_unit "$1"
  printf '%s %s %s %s\n' "${u_active:--}" "${u_sub:--}" "${u_result:--}" "${u_status:--}"
  kx_log "$1" 20 >&2
  exit "$2"
}

# kx_reload_units: lets systemd see units that were written since it last looked.
kx_reload_units() {
  if [ "$u_reload" = yes ] || [ "$u_load" = not-found ] || kx_unseen "$1"; then
    systemctl daemon-reload || exit 1
    kx_unit "$1" || exit 1
  fi
  if [ "$u_load" = not-found ]; then kx_die "Unit $1 not found."; fi
  if [ "$u_load" = masked ]; then kx_die "Unit $1 is masked."; fi
}

kx_stamp() {
  { [ -d "$1" ] || ( umask 022; mkdir -p -- "$1" ); } && printf '%s %s\n' "$3" "$4" >"$1/.$2.new" && mv -f -- "$1/.$2.new" "$1/$2"
}

# kx_start ROOT STAMPS UNIT VERB INPUT…: VERB (restart, reload, start) from the inputs as they are, and at every boot.
kx_start() {
  u_root=$1 u_stamps=$2 u_unit=$3 u_verb=$4
  shift 4
  kx_unit "$u_unit" || exit 3
  kx_reload_units "$u_unit"
  kx_keep_unit "$u_root" "$u_unit"
  kx_digest "$@" || kx_die "$u_missing, which $u_unit is started from, is not there."
  # Starting at boot is on the disk then: there is no need to read all units again for it, which is most of the work.
  # systemd 257 and later disagree, and would start the unit with a warning.
  if ! kx_is_enabled; then
    systemctl enable --quiet --no-reload -- "$u_unit" || exit 1
    kx_unit "$u_unit" || exit 1
    kx_reload_units "$u_unit"
  fi
  kx_wrote_unit "$u_root" "$u_unit"
  # What runs already keeps its stamp: it was not started from the inputs as they are now.
  if [ "$u_verb" = start ] && [ "$u_active" = active ]; then exit 0; fi
  if [ -e "$u_stamps/$u_unit" ]; then rm -f -- "$u_stamps/$u_unit"; fi
  # Also forgets how often it was started of late: a start that is wanted must not be refused for that.
  # One that never ran has nothing to be forgotten.
  if [ -n "$u_invocation" ] || [ "$u_active" != inactive ]; then systemctl reset-failed -- "$u_unit" 2>/dev/null || :; fi
  systemctl "$u_verb" -- "$u_unit" || kx_failed "$u_unit" 7
  kx_unit "$u_unit"
  if [ "$u_active" = failed ] || [ "$u_sub" = auto-restart ]; then kx_failed "$u_unit" 7; fi
  kx_stamp "$u_stamps" "$u_unit" "$u_digest" "$u_invocation" || exit 1
}

# kx_stop ROOT STAMPS UNIT: the unit is down; one that is not there is down already.
kx_stop() {
  kx_unit "$3" || exit 3
  rm -f -- "$2/$3"
  if [ "$u_load" = not-found ] && [ "$u_active" = inactive ]; then exit 0; fi
  kx_keep_unit "$1" "$3"
  systemctl stop -- "$3" || kx_failed "$3" 7
  systemctl reset-failed -- "$3" 2>/dev/null || :
}

# kx_set ROOT UNIT VERB: enable, disable, mask or unmask.
kx_set() {
  kx_unit "$2" || exit 3
  case $3 in
    enable) kx_reload_units "$2" ;;
    disable) if [ "$u_load" = not-found ] || { [ -n "$u_file" ] && ! [ -e "$u_file" ]; }; then exit 0; fi ;;
  esac
  kx_keep_unit "$1" "$2"
  systemctl "$3" --quiet -- "$2" || exit 1
  kx_wrote_unit "$1" "$2"
}
