# kx_name NAME: the kernel calls the host so from now on.
kx_name() {
  hostname -- "$1" 2>/dev/null || hostnamectl --transient set-hostname -- "$1" 2>/dev/null ||
    printf '%s\n' "$1" >/proc/sys/kernel/hostname
}
