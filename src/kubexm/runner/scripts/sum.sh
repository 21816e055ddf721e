# kx_sum FILE [SIZE]: its sha256, in kx_h. openssl is several times faster than coreutils, where it is there.
kx_sum() {
  if [ "${2:-$(stat -L -c %s -- "$1")}" -gt 4194304 ] && command -v openssl >/dev/null &&
    kx_h=$(openssl dgst -sha256 -r <"$1" 2>/dev/null); then
    kx_h=${kx_h%% *}
  else
    kx_h=$(sha256sum <"$1") || return 1
    kx_h=${kx_h%% *}
  fi
}
