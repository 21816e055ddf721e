# How things were before kubexm's first change to them. An entry is a directory ROOT/KIND/NAME with the files name, state
# (one line), content (of a file) and wrote (the states kubexm itself made, one a line).

kx_die() { printf '%s\n' "$*" >&2; exit 1; }

# kx_entry ROOT KIND NAME: sets kx_e to where the original of a thing is kept.
kx_entry() {
  case $3 in
    *[%/]*) kx_n=$(printf %s "$3" | sed 's/%/%25/g; s,/,%2F,g') ;;
    *) kx_n=$3 ;;
  esac
  if [ "${#kx_n}" -gt 200 ]; then kx_n=$(printf %s "$3" | sha256sum); kx_n=${kx_n%% *}; fi
  kx_e=$1/$2/$kx_n
}

# kx_note ROOT KIND NAME STATE [CONTENT]: keeps an original, unless an earlier change did so already.
kx_note() {
  kx_entry "$1" "$2" "$3"
  if [ -d "$kx_e" ]; then return 0; fi
  ( umask 022; mkdir -p -- "${1%/*}" ) && ( umask 077; mkdir -p -- "$1/$2" ) || return 1
  kx_new=$1/$2/.new.$$
  rm -rf -- "$kx_new"
  ( umask 077
    mkdir -- "$kx_new" && printf '%s\n' "$3" >"$kx_new/name" && printf '%s\n' "$4" >"$kx_new/state" &&
      { [ -z "${5-}" ] || cp -p -- "$5" "$kx_new/content"; } ) || { rm -rf -- "$kx_new"; return 1; }
  mv -T -- "$kx_new" "$kx_e" 2>/dev/null || { rm -rf -- "$kx_new"; [ -d "$kx_e" ]; }
}

# kx_wrote ROOT KIND NAME STATE: remembers a state as one that kubexm made.
kx_wrote() {
  kx_entry "$1" "$2" "$3"
  [ -d "$kx_e" ] || return 0
  grep -qxF -e "$4" -- "$kx_e/wrote" 2>/dev/null || printf '%s\n' "$4" >>"$kx_e/wrote"
}
