# What an asset put on the host, and whether all of it still is as it was. Needs sum.sh and originals.sh.
# The stamp of an asset holds its sha256, then for each file its sha256, mode and path; beside it NAME.stat holds how
# those files were last seen. A file whose size, times and inode are the same was not changed; any other is read.

# kx_seen STAMP: how its files are now.
kx_seen() {
  tail -n +2 -- "$1" | cut -d' ' -f3- | tr '\n' '\0' | xargs -0 -r stat -c '%f %s %.9Y %.9Z %i %u %g %n' -- 2>/dev/null
}

# kx_placed STAMP SHA256: prints nothing if all is there, else what is wrong.
kx_placed() {
  if ! [ -f "$1" ]; then echo "it was not put there"; return 0; fi
  if [ "$(head -n 1 -- "$1")" != "$2" ]; then echo "another version is there"; return 0; fi
  if [ "$(kx_seen "$1")" = "$(cat -- "$1.stat" 2>/dev/null)" ]; then return 0; fi
  tail -n +2 -- "$1" | while read -r p_sum p_mode p_path; do
    if ! [ -f "$p_path" ] || [ -L "$p_path" ]; then echo "$p_path is gone"; continue; fi
    if [ "$(stat -c '%a %u %g' -- "$p_path")" != "$p_mode 0 0" ]; then echo "$p_path has another mode or owner"; continue; fi
    kx_sum "$p_path" && [ "$kx_h" = "$p_sum" ] || echo "$p_path was changed"
  done
}

# kx_stamp_files STAMP SHA256: standard input is `sha256 path` of each file that was put there.
kx_stamp_files() {
  ( umask 022; mkdir -p -- "${1%/*}" ) || return 1
  { printf '%s\n' "$2"
    while read -r p_sum p_path; do
      p_mode=$(stat -c %a -- "$p_path") || exit 1
      printf '%s %s %s\n' "$p_sum" "$p_mode" "$p_path"
    done; } >"$1.new" && kx_seen "$1.new" >"$1.stat" && mv -f -- "$1.new" "$1"
}
