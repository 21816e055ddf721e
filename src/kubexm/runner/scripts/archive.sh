# Unpacks an archive so that nothing is half-written and nothing can land outside. Needs originals.sh and paths.sh.

# kx_safe ROOT LIST: refuses what an archive must not hold.
kx_safe() {
  if s_bad=$(grep -m 1 -E '^/|^\.\./|/\.\./|/\.\.$|^\.\.$' -- "$2"); then kx_die "unsafe path in the archive: $s_bad"; fi
  s_bad=$(find "$1" ! -type f ! -type d ! -type l | head -n 1)
  if [ -n "$s_bad" ]; then kx_die "neither file, directory nor link in the archive: ${s_bad#"$1"/}"; fi
  find "$1" -type l | while IFS= read -r s_link; do
    case $(readlink -- "$s_link") in /*) kx_die "absolute link in the archive: ${s_link#"$1"/}" ;; esac
    case $(readlink -m -- "$s_link") in
      "$1"/*) ;;
      *) kx_die "link out of the archive: ${s_link#"$1"/}" ;;
    esac
  done
}

# kx_workspace DIRECTORY NAME: sets x_tmp to a directory in it with an empty tree, gone in the end; what an earlier attempt
# of the same name left is removed, others may be at work beside it.
kx_workspace() {
  x_tag=$(printf %s "$2" | cksum)
  x_tag=${x_tag%% *}
  rm -rf -- "$1/.kubexm-unpack.$x_tag".??????
  x_tmp=$(mktemp -d -- "$1/.kubexm-unpack.$x_tag.XXXXXX") || exit 1
  trap 'rm -rf -- "$x_tmp"' EXIT
  x_tmp=$(readlink -f -- "$x_tmp")
  mkdir -- "$x_tmp/tree" || exit 1
}

# kx_extract ARCHIVE INTO STRIP SHA256 MANIFEST TAR_OPTION…
kx_extract() {
  x_archive=$1 x_into=$2 x_strip=$3 x_sum=$4 x_manifest=$5
  shift 5
  [ -f "$x_archive" ] || kx_die "$x_archive is not there"
  if [ -n "$x_sum" ]; then
    kx_sum "$x_archive" || exit 1
    [ "$kx_h" = "$x_sum" ] || kx_die "$x_archive is damaged: its sha256 is $kx_h, not $x_sum"
  fi
  kx_dirs "$x_into" || kx_die "cannot make $x_into"
  kx_workspace "$x_into" "$x_archive"
  ( umask 022
    tar -x -v -f "$x_archive" -C "$x_tmp/tree" --strip-components "$x_strip" --no-same-owner --no-same-permissions "$@" \
      >"$x_tmp/list" ) || exit 1
  ( kx_safe "$x_tmp/tree" "$x_tmp/list" ) || exit 1
  ( cd -- "$x_tmp/tree" && find . -type f | LC_ALL=C sort | cut -c 3- ) >"$x_tmp/files"
  ( cd -- "$x_tmp/tree" && find . -type f | while IFS= read -r x_f; do
    kx_f=$(stat -c %s -- "$x_f") && kx_sum "$x_f" "$kx_f" || exit 1
    x_to=small; if [ "$kx_f" -gt 4194304 ]; then x_to=big; fi
    printf '%s  %s\n' "$kx_h" "$x_into/${x_f#./}" >>"$x_tmp/$x_to"
  done ) || exit 1
  ( cd -- "$x_tmp/tree" && find . -type l | LC_ALL=C sort | cut -c 3- ) >"$x_tmp/links"
  ( cd -- "$x_tmp/tree" && find . -type d | LC_ALL=C sort | cut -c 3- ) | while IFS= read -r x_d; do
    if [ -n "$x_d" ]; then kx_dirs "$x_into/$x_d" || exit 1; fi
  done || exit 1
  cat -- "$x_tmp/files" "$x_tmp/links" | while IFS= read -r x_f; do
    if [ -d "$x_into/$x_f" ] && ! [ -L "$x_into/$x_f" ]; then kx_die "$x_into/$x_f is a directory"; fi
    kx_t=$x_tmp/tree/$x_f
    ( kx_place "$x_into/$x_f" ) || exit 1
  done >"$x_tmp/outcome" || exit 1
  if [ -n "$x_sum" ]; then
    ( umask 022; mkdir -p -- "${x_manifest%/*}" ) || exit 1
    for x_to in big small; do
      touch -- "$x_tmp/$x_to" && cp -- "$x_tmp/$x_to" "$x_manifest.new" &&
        mv -f -- "$x_manifest.new" "$x_manifest.$x_to" || exit 1
    done
  fi
  if grep -q changed "$x_tmp/outcome"; then echo changed; else echo same; fi
}

# kx_extracted MANIFEST: true if every file in it is as it was.
kx_extracted() {
  [ -e "$1.small" ] && [ -e "$1.big" ] || return 1
  if [ -s "$1.small" ]; then sha256sum --check --status -- "$1.small" || return 1; fi
  while IFS= read -r x_line; do
    kx_sum "${x_line#*  }" 4194305 2>/dev/null && [ "$kx_h" = "${x_line%% *}" ] || return 1
  done <"$1.big"
}
