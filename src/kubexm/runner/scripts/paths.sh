# How a path is, how it was before kubexm changed it, and changing it atomically.
# The caller defines kx_rooms_each PATH…, kx_keep_each PATH and kx_wrote_each PATH STATE (see base.py).

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
  if kx_kept "$kx_e"; then return 0; fi
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
  kx_err=$(mkdir -m 755 -- "$1" 2>&1) || [ -d "$1" ] || { printf '%s\n' "$kx_err" >&2; return 1; }
  kx_look "$1" && kx_wrote_each "$1" "$kx_l"
}

# kx_temp PATH [UMASK]: sets kx_t to a new file beside it, of mode 0600 unless told otherwise, and hidden, so that whoever
# watches the directory looks away. Those that were not moved to their place are gone in the end.
kx_staged='' kx_newline='
'
kx_temp() {
  umask "${2:-077}"
  for kx_t in "${1%/*}/.${1##*/}".kubexm.??????; do
    if [ -e "$kx_t" ] || [ -L "$kx_t" ]; then rm -rf -- "$kx_t"; fi
  done
  read -r kx_t </proc/sys/kernel/random/uuid || exit 1
  kx_t=${1%/*}/.${1##*/}.kubexm.${kx_t%"${kx_t#??????}"}
  # Never one that is there already, whatever it points to.
  set -C
  true >"$kx_t" || exit 1
  set +C
  umask 077
  kx_staged=$kx_staged$kx_t$kx_newline
  trap kx_sweep EXIT
}

kx_sweep() {
  if [ -n "$kx_staged" ]; then IFS=$kx_newline; set -f; rm -f -- $kx_staged; fi
}

# kx_place PATH: renames kx_t to it, unless the path is the same already.
kx_place() {
  kx_look "$kx_t" || exit 1
  kx_new_state=$kx_l
  if kx_look "$1" && [ "$kx_l" = "$kx_new_state" ]; then echo same; exit 0; fi
  kx_keep_each "$1" && kx_wrote_each "$1" "$kx_new_state" || kx_die "cannot keep the original of $1"
  [ -L "$kx_t" ] || sync -- "$kx_t" || exit 1
  kx_rename "$1"
  kx_staged=''
  echo changed
  exit 0
}

# kx_stage PATH MODE SIZE: so much of standard input becomes a temporary file beside the path; the rest is left for others.
kx_stage() {
  kx_dirs "${1%/*}" || kx_die "cannot make ${1%/*}"
  if [ -d "$1" ] && ! [ -L "$1" ]; then kx_die "$1 is a directory"; fi
  case $2 in 644) kx_temp "$1" 022 ;; 640) kx_temp "$1" 027 ;; *) kx_temp "$1" ;; esac
  head -c "$3" >"$kx_t" || exit 1
}

# kx_own FILE MODE OWNER GROUP FOUND: gives a file mode and owner, in kx_o as numbers, unless it was FOUND (MODE UID GID) so.
kx_own() {
  kx_o=$5
  case $3:$4 in
    root:root|0:0|root:0|0:root)
      if [ "${5#* }" != "0 0" ]; then chown -- 0:0 "$1" || return 1; kx_o="${5%% *} 0 0"; fi
      ;;
    *) chown -- "$3:$4" "$1" && kx_o=$(stat -c '%a %u %g' -- "$1") || return 1 ;;
  esac
  if [ "${kx_o%% *}" != "$2" ]; then chmod -- "$2" "$1" || return 1; kx_o="$2 ${kx_o#* }"; fi
}

# kx_land [PATH MODE OWNER GROUP SIZE SHA256]…: what was staged, in this order, goes to its place, unless it is so already.
# One process looks at all that arrived, one makes room for originals, one waits for the disk.
kx_land() {
  kx_found=$(IFS=$kx_newline; set -f; stat -c '%s %a %u %g' -- $kx_staged) || exit 1
  kx_found=$kx_found$kx_newline kx_temps='' kx_paths='' kx_states='' kx_same='' kx_todo=$kx_staged
  while [ "$#" -gt 0 ]; do
    kx_line=${kx_found%%"$kx_newline"*} kx_found=${kx_found#*"$kx_newline"}
    kx_t=${kx_todo%%"$kx_newline"*} kx_todo=${kx_todo#*"$kx_newline"}
    if [ "${kx_line%% *}" -ne "$5" ]; then kx_die "only ${kx_line%% *} of $5 bytes arrived for $1"; fi
    kx_own "$kx_t" "$2" "$3" "$4" "${kx_line#* }" || exit 1
    kx_h=$6
    if [ -z "$kx_h" ]; then kx_sum "$kx_t" "$5" || exit 1; fi
    kx_new_state="file $kx_o $kx_h"
    if kx_look "$1" && [ "$kx_l" = "$kx_new_state" ]; then kx_same=$kx_same$kx_t$kx_newline
    else
      kx_temps=$kx_temps$kx_t$kx_newline kx_paths=$kx_paths$1$kx_newline
      kx_states=$kx_states$kx_new_state$kx_newline
    fi
    shift 6
  done
  if [ -z "$kx_paths" ]; then echo same; return 0; fi
  # In a process of its own, since it splits at line ends only.
  (IFS=$kx_newline; set -f; sync -- $kx_temps) || exit 1
  kx_moved=$kx_paths
  set -f
  IFS=$kx_newline
  set -- $kx_paths
  unset IFS
  set +f
  kx_rooms_each "$@" || kx_die "cannot keep the original of $1"
  for kx_path; do
    kx_t=${kx_temps%%"$kx_newline"*} kx_temps=${kx_temps#*"$kx_newline"}
    kx_new_state=${kx_states%%"$kx_newline"*} kx_states=${kx_states#*"$kx_newline"}
    kx_keep_each "$kx_path" && kx_wrote_each "$kx_path" "$kx_new_state" || kx_die "cannot keep the original of $kx_path"
    kx_rename "$kx_path"
  done
  kx_staged=$kx_same
  echo changed
}

# kx_rename PATH: kx_t becomes it, at once.
kx_rename() {
  if ! kx_err=$(mv -fT -- "$kx_t" "$1" 2>&1); then
    # A file that is a mount point of its own (as in containers) can only be written in place.
    grep -qF -- " $1 " /proc/self/mountinfo && cat <"$kx_t" >"$1" && chown -- "$(stat -c %u:%g -- "$kx_t")" "$1" &&
      chmod -- "$(stat -c %a -- "$kx_t")" "$1" && rm -f -- "$kx_t" || kx_die "$kx_err"
  fi
  if command -v restorecon >/dev/null && [ -e /sys/fs/selinux/enforce ]; then restorecon -F -- "$1" || :; fi
}

# kx_put PATH MODE OWNER GROUP SIZE EXPECTED [SHA256]: standard input becomes the file at PATH, whole or not at all.
# MODE, OWNER, GROUP "-": as the file has it. EXPECTED: sha256 the file must have now, "absent", or "-" for any.
kx_put() {
  kx_m=$2 kx_o=$3 kx_g=$4
  if [ "$kx_m$kx_o$kx_g" = --- ] && [ -e "$1" ]; then
    kx_l=$(stat -L -c '%a %u %g' -- "$1") || exit 1
    kx_m=${kx_l%% *} kx_l=${kx_l#* }
    kx_o=${kx_l% *} kx_g=${kx_l#* }
  fi
  case $kx_m in -) kx_m=644 ;; esac
  case $kx_o in -) kx_o=0 ;; esac
  case $kx_g in -) kx_g=0 ;; esac
  set -- "$1" "$kx_m" "$kx_o" "$kx_g" "$5" "$6" "${7-}"
  kx_stage "$1" "$2" "$5"
  case $6 in
    -) ;;
    absent) if [ -e "$1" ] || [ -L "$1" ]; then exit 45; fi ;;
    *) kx_sum "$1" 2>/dev/null && [ "$kx_h" = "$6" ] || exit 45 ;;
  esac
  kx_land "$1" "$2" "$3" "$4" "$5" "$7"
  exit 0
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
  case $3:$4 in
    root:root|0:0) kx_next="file $2 0 0 $5" ;;
    *)
      kx_temp "$1"
      chown -- "$3:$4" "$kx_t" || exit 1
      kx_next="file $2 $(stat -c '%u %g' -- "$kx_t") $5"
      ;;
  esac
  kx_look "$1" || exit 1
  if [ "$kx_l" = "$kx_next" ]; then exit 0; fi
  kx_keep_each "$1" && kx_wrote_each "$1" "$kx_next" || kx_die "cannot keep the original of $1"
}
