# How a path is, how it was before kubexm changed it, and changing it atomically.
# The caller defines kx_keep_each PATH and kx_wrote_each PATH STATE (see originals.py).

# kx_look PATH: sets kx_l to one line that tells how a path is: absent, link, dir, file or other; of a file also kx_size.
kx_look() {
  if [ -L "$1" ]; then kx_l=$(readlink -- "$1") && kx_l="link $kx_l"
  elif [ -d "$1" ]; then kx_l=$(stat -c 'dir %a %u %g' -- "$1")
  elif [ -f "$1" ]; then
    kx_l=$(stat -c '%s %a %u %g' -- "$1") || return 1
    kx_size=${kx_l%% *}
    kx_sum "$1" "$kx_size" || return 1
    kx_l="file ${kx_l#* } $kx_h"
  elif [ -e "$1" ]; then kx_l=$(stat -c 'other %F %a %u %g' -- "$1")
  else kx_l=absent; fi
}

# kx_state PATH: prints the same.
kx_state() { kx_look "$1" && printf '%s\n' "$kx_l"; }

# kx_keep ROOT PATH: keeps how a path is.
kx_keep() {
  kx_entry "$1" file "$2"
  if [ -d "$kx_e" ]; then return 0; fi
  kx_look "$2" || return 1
  case $kx_l in
    file*) kx_note "$1" file "$2" "$kx_l" "$2" ;;
    *) kx_note "$1" file "$2" "$kx_l" ;;
  esac
}

# kx_dirs DIRECTORY: makes it and what is missing above it.
kx_dirs() {
  if [ -z "$1" ] || [ -d "$1" ]; then return 0; fi
  kx_dirs "${1%/*}" || return 1
  kx_keep_each "$1" || return 1
  # Another command may make it at the same time.
  kx_err=$(umask 022; mkdir -- "$1" 2>&1) || [ -d "$1" ] || { printf '%s\n' "$kx_err" >&2; return 1; }
  kx_look "$1" && kx_wrote_each "$1" "$kx_l"
}

# kx_temp PATH: sets kx_t to a new file beside it, of mode 0600 and hidden, so that whoever watches the directory looks away.
kx_temp() {
  umask 077
  for kx_t in "${1%/*}/.${1##*/}".kubexm.??????; do
    if [ -e "$kx_t" ] || [ -L "$kx_t" ]; then rm -rf -- "$kx_t"; fi
  done
  read -r kx_t </proc/sys/kernel/random/uuid || exit 1
  kx_t=${1%/*}/.${1##*/}.kubexm.${kx_t%"${kx_t#??????}"}
  # Never one that is there already, whatever it points to.
  set -C
  true >"$kx_t" || exit 1
  set +C
  trap 'rm -f -- "$kx_t"' EXIT
}

# kx_place PATH: renames kx_t to it, unless the path is the same already.
kx_place() {
  kx_look "$kx_t" || exit 1
  if [ -n "${kx_wanted-}" ] && [ "$kx_size" -ne "$kx_wanted" ]; then
    kx_die "only $kx_size of $kx_wanted bytes arrived for $1"
  fi
  kx_new_state=$kx_l
  if kx_look "$1" && [ "$kx_l" = "$kx_new_state" ]; then echo same; exit 0; fi
  kx_keep_each "$1" && kx_wrote_each "$1" "$kx_new_state" || kx_die "cannot keep the original of $1"
  [ -L "$kx_t" ] || sync -- "$kx_t" || exit 1
  if ! kx_err=$(mv -fT -- "$kx_t" "$1" 2>&1); then
    # A file that is a mount point of its own (as in containers) can only be written in place.
    grep -qF -- " $1 " /proc/self/mountinfo && cat <"$kx_t" >"$1" && chown -- "$(stat -c %u:%g -- "$kx_t")" "$1" &&
      chmod -- "$(stat -c %a -- "$kx_t")" "$1" || kx_die "$kx_err"
  fi
  if command -v restorecon >/dev/null && [ -e /sys/fs/selinux/enforce ]; then restorecon -F -- "$1" || :; fi
  echo changed
  exit 0
}

# kx_put PATH MODE OWNER GROUP SIZE EXPECTED: standard input becomes the file at PATH, whole or not at all.
# MODE, OWNER, GROUP "-": as the file has it. EXPECTED: sha256 the file must have now, "absent", or "-" for any.
kx_put() {
  kx_dirs "${1%/*}" || kx_die "cannot make ${1%/*}"
  if [ -d "$1" ] && ! [ -L "$1" ]; then kx_die "$1 is a directory"; fi
  kx_temp "$1"
  cat >"$kx_t" || exit 1
  kx_wanted=$5
  case $6 in
    -) ;;
    absent) if [ -e "$1" ] || [ -L "$1" ]; then exit 45; fi ;;
    *) kx_sum "$1" 2>/dev/null && [ "$kx_h" = "$6" ] || exit 45 ;;
  esac
  kx_m=$2 kx_o=$3 kx_g=$4
  if [ -e "$1" ]; then
    if [ "$kx_m" = - ]; then kx_m=$(stat -L -c %a -- "$1"); fi
    if [ "$kx_o" = - ]; then kx_o=$(stat -L -c %u -- "$1"); fi
    if [ "$kx_g" = - ]; then kx_g=$(stat -L -c %g -- "$1"); fi
  else
    if [ "$kx_m" = - ]; then kx_m=644; fi
    if [ "$kx_o" = - ]; then kx_o=0; fi
    if [ "$kx_g" = - ]; then kx_g=0; fi
  fi
  chown -- "$kx_o:$kx_g" "$kx_t" && chmod -- "$kx_m" "$kx_t" || exit 1
  kx_place "$1"
}

# kx_link PATH TARGET
kx_link() {
  kx_dirs "${1%/*}" || kx_die "cannot make ${1%/*}"
  if [ -d "$1" ] && ! [ -L "$1" ]; then kx_die "$1 is a directory"; fi
  kx_temp "$1"
  rm -f -- "$kx_t" && ln -s -- "$2" "$kx_t" || exit 1
  kx_place "$1"
}

# kx_directory PATH MODE OWNER GROUP: the directory is there and so.
kx_directory() {
  if [ -L "$1" ] && [ -d "$1" ]; then set -- "$(readlink -f -- "$1")" "$2" "$3" "$4"; fi
  if [ -e "$1" ] && ! [ -d "$1" ]; then kx_die "$1 is there and is not a directory"; fi
  kx_before=$(kx_state "$1")
  if [ -d "$1" ]; then kx_keep_each "$1" || kx_die "cannot keep the original of $1"; else kx_dirs "$1" || exit 1; fi
  chown -- "$3:$4" "$1" && chmod -- "$2" "$1" || exit 1
  kx_after=$(kx_state "$1")
  kx_wrote_each "$1" "$kx_after"
  if [ "$kx_before" = "$kx_after" ]; then echo same; else echo changed; fi
}

# kx_remove PATH: a file or link is gone; an empty directory too.
kx_remove() {
  if ! [ -e "$1" ] && ! [ -L "$1" ]; then echo same; exit 0; fi
  kx_keep_each "$1" && kx_wrote_each "$1" absent || kx_die "cannot keep the original of $1"
  if [ -d "$1" ] && ! [ -L "$1" ]; then rmdir -- "$1" || exit 1; else rm -f -- "$1" || exit 1; fi
  echo changed
}

# kx_prepare PATH MODE OWNER GROUP SHA256: keeps the original of what a file transfer is about to replace.
kx_prepare() {
  umask 077
  kx_dirs "${1%/*}" || kx_die "cannot make ${1%/*}"
  if [ -d "$1" ] && ! [ -L "$1" ]; then kx_die "$1 is a directory"; fi
  kx_temp "$1"
  chown -- "$3:$4" "$kx_t" || exit 1
  kx_next="file $2 $(stat -c '%u %g' -- "$kx_t") $5"
  if [ "$(kx_state "$1")" = "$kx_next" ]; then exit 0; fi
  kx_keep_each "$1" && kx_wrote_each "$1" "$kx_next" || kx_die "cannot keep the original of $1"
}
