# Kernel parameters: set, and given back. Needs originals.sh. PROC is where parameters are as files, ROOT where originals are
# kept and SNAPSHOT where a run keeps how things were before it; either may be empty.

# kx_parameter PROC PATH: sets kx_now to the live value, blanks made single.
kx_parameter() {
  kx_now=$(cat -- "$1/$2") || return 1
  case $kx_now in *[![:graph:]]*) kx_now=$(printf '%s' "$kx_now" | tr -s '\t ' ' ') ;; esac
}

# kx_set_parameter ROOT SNAPSHOT PROC PATH VALUE: gives it this value, keeping the one it has.
kx_set_parameter() {
  kx_parameter "$3" "$4" || exit 1
  if [ "$kx_now" = "$5" ]; then return 0; fi
  for kx_r in "$1" "$2"; do
    if [ -n "$kx_r" ]; then
      kx_note "$kx_r" sysctl "$4" "$kx_now" && kx_wrote "$kx_r" sysctl "$4" "$5" || exit 1
    fi
  done
  printf '%s\n' "$5" >"$3/$4" || kx_die "cannot set $4 to $5 (it is $kx_now)"
  echo changed
}

# kx_left_parameter ROOT PROC PATH: true if its live value is kubexm's doing and another one than before: sets kx_was to that.
kx_left_parameter() {
  kx_entry "$1" sysctl "$3"
  kx_kept "$kx_e" && IFS= read -r kx_was <"$kx_e/state" && kx_parameter "$2" "$3" 2>/dev/null || return 1
  case $kx_was in absent|"$kx_now") return 1 ;; esac
  grep -qxF -e "$kx_now" -e '*' -- "$kx_e/wrote" 2>/dev/null
}

# kx_drop_parameter ROOT SNAPSHOT PROC PATH: it gets back the value it had before kubexm; somebody else's is left. What was
# kept stays: programs of the cluster may set it again.
kx_drop_parameter() {
  if kx_left_parameter "$1" "$3" "$4"; then kx_set_parameter '' "$2" "$3" "$4" "$kx_was"; fi
}
