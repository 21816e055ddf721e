# What an asset put on the host, and whether all of it still is as it was. Looking needs sum.sh; unpacking needs
# originals.sh, paths.sh and archive.sh too.
# The stamp of an asset holds its sha256, then for each file its sha256 (of a link: link=TARGET), mode and path. Beside it,
# NAME.stat holds the boot and how those files were last seen: one whose size, times and inode are the same in the same
# boot was not changed. Any other is read: what was written shortly before a power cut may look right and be empty.

# kx_seen STAMP: how its files are now.
kx_seen() {
  read -r p_boot </proc/sys/kernel/random/boot_id && printf '%s\n' "$p_boot"
  p_stamp=$1
  shift
  {
    read -r p_sum
    while read -r p_sum p_mode p_path; do set -- "$@" "$p_path"; done
  } <"$p_stamp"
  if [ "$#" -gt 0 ]; then stat -c '%f %s %.9Y %.9Z %i %u %g %n' -- "$@" 2>/dev/null; fi
}

# kx_placed STAMP SHA256: prints nothing if all is there, else what is wrong.
kx_placed() {
  if ! [ -f "$1" ]; then echo "it was not put there"; return 0; fi
  read -r p_sum <"$1"
  if [ "$p_sum" != "$2" ]; then echo "another version is there"; return 0; fi
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
  [ -d "${1%/*}" ] || ( umask 022; mkdir -p -- "${1%/*}" ) || return 1
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

# kx_sums: of the files named on standard input, one a line, the sha256 of each, in this order. Each is read once.
kx_sums() {
  if command -v openssl >/dev/null; then tr '\n' '\0' | xargs -0 -r openssl dgst -sha256 -r
  else tr '\n' '\0' | xargs -0 -r sha256sum -z | tr '\0' '\n'; fi | while IFS= read -r p_line; do
    p_line=${p_line#\\}
    printf '%s\n' "${p_line%% *}"
  done
}

# kx_arrange TREE INTO: what is in the tree goes to its place, if it is not so already; prints the lines of the stamp.
# Reads "MODE SUM NAME" of files and "- TARGET<TAB>NAME" of links on standard input.
kx_arrange() {
  p_own="$(id -u) $(id -g)" p_tab=$(printf '\t') a_tree=$1 a_into=$2
  shift 2
  : >"$x_tmp/states"
  while IFS= read -r p_line; do
    p_mode=${p_line%% *} p_line=${p_line#* }
    if [ "$p_mode" = - ]; then
      p_name=${p_line#*"$p_tab"} p_link=${p_line%%"$p_tab"*}
      p_new="link $p_link" p_line="link=$p_link - $a_into/$p_name"
    else
      p_name=${p_line#* } p_sum=${p_line%% *}
      p_new="file $p_mode $p_own $p_sum" p_line="$p_sum $p_mode $a_into/$p_name"
    fi
    if [ -d "$a_into/$p_name" ] && ! [ -L "$a_into/$p_name" ]; then kx_die "$a_into/$p_name is a directory"; fi
    printf '%s\n' "$p_line"
    kx_look "$a_into/$p_name" || exit 1
    if [ "$kx_l" = "$p_new" ]; then rm -f -- "$a_tree/$p_name" || exit 1; continue; fi
    set -- "$@" "$a_into/$p_name"
    printf '%s\n' "$p_new" >>"$x_tmp/states"
  done
  if [ "$#" = 0 ]; then return 0; fi
  kx_rooms_each "$@" || kx_die "cannot keep the originals of what is in $a_into"
  while IFS= read -r p_new; do
    kx_keep_each "$1" && kx_wrote_each "$1" "$p_new" || kx_die "cannot keep the original of $1"
    shift
  done <"$x_tmp/states"
  # A rename for each, a process for each directory.
  while IFS= read -r x_d; do
    find "$a_tree${x_d:+/$x_d}" -maxdepth 1 ! -type d -exec mv -f -t "$a_into${x_d:+/$x_d}" -- {} + || exit 1
  done <"$x_tmp/directories"
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
  ( cd -- "$x_tmp/tree" && find . -type d | LC_ALL=C sort | cut -c 3- ) >"$x_tmp/directories"
  while IFS= read -r x_d; do
    if [ -n "$x_d" ]; then kx_dirs "$x_into/$x_d" || exit 1; fi
  done <"$x_tmp/directories"
  ( cd -- "$x_tmp/tree" && find . -type f -printf '%P\t%m\n' | LC_ALL=C sort >"$x_tmp/modes" &&
    cut -f 1 -- "$x_tmp/modes" | kx_sums >"$x_tmp/sums" && find . -type l -printf '- %l\t%P\n' >"$x_tmp/links" ) || exit 1
  x_tab=$(printf '\t')
  while IFS= read -r x_f && IFS= read -r x_h <&3; do
    printf '%s %s %s\n' "${x_f##*"$x_tab"}" "$x_h" "${x_f%"$x_tab"*}"
  done <"$x_tmp/modes" 3<"$x_tmp/sums" >"$x_tmp/files"
  [ "$(grep -c '' "$x_tmp/modes")" = "$(grep -c '' "$x_tmp/files")" ] || kx_die "what is in the archive cannot be read"
  ( cat -- "$x_tmp/files" "$x_tmp/links" | kx_arrange "$x_tmp/tree" "$x_into" ) >"$x_tmp/lines" || exit 1
  if command -v restorecon >/dev/null && [ -e /sys/fs/selinux/enforce ]; then restorecon -RF -- "$x_into" || :; fi
  rm -f -- "$x_archive"
  kx_remember "$x_stamp" "$x_sum" <"$x_tmp/lines"
}

# kx_unwrap STAMP SHA256 PACKED PATH MODE: the file packed with zstd goes to its place, whole; what was sent goes. zstd compares
# what it unpacks with a sum of its own; ours was compared before it was packed.
kx_unwrap() {
  u_new=${4%/*}/.kubexm-${4##*/}-${2%"${2#????????????????}"}.part
  ( umask 077; zstd -d -q -c -- "$3" >"$u_new" ) && chmod -- "$5" "$u_new" && mv -fT -- "$u_new" "$4" ||
    { rm -f -- "$u_new"; return 1; }
  rm -f -- "$3"
  printf '%s %s %s\n' "$2" "$5" "$4" | kx_remember "$1" "$2"
}
