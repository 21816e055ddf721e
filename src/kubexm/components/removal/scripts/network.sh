# What a cluster leaves in the kernel's network: rules, sets, interfaces, routes.
# The caller sets kx_known, a file that lists what was there before: `chain NAME`, `table FAMILY NAME`, `set NAME`; and
# kx_borrowed, a directory with an nft of the cluster's, where the host has none; and of the cluster's own, kx_names, a
# pattern of names of chains, and kx_ours, tables of nftables as ` FAMILY/NAME FAMILY/NAME `.

kx_was() { grep -qxF -e "$1" -- "$kx_known" 2>/dev/null; }

# kx_restore PROGRAM TABLE: standard input is lines for that table, nothing of which is done if one fails.
kx_restore() {
  r_lines=$(cat)
  if [ -z "$r_lines" ]; then return 0; fi
  printf '*%s\n%s\nCOMMIT\n' "$2" "$r_lines" | "$1-restore" -w 10 -n
}

# kx_chains PROGRAM: rules that lead into the cluster's chains go first, then what is in these, then they themselves.
kx_chains() {
  if ! command -v "$1-save" >/dev/null || ! command -v "$1-restore" >/dev/null; then return 0; fi
  c_all=$("$1-save" 2>/dev/null) || return 0
  c_table=
  c_old=$(sed -n 's/^chain //p' "$kx_known" 2>/dev/null)
  for c_table in $(printf '%s\n' "$c_all" | sed -n 's/^\*//p'); do
    c_part=$(printf '%s\n' "$c_all" | sed -n "/^\\*$c_table\$/,/^COMMIT/p")
    c_ours=$(printf '%s\n' "$c_part" | sed -nE "s/^:($kx_names) .*/\\1/p")
    if [ -n "$c_old" ]; then c_ours=$(printf '%s\n' "$c_ours" | grep -vxF -e "$c_old"); fi
    if [ -z "$c_ours" ]; then continue; fi
    printf '%s\n' "$c_part" | grep -vE "^-A $kx_names" | grep -E -e "-[jg] $kx_names( |\$)" | sed 's/^-A /-D /' |
      kx_restore "$1" "$c_table" || return 1
    printf '%s\n' "$c_ours" | sed 's/^/-F /' | kx_restore "$1" "$c_table" || return 1
    printf '%s\n' "$c_ours" | sed 's/^/-X /' | kx_restore "$1" "$c_table" || return 1
  done
}

kx_has_nft() { command -v nft >/dev/null || [ -x "$kx_borrowed/nft" ]; }
kx_nft() { if command -v nft >/dev/null; then nft "$@"; else chroot "$kx_borrowed" /nft "$@"; fi; }

# kx_tables: tables of nftables that the cluster made, and those that iptables made for it and that hold nothing now.
kx_tables() {
  if ! kx_has_nft; then return 0; fi
  kx_nft list tables 2>/dev/null | while read -r t_word t_family t_name; do
    if [ "$t_word" != table ] || kx_was "table $t_family $t_name"; then continue; fi
    case $kx_ours in *" $t_family/$t_name "*)
      kx_nft delete table "$t_family" "$t_name" || exit 1
      continue ;;
    esac
    case $t_family/$t_name in
      ip/filter|ip/nat|ip/mangle|ip/raw|ip/security|ip6/filter|ip6/nat|ip6/mangle|ip6/raw|ip6/security)
        if ! kx_nft list table "$t_family" "$t_name" | grep -qvE '^table |^	chain |^		type .* policy accept;|^	?\}|^$'; then
          kx_nft delete table "$t_family" "$t_name" || exit 1
        fi
        ;;
    esac
  done
}

kx_sets() {
  if ! command -v ipset >/dev/null; then return 0; fi
  for s_name in $(ipset list -n 2>/dev/null | grep '^KUBE-'); do
    if ! kx_was "set $s_name"; then ipset destroy "$s_name" || return 1; fi
  done
}

# kx_virtual_servers: those of IPVS; without the tool for it they stay, unused, until the next boot.
kx_virtual_servers() {
  if ! [ -d /sys/class/net/kube-ipvs0 ]; then return 0; fi
  if command -v ipvsadm >/dev/null; then ipvsadm --clear || return 1
  else echo "virtual servers of IPVS stay in the kernel until the next boot: there is no ipvsadm on this host"; fi
}

# kx_links NAME…: interfaces; their addresses, routes and neighbours go with them.
kx_links() {
  for l_name; do
    if [ -e "/sys/class/net/$l_name" ]; then ip link delete "$l_name" || return 1; fi
  done
}

# kx_routes NETWORK…: every route into the network or a part of it.
kx_routes() {
  for n_net; do
    case $n_net in *:*) n_family=-6 ;; *) n_family=-4 ;; esac
    if [ -n "$(ip "$n_family" route show root "$n_net" 2>/dev/null)" ]; then ip "$n_family" route flush root "$n_net"; fi
  done
}
