# Package managers, patiently: other tools (unattended upgrades, cloud-init) hold their locks now and then.
# Needs originals.sh.

kx_locks='Could not get lock|Unable to acquire the dpkg frontend lock|Unable to lock|is another process using it'
kx_locks="$kx_locks|status database is locked|Another app is currently holding|System management is locked"
kx_locks="$kx_locks|can't create transaction lock|Failed to obtain the transaction lock|waiting for transaction lock"

# kx_patiently SECONDS COMMAND…: runs it again for as long as somebody else holds the lock; output in $kx_out.
kx_patiently() {
  p_end=$(($(date +%s) + $1))
  shift
  while :; do
    "$@" >"$kx_out" 2>&1
    p_rc=$?
    if [ "$p_rc" -eq 0 ] || ! grep -qE "$kx_locks" "$kx_out"; then return "$p_rc"; fi
    if [ "$(date +%s)" -ge "$p_end" ]; then return 49; fi
    sleep 2
  done
}

kx_begin() {
  kx_out=$(mktemp) || exit 1
  trap 'rm -f -- "$kx_out" "$kx_out.now"' EXIT
}

kx_end() {
  if [ "$1" -eq 0 ]; then return 0; fi
  tail -n 40 -- "$kx_out" >&2
  exit "$1"
}

# kx_before ROOT: remembers which packages are there, so that those that come with this change are known as kubexm's,
# also if it is cut off and done again.
kx_before() {
  if [ -z "$1" ] || [ -e "$1/packages.before" ]; then return 0; fi
  ( umask 022; mkdir -p -- "${1%/*}" ) && ( umask 077; mkdir -p -- "$1" ) || exit 1
  kx_names | LC_ALL=C sort -u >"$1/packages.before.new" && mv -- "$1/packages.before.new" "$1/packages.before" || exit 1
}

# kx_after ROOT: keeps that the new ones were not there.
kx_after() {
  if [ -z "$1" ]; then return 0; fi
  kx_names | LC_ALL=C sort -u >"$kx_out.now" || exit 1
  LC_ALL=C comm -13 "$1/packages.before" "$kx_out.now" | while IFS= read -r p_name; do
    kx_note "$1" package "$p_name" absent || exit 1
    printf '%s\n' "$p_name"
  done || exit 1
  rm -f -- "$1/packages.before"
}

# kx_erase ROOT NAME…: removes packages, except those that others need by now; prints which stay.
kx_erase() {
  e_root=$1
  shift
  e_left=$*
  while [ -n "$e_left" ]; do
    e_next= e_gone=
    if kx_patiently "$kx_wait" kx_drop $e_left; then e_gone=yes
    else
      if [ "$p_rc" -eq 49 ]; then kx_end 49; fi
      for e_name in $e_left; do
        if kx_patiently "$kx_wait" kx_drop "$e_name"; then e_gone=yes; else e_next="$e_next $e_name"; fi
      done
    fi
    e_left=$e_next
    if [ -z "$e_gone" ]; then break; fi
  done
  for e_name in "$@"; do
    if [ -n "$e_root" ]; then kx_entry "$e_root" package "$e_name"; rm -rf -- "$kx_e"; fi
  done
  for e_name in $e_left; do printf '%s\n' "$e_name"; done
}

# dpkg and apt ------------------------------------------------------------------------------------------------------

kx_use_apt() {
  DEBIAN_FRONTEND=noninteractive APT_LISTCHANGES_FRONTEND=none NEEDRESTART_SUSPEND=1 UCF_FORCE_CONFFOLD=1
  export DEBIAN_FRONTEND APT_LISTCHANGES_FRONTEND NEEDRESTART_SUSPEND UCF_FORCE_CONFFOLD
  kx_names() { dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | grep '^.i' | cut -d' ' -f2- | sed 's/^ *//'; }
  kx_apt() {
    apt-get -y -q --no-install-recommends -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
      -o Dpkg::Use-Pty=0 "$@"
  }
  kx_drop() { dpkg --purge -- "$@"; }
  kx_install() {
    kx_patiently "$kx_wait" kx_apt install -- "$@" && return 0
    # The lists may be old or missing: get them and try once more.
    if ! grep -qE 'Unable to locate package|no installation candidate|Failed to fetch|404' "$kx_out"; then return "$p_rc"; fi
    cp -- "$kx_out" "$kx_out.now"
    kx_patiently "$kx_wait" apt-get -q update || { cat -- "$kx_out.now" >>"$kx_out"; return "$p_rc"; }
    kx_patiently "$kx_wait" kx_apt install -- "$@"
  }
  kx_install_files() {
    i_list=
    for i_file; do
      i_name=$(dpkg-deb -f "$i_file" Package) && i_new=$(dpkg-deb -f "$i_file" Version) || return 1
      i_old=$(dpkg-query -W -f '${db:Status-Abbrev}|${Version}' -- "$i_name" 2>/dev/null | grep '^.i' | cut -d'|' -f2)
      if [ -z "$i_old" ] || dpkg --compare-versions "$i_old" lt "$i_new"; then i_list="$i_list$i_file
"; fi
    done
    if [ -z "$i_list" ]; then return 0; fi
    IFS='
'
    set -- $i_list
    unset IFS
    # With no sources apt knows what is installed and these files, and asks nobody.
    kx_patiently "$kx_wait" kx_apt -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=/dev/null \
      -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= install -- "$@"
  }
}

# rpm with dnf, yum or zypper -----------------------------------------------------------------------------------------

kx_use_rpm() {
  kx_names() { rpm -qa --qf '%{NAME}\n' | grep -v '^gpg-pubkey$'; }
  kx_drop() { rpm -e -- "$@"; }
}

kx_use_dnf() {
  kx_use_rpm
  kx_install() { kx_patiently "$kx_wait" dnf -y -q --setopt=install_weak_deps=False install "$@"; }
  kx_install_files() {
    kx_patiently "$kx_wait" dnf -y -q --disablerepo='*' --setopt=install_weak_deps=False install "$@"
  }
}

kx_use_yum() {
  kx_use_rpm
  kx_install() { kx_patiently "$kx_wait" yum -y -q install "$@"; }
  kx_install_files() { kx_patiently "$kx_wait" yum -y -q --disablerepo='*' install "$@"; }
}

kx_use_zypper() {
  kx_use_rpm
  ZYPP_LOCK_TIMEOUT=$kx_wait
  export ZYPP_LOCK_TIMEOUT
  kx_install() { kx_patiently "$kx_wait" zypper --non-interactive --quiet install --no-recommends -- "$@"; }
  kx_install_files() {
    kx_patiently "$kx_wait" zypper --non-interactive --quiet --no-refresh --no-gpg-checks install --no-recommends -- "$@"
  }
}
