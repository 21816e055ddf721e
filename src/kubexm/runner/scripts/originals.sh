# How things were before kubexm's first change to them. An entry is a directory ROOT/KIND/NAME with the files name, state
# (one line), content (of a file) and wrote (the states kubexm itself made, one a line). A builtin wherever one will do:
# hundreds of files are written to each host, and each fork costs a millisecond.

kx_die() { printf '%s\n' "$*" >&2; exit 1; }

# kx_entry ROOT KIND NAME: sets kx_e to where the original of a thing is kept.
kx_entry() {
  kx_n='' kx_rest=$3
  while :; do
    case $kx_rest in *[%/]*) ;; *) break ;; esac
    kx_word=${kx_rest%%[%/]*}
    kx_rest=${kx_rest#"$kx_word"}
    case $kx_rest in /*) kx_n=$kx_n${kx_word}%2F ;; *) kx_n=$kx_n${kx_word}%25 ;; esac
    kx_rest=${kx_rest#?}
  done
  kx_n=$kx_n$kx_rest
  if [ "${#kx_n}" -gt 200 ]; then kx_n=$(printf %s "$3" | sha256sum); kx_n=${kx_n%% *}; fi
  kx_e=$1/$2/$kx_n
}

# kx_kept ENTRY: true if an original is there: its state is written last, in one piece.
kx_kept() { [ -s "$1/state" ]; }

# kx_home ROOT KIND: where entries of a kind are; nobody else may look.
kx_home() {
  if [ -d "$1/$2" ]; then return 0; fi
  ( umask 022; mkdir -p -- "${1%/*}" ) && ( umask 077; mkdir -p -- "$1/$2" )
}

# kx_rooms ROOT KIND NAME…: makes the directories of entries that are to come, with one process for all of them.
kx_rooms() {
  kx_home "$1" "$2" || return 1
  kx_root=$1 kx_kind=$2
  shift 2
  kx_count=$#
  while [ "$kx_count" -gt 0 ]; do
    kx_entry "$kx_root" "$kx_kind" "$1"
    shift
    if ! [ -d "$kx_e" ]; then set -- "$@" "$kx_e"; fi
    kx_count=$((kx_count - 1))
  done
  if [ "$#" -gt 0 ]; then mkdir -p -m 700 -- "$@"; fi
}

# kx_note ROOT KIND NAME STATE [CONTENT]: keeps an original, unless an earlier change did so already.
kx_note() {
  kx_entry "$1" "$2" "$3"
  if kx_kept "$kx_e"; then return 0; fi
  kx_home "$1" "$2" || return 1
  if [ -z "${5-}" ]; then
    [ -d "$kx_e" ] || mkdir -p -m 700 -- "$kx_e" || return 1
    printf '%s\n' "$3" >"$kx_e/name" && printf '%s\n' "$4" >"$kx_e/state"
    return
  fi
  # With a content it appears whole: another command may be about to keep the same.
  kx_new=$1/$2/.new.$$
  if [ -e "$kx_new" ]; then rm -rf -- "$kx_new"; fi
  ( umask 077
    mkdir -- "$kx_new" && printf '%s\n' "$3" >"$kx_new/name" && printf '%s\n' "$4" >"$kx_new/state" &&
      cp -p -- "$5" "$kx_new/content" ) || { rm -rf -- "$kx_new"; return 1; }
  mv -T -- "$kx_new" "$kx_e" 2>/dev/null || { rm -rf -- "$kx_new"; kx_kept "$kx_e"; }
}

# kx_wrote ROOT KIND NAME STATE: remembers a state as one that kubexm made.
kx_wrote() {
  kx_entry "$1" "$2" "$3"
  kx_kept "$kx_e" || return 0
  if [ -e "$kx_e/wrote" ]; then
    while IFS= read -r kx_line; do
      if [ "$kx_line" = "$4" ]; then return 0; fi
    done <"$kx_e/wrote"
  fi
  printf '%s\n' "$4" >>"$kx_e/wrote"
}
