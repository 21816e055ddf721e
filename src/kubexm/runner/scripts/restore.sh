# Puts things back as they were. Needs originals.sh and paths.sh; every outcome is one line: WHAT<TAB>KIND<TAB>NAME,
# where WHAT is restored, unchanged (it was so already), kept (somebody else changed it since) or failed.
# The caller defines kx_left NAME: true for files and units that are to stay as they are.

kx_said() { printf '%s\t%s\t%s\n' "$1" "$2" "$3"; }

# kx_done WHAT KIND NAME ENTRY: an entry that was put back is of no more use; a later change makes a new one.
kx_done() {
  rm -rf -- "$4"
  kx_said "$1" "$2" "$3"
}

# kx_ours ENTRY STATE: true if kubexm itself made this state; "*" among those it made stands for any.
kx_ours() { grep -qxF -e "$2" -e '*' -- "$1/wrote" 2>/dev/null; }

kx_restore_dir() {
  case $r_now in
    dir*)
      if ! kx_ours "$1" "$r_now"; then kx_said kept file "$2"; return 0; fi
      ;;
    absent) if ! kx_ours "$1" absent; then kx_said kept file "$2"; return 0; fi; mkdir -- "$2" || return 1 ;;
    *) kx_said kept file "$2"; return 0 ;;
  esac
  set -- "$1" "$2" $r_was
  chmod -- "$4" "$2" && chown -- "$5:$6" "$2" && kx_done restored file "$2" "$1"
}

kx_restore_absent() {
  case $r_now in
    dir*)
      # Empty, and not there before: nobody misses it. Otherwise somebody put something in.
      if rmdir -- "$2" 2>/dev/null; then kx_done restored file "$2" "$1"; else kx_said kept file "$2"; fi
      ;;
    *)
      if kx_ours "$1" "$r_now"; then rm -f -- "$2" && kx_done restored file "$2" "$1"; else kx_said kept file "$2"; fi
      ;;
  esac
}

# kx_restore_file ENTRY PATH
kx_restore_file() {
  IFS= read -r r_was <"$1/state" || { kx_said failed file "$2"; return 0; }
  r_now=$(kx_state "$2") || { kx_said failed file "$2"; return 0; }
  if [ "$r_now" = "$r_was" ]; then kx_done unchanged file "$2" "$1"; return 0; fi
  case $r_was in
    absent) kx_restore_absent "$1" "$2" ;;
    dir*) kx_restore_dir "$1" "$2" ;;
    file*|link*)
      if ! kx_ours "$1" "$r_now"; then kx_said kept file "$2"; return 0; fi
      r_t=${2%/*}/.${2##*/}.kubexm.$$
      case $r_was in
        link*) ln -s -- "${r_was#link }" "$r_t" ;;
        *) cp -p -- "$1/content" "$r_t" && sync -- "$r_t" ;;
      esac && { mv -fT -- "$r_t" "$2" 2>/dev/null || { [ -f "$2" ] && cat <"$r_t" >"$2" && rm -f -- "$r_t"; }; } &&
        kx_done restored file "$2" "$1" || { rm -f -- "$r_t"; kx_said failed file "$2"; return 0; }
      if command -v restorecon >/dev/null && [ -e /sys/fs/selinux/enforce ]; then restorecon -F -- "$2" || :; fi
      ;;
    *) kx_said kept file "$2" ;;
  esac || kx_said failed file "$2"
}

# kx_restore_above ROOT PATH: directories that were made for a path and hold nothing any more go with it.
kx_restore_above() {
  r_p=${2%/*}
  while [ -n "$r_p" ]; do
    kx_entry "$1" file "$r_p"
    r_was=''
    if [ -e "$kx_e/state" ]; then IFS= read -r r_was <"$kx_e/state"; fi
    if [ "$r_was" != absent ] || ! rmdir -- "$r_p" 2>/dev/null; then return 0; fi
    rm -rf -- "$kx_e"
    r_p=${r_p%/*}
  done
}

kx_is_dir() { IFS= read -r r_was <"$1/state" && case $r_was in dir*) return 0 ;; esac; return 1; }

# kx_restore_files ROOT: directories that were there come back first, from the top; all else goes from the bottom up.
kx_restore_files() {
  for r_e in "$1"/file/*; do
    # One that was not kept whole is of something that was not changed.
    if [ -d "$r_e" ] && ! kx_kept "$r_e"; then rm -rf -- "$r_e"; continue; fi
    if [ -d "$r_e" ] && IFS= read -r r_p <"$r_e/name" && ! kx_left "$r_p"; then printf '%s\t%s\n' "$r_p" "$r_e"; fi
  done | LC_ALL=C sort >"$1/.order"
  r_tab=$(printf '\t')
  while IFS="$r_tab" read -r r_p r_e; do
    if ! [ -e "$r_p" ] && kx_is_dir "$r_e"; then kx_restore_file "$r_e" "$r_p"; fi
  done <"$1/.order"
  LC_ALL=C sort -r -o "$1/.order" "$1/.order"
  while IFS="$r_tab" read -r r_p r_e; do
    if [ -d "$r_e" ]; then kx_restore_file "$r_e" "$r_p"; fi
  done <"$1/.order"
  rm -f -- "$1/.order"
}

# kx_restore_sysctl ENTRY PROC
kx_restore_sysctl() {
  IFS= read -r r_p <"$1/name" && IFS= read -r r_was <"$1/state" || return 0
  r_now=$(cat -- "$2/$r_p" 2>/dev/null | tr -s '\t ' ' ')
  if [ "$r_now" = "$r_was" ] || [ "$r_was" = absent ]; then kx_done unchanged sysctl "$r_p" "$1"
  elif ! kx_ours "$1" "$r_now"; then kx_said kept sysctl "$r_p"
  elif printf '%s\n' "$r_was" >"$2/$r_p"; then kx_done restored sysctl "$r_p" "$1"
  else kx_said failed sysctl "$r_p"; fi
}

# kx_restore_sysctls ROOT PROC
kx_restore_sysctls() {
  for r_e in "$1"/sysctl/*; do
    if [ -d "$r_e" ]; then kx_restore_sysctl "$r_e" "$2"; fi
  done
}

# kx_restore_units ROOT down|up: what was not up goes down before files change; what was up comes up after.
kx_restore_units() {
  for r_e in "$1"/unit/*; do
    if ! [ -d "$r_e" ]; then continue; fi
    IFS= read -r r_p <"$r_e/name" && read -r r_was r_up <"$r_e/state" || continue
    if kx_left "$r_p"; then continue; fi
    r_now=$(systemctl is-enabled -- "$r_p" 2>/dev/null | head -n 1)
    if [ "$2" = down ]; then
      rm -f -- "$r_e/going"
      case ${r_now:-not-found}:$r_was in
        not-found:enabled*) kx_said kept unit "$r_p"; continue ;;
        not-found:*) systemctl stop -- "$r_p" 2>/dev/null; kx_done unchanged unit "$r_p" "$r_e"; continue ;;
      esac
      if [ -s "$r_e/wrote" ] && ! kx_ours "$r_e" "$r_now"; then kx_said kept unit "$r_p"; continue; fi
      : >"$r_e/going"
      case $r_up in active|activating|reloading) ;; *) systemctl stop -- "$r_p" ;; esac
      case $r_was in
        disabled|not-found|linked) systemctl disable --quiet -- "$r_p" 2>/dev/null ;;
        masked) systemctl mask --quiet -- "$r_p" ;;
      esac
      continue
    fi
    if ! [ -e "$r_e/going" ]; then continue; fi
    r_ok=restored
    case $r_was in
      enabled) systemctl unmask --quiet -- "$r_p"; systemctl enable --quiet -- "$r_p" || r_ok=failed ;;
      disabled|static|indirect|alias) if [ "$r_now" = masked ]; then systemctl unmask --quiet -- "$r_p" || r_ok=failed; fi ;;
    esac
    # What kubexm started from settings of its own has to read the old ones again.
    r_verb=start
    if [ -e "${1%/*}/stamps/$r_p" ]; then r_verb=restart; fi
    case $r_up in active|activating|reloading) systemctl "$r_verb" -- "$r_p" || r_ok=failed ;; esac
    if [ "$r_ok" = failed ]; then kx_said failed unit "$r_p"; else kx_done restored unit "$r_p" "$r_e"; fi
  done
}

# kx_restore_accounts ROOT user|group
kx_restore_accounts() {
  for r_e in "$1/$2"/*; do
    if ! [ -d "$r_e" ]; then continue; fi
    IFS= read -r r_p <"$r_e/name" || continue
    if ! grep -q "^$r_p:" "/etc/$3"; then kx_done unchanged "$2" "$r_p" "$r_e"
    elif "${2}del" "$r_p"; then kx_done restored "$2" "$r_p" "$r_e"
    else kx_said failed "$2" "$r_p"; fi
  done
}

# kx_restore_hostname ROOT: the kernel's own idea of the name; the file is put back with the files.
kx_restore_hostname() {
  r_e=$1/hostname/kernel
  if ! [ -d "$r_e" ]; then return 0; fi
  IFS= read -r r_was <"$r_e/state" || { kx_said failed hostname kernel; return 0; }
  r_now=$(uname -n)
  if [ "$r_now" = "$r_was" ]; then kx_done unchanged hostname kernel "$r_e"
  elif ! kx_ours "$r_e" "$r_now"; then kx_said kept hostname kernel
  elif kx_name "$r_was"; then kx_done restored hostname kernel "$r_e"
  else kx_said failed hostname kernel; fi
}

# kx_restore_selinux ROOT: whether it enforces, now; /etc/selinux/config is put back with the files.
kx_restore_selinux() {
  r_e=$1/selinux/mode
  if ! [ -d "$r_e" ]; then return 0; fi
  if ! [ -e /sys/fs/selinux/enforce ]; then kx_done unchanged selinux mode "$r_e"; return 0; fi
  read -r r_now </sys/fs/selinux/enforce
  if [ "$r_now" = 1 ]; then kx_done unchanged selinux mode "$r_e"
  elif setenforce 1; then kx_done restored selinux mode "$r_e"
  else kx_said failed selinux mode; fi
}

# kx_restore_swap ROOT: after /etc/fstab and the units are back.
kx_restore_swap() {
  if ! [ -d "$1/swap/areas" ]; then return 0; fi
  if swapon -a; then kx_done restored swap areas "$1/swap/areas"; else kx_said failed swap areas; fi
}
