# What an asset put on the host, and whether all of it still is as it was. Looking needs sum.sh; unpacking needs
# originals.sh, paths.sh and archive.sh too.
# The stamp of an asset holds its sha256, then for each file its sha256 (of a link: link=TARGET), mode and path. Beside it,
# NAME.stat holds the boot and how those files were last seen: one whose size, times and inode are the same in the same
# boot was not changed. Any other is read: what was written shortly before a power cut may look right and be empty.

# kx_seen STAMP: how its files are now.
kx_seen() {
  cat /proc/sys/kernel/random/boot_id
  tail -n +2 -- "$1" | cut -d' ' -f3- | tr '\n' '\0' | xargs -0 -r stat -c '%f %s %.9Y %.9Z %i %u %g %n' -- 2>/dev/null
}

# kx_placed STAMP SHA256: prints nothing if all is there, else what is wrong.
kx_placed() {
  if ! [ -f "$1" ]; then echo "it was not put there"; return 0; fi
  if [ "$(head -n 1 -- "$1")" != "$2" ]; then echo "another version is there"; return 0; fi
  if [ "$(kx_seen "$1")" = "$(cat -- "$1.stat" 2>/dev/null)" ]; then return 0; fi
  p_own="$(id -u) $(id -g)"
  tail -n +2 -- "$1" | while read -r p_sum p_mode p_path; do
    case $p_sum in
      link=*) [ "link=$(readlink -- "$p_path")" = "$p_sum" ] || echo "$p_path was changed"; continue ;;
    esac
    if ! [ -f "$p_path" ] || [ -L "$p_path" ]; then echo "$p_path is gone"; continue; fi
    if [ "$(stat -c '%a %u %g' -- "$p_path")" != "$p_mode $p_own" ]; then
      echo "$p_path has another mode or owner"
    else
      kx_sum "$p_path" && [ "$kx_h" = "$p_sum" ] || echo "$p_path was changed"
    fi
  done
}

# kx_remember STAMP SHA256: standard input has the lines of the stamp.
kx_remember() {
  ( umask 022; mkdir -p -- "${1%/*}" ) || return 1
  { printf '%s\n' "$2"; cat; } >"$1.new" && kx_seen "$1.new" >"$1.stat" && mv -f -- "$1.new" "$1"
}

# kx_choose DIRECTORY MEMBERS: of its tree leaves only these, one a line.
kx_choose() {
  mkdir -- "$1/chosen" || exit 1
  printf '%s\n' "$2" | while IFS= read -r x_m; do
    [ -f "$1/tree/$x_m" ] || kx_die "there is no $x_m in the archive"
    case $x_m in */*) mkdir -p -- "$1/chosen/${x_m%/*}" || exit 1 ;; esac
    mv -- "$1/tree/$x_m" "$1/chosen/$x_m" || exit 1
  done || exit 1
  rm -rf -- "$1/tree" && mv -- "$1/chosen" "$1/tree" || exit 1
}

# kx_move TREE INTO FILE: one file of the tree goes to its place; prints its line of the stamp. Each is read once.
kx_move() {
  if [ -d "$2/$3" ] && ! [ -L "$2/$3" ]; then kx_die "$2/$3 is a directory"; fi
  if [ -L "$1/$3" ]; then
    p_link=$(readlink -- "$1/$3")
    p_new="link $p_link" p_line="link=$p_link - $2/$3"
  else
    p_mode=$(stat -c %a -- "$1/$3") && kx_sum "$1/$3" || exit 1
    p_new="file $p_mode $(id -u) $(id -g) $kx_h" p_line="$kx_h $p_mode $2/$3"
  fi
  if [ "$(kx_state "$2/$3")" != "$p_new" ]; then
    kx_keep_each "$2/$3" && kx_wrote_each "$2/$3" "$p_new" || kx_die "cannot keep the original of $2/$3"
    mv -fT -- "$1/$3" "$2/$3" || exit 1
  fi
  printf '%s\n' "$p_line"
}

# kx_unpack STAMP SHA256 ARCHIVE INTO STRIP MEMBERS TAR_OPTION…: what is in the archive goes to its place; the archive goes.
kx_unpack() {
  x_stamp=$1 x_sum=$2 x_archive=$3 x_into=$4 x_strip=$5 x_members=$6
  shift 6
  kx_dirs "$x_into" || kx_die "cannot make $x_into"
  kx_workspace "$x_into" "$x_archive"
  ( umask 022
    tar -x -v -f "$x_archive" -C "$x_tmp/tree" --strip-components "$x_strip" --no-same-owner --no-same-permissions "$@" \
      >"$x_tmp/list" ) || exit 1
  ( kx_safe "$x_tmp/tree" "$x_tmp/list" ) || exit 1
  if [ -n "$x_members" ]; then ( kx_choose "$x_tmp" "$x_members" ) || exit 1; fi
  ( cd -- "$x_tmp/tree" && find . -type d | LC_ALL=C sort | cut -c 3- ) | while IFS= read -r x_d; do
    if [ -n "$x_d" ]; then kx_dirs "$x_into/$x_d" || exit 1; fi
  done || exit 1
  ( cd -- "$x_tmp/tree" && find . -type f -o -type l | LC_ALL=C sort | cut -c 3- ) >"$x_tmp/files"
  while IFS= read -r x_f; do
    ( kx_move "$x_tmp/tree" "$x_into" "$x_f" ) || exit 1
  done <"$x_tmp/files" >"$x_tmp/lines" || exit 1
  if command -v restorecon >/dev/null && [ -e /sys/fs/selinux/enforce ]; then restorecon -RF -- "$x_into" || :; fi
  rm -f -- "$x_archive"
  kx_remember "$x_stamp" "$x_sum" <"$x_tmp/lines"
}
