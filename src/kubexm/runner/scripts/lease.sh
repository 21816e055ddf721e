# The lease on one host: read, compare and write in one go, under a lock, by the host's own clock.
# The file holds one line: TOKEN OWNER RUN EXPIRY. The token only ever grows; it must stay the first word, since every
# changing command compares it. A free lease has "-" for owner and run.
# Exit codes: 45 held by somebody else, 46 not ours any more, 47 unreadable, 48 the lock cannot be had.

kx_open() {
  ( umask 022; mkdir -p -- "${1%/*}" ) || exit 1
  exec 9>"$1.lock" || exit 1
  flock -w 20 9 || exit 48
  kx_look "$1"
}

kx_look() {
  l_token=0 l_owner=- l_run=- l_expiry=0
  if [ -e "$1" ]; then
    read -r l_token l_owner l_run l_expiry l_rest <"$1" || exit 47
    case $l_token in ''|*[!0-9]*) exit 47 ;; esac
    case $l_expiry in ''|*[!0-9]*) exit 47 ;; esac
  fi
  l_now=$(date +%s)
}

kx_tell() { printf '%s %s %s %s %s\n' "$l_token" "$l_owner" "$l_run" "$l_expiry" "$l_now"; }

kx_write() {
  ( umask 022; printf '%s %s %s %s\n' "$l_token" "$l_owner" "$l_run" "$l_expiry" >"$1.new" ) && sync -- "$1.new" &&
    mv -f -- "$1.new" "$1" || exit 1
  kx_tell
}

# kx_acquire FILE OWNER RUN TTL FLOOR SAME_RUN
kx_acquire() {
  kx_open "$1"
  if [ "$l_owner" != - ] && [ "$l_expiry" -gt "$l_now" ] && ! { [ "$l_run" = "$3" ] && [ "$6" = yes ]; }; then
    kx_tell
    exit 45
  fi
  l_token=$((l_token + 1))
  if [ "$l_token" -lt "$5" ]; then l_token=$5; fi
  l_owner=$2 l_run=$3 l_expiry=$((l_now + $4))
  kx_write "$1"
}

# kx_renew FILE TOKEN RUN TTL
kx_renew() {
  kx_open "$1"
  if [ "$l_token" != "$2" ] || [ "$l_run" != "$3" ]; then kx_tell; exit 46; fi
  l_expiry=$((l_now + $4))
  kx_write "$1"
}

# kx_release FILE TOKEN RUN
kx_release() {
  kx_open "$1"
  if [ "$l_token" != "$2" ] || [ "$l_run" != "$3" ]; then kx_tell; exit 46; fi
  l_owner=- l_run=- l_expiry=0
  kx_write "$1"
}

# kx_leave FILE TOKEN RUN: as kx_release; on a host that belongs to no cluster any more all trace of it goes.
kx_leave() {
  kx_open "$1"
  if [ "$l_token" != "$2" ] || [ "$l_run" != "$3" ]; then kx_tell; exit 46; fi
  l_owner=- l_run=- l_expiry=0
  if [ -e "${1%/*}/cluster.json" ]; then kx_write "$1"; return; fi
  rm -f -- "$1" "$1.lock"
  rmdir -- "${1%/*}" 2>/dev/null || :
  kx_tell
}

# kx_forget FILE TOKEN RUN
kx_forget() {
  kx_open "$1"
  if [ "$l_owner" != - ] && { [ "$l_token" != "$2" ] || [ "$l_run" != "$3" ]; } && [ "$l_expiry" -gt "$l_now" ]; then
    kx_tell
    exit 45
  fi
  rm -f -- "$1" "$1.lock"
  kx_tell
}
