# The half of a persistent shell that lives on the host: sent once, then called line by line by connector/shell.py.
# POSIX sh; a builtin wherever one will do, since each fork costs a millisecond. All names start with k_.
# Given beforehand: k_mark, this shell's random marker, and k_dir, where receipts go (empty: chosen here).
export LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
umask 022
cd /
k_message=0 k_used=0 k_old='' k_last='' k_out='' k_files='' k_stdin=/dev/null k_newline='
'
while read -r k_word k_uid k_euid k_rest; do [ "$k_word" != Uid: ] || break; done </proc/self/status
if [ -n "$k_dir" ]; then k_rest=''
elif [ "$k_euid" = 0 ]; then k_dir=/run/kubexm
elif [ -O "/run/user/$k_euid" ]; then k_dir=/run/user/$k_euid/kubexm
else k_dir=/tmp/kubexm-$k_euid; fi
[ -d "$k_dir" ] || mkdir -p -m 700 "$k_dir" 2>/dev/null
k_own=$k_dir/.$k_mark
read -r k_boot </proc/sys/kernel/random/boot_id
read -r k_stat </proc/$$/stat

# k_say WORDS: a marked line, with a newline of its own before it, so that binary output ahead of it stays exact.
k_say() { printf '\n%s %s\n' "$k_mark" "$*"; }

# k_now: whole seconds since boot, in k_up. No fork, and no jump when somebody sets the clock.
k_now() { read -r k_uptime k_rest </proc/uptime; k_up=${k_uptime%.*}; }

# k_text FILE: its content in k_content if it is short text without NUL, else fails; k_long holds how much was written to it.
# The position after the last read is the file's size: if the lengths differ, the builtin lost something and cat must do it.
k_text() {
  [ "$k_long" -lt 2048 ] || return 1
  k_content=''
  {
    while IFS= read -r k_line <&3; do
      k_content=$k_content$k_line$k_newline
      [ "${#k_content}" -lt 4096 ] || return 1
    done
    k_content=$k_content$k_line
    read -r k_rest k_size </proc/self/fdinfo/3
  } 3<"$1"
  [ "${#k_content}" = "$k_size" ]
}

# k_reply INDEX STATUS FILE: queues the reply for a command whose output is in FILE.o and FILE.e. Replies keep their order:
# once one waits in a file, all that follow do, or what belongs to one would be taken for another's.
k_reply() {
  k_errors=-
  [ ! -s "$3.e" ] || k_errors=e
  if [ -z "$k_files" ] && [ ! -s "$3.o" ]; then k_out="$k_out$k_newline$k_mark r $1 $2 $k_errors$k_newline"
  elif [ -z "$k_files" ] && k_text "$3.o"; then k_out="$k_out$k_content$k_newline$k_mark r $1 $2 $k_errors$k_newline"
  else k_say r "$1" "$2" "$k_errors" >"$3.p"; k_files="$k_files $3.o $3.p"; fi
  [ "$k_errors" = e ] || return 0
  k_long=0
  if [ -z "$k_files" ] && k_text "$3.e"; then k_out="$k_out$k_content$k_newline$k_mark e $1$k_newline"
  else k_say e "$1" >"$3.q"; k_files="$k_files $3.e $3.q"; fi
}

# k_flush: sends all queued replies, in order, and forgets their files.
k_flush() {
  [ -z "$k_out" ] || printf %s "$k_out"
  if [ -n "$k_files" ]; then
    cat $k_files
    for k_file in $k_files; do case $k_file in "$k_own"*) printf '' >"$k_file" ;; esac; done
  fi
  [ ! -e "$k_own.run" ] || printf '' >"$k_own.run"
  k_out='' k_files='' k_message=$((k_message + 1))
  [ "$k_used" -lt 100 ] || { k_used=0; k_tidy "$k_own".*.*; }
}

# k_tidy FILE...: removes these, which earlier commands left, and receipts nobody can ask for. The newest receipt stays: its
# reply may not have arrived.
k_tidy() {
  [ -n "$k_old" ] || [ -e "$1" ] || return 0
  k_files=''
  for k_name in $k_old; do k_files="$k_files $k_dir/$k_name.begin $k_dir/$k_name.o $k_dir/$k_name.e $k_dir/$k_name.rc $k_dir/$k_name.end"; done
  rm -f "$@" $k_files
  k_old='' k_files=''
}

# k_input TEXT: what the next command reads as its stdin.
k_input() { printf %s "$1" >"$k_own.in" && k_stdin=$k_own.in; }
k_input64() { printf %s "$1" | base64 -d >"$k_own.in" && k_stdin=$k_own.in; }
k_input_done() { [ "$k_stdin" = /dev/null ] || { printf '' >"$k_own.in"; k_stdin=/dev/null; }; }

# k_read INDEX TIMEOUT EXPORTS SCRIPT .: a read, in a subshell that contains exit, cd and syntax errors. Its output goes to
# files of its own, so that a child it leaves behind cannot write into a later reply. The last argument proves that the line
# is whole: one that was cut off must not run.
k_read() {
  [ "$5" = . ] || return 0
  k_now
  printf '%s r %s %s %s\n' "$k_message" "$1" "$k_uptime" "$2" >"$k_own.run"
  k_index=$1 k_exports=$3 k_script=$4 k_file=$k_own.$k_message.$1 k_used=$((k_used + 1))
  {
    (set --; ulimit -f 16384; eval "$k_exports"; eval "$k_script") <"$k_stdin" >&3 2>&4 3>&- 4>&- 5<&- 8>&-
    k_status=$?
    read -r k_rest k_long </proc/self/fdinfo/3
  } 3>>"$k_file.o" 4>>"$k_file.e"
  k_input_done
  # A full file system must not pass for a command that printed nothing.
  if [ -e "$k_file.e" ] && { printf x >"$k_own.probe" && printf '' >"$k_own.probe"; } 2>/dev/null; then
    k_reply "$k_index" "$k_status" "$k_file"
  else k_out="$k_out$k_newline$k_mark s $k_index$k_newline"; fi
}

# k_stream TIMEOUT EXPORTS SCRIPT .: a read that prints much: straight to the channel, which is closed afterwards.
k_stream() {
  [ "$4" = . ] || return 0
  k_now
  printf '%s r 0 %s %s\n' "$k_message" "$k_up" "$1" >"$k_own.run"
  k_exports=$2 k_script=$3
  (set --; eval "$k_exports"; eval "$k_script") <"$k_stdin" 5<&- 8>&-
  k_status=$?
  k_input_done
  k_say f 0 >&2
  k_say r 0 "$k_status" f
  printf '' >"$k_own.run"
}

# k_fenced PATH TOKEN: whether this host has seen a newer token than ours, in the lease at PATH (hosts that keep one) or with
# an earlier change; that token in k_token. If not, it has seen ours from now on. Each token is a file of its own: whoever
# removes lower ones can lose no higher one.
k_fenced() {
  k_token='' k_lower=''
  [ -n "$2" ] || return 1
  if [ -n "$1" ] && [ -e "$1" ]; then
    read -r k_token k_rest <"$1"
    case $k_token in '') ;; *[!0-9]*) return 0 ;; *) [ "$k_token" -le "$2" ] || return 0 ;; esac
  fi
  for k_seen in "$k_dir"/fence.*; do
    k_token=${k_seen##*.}
    case $k_token in *[!0-9]*) continue ;; esac
    [ "$k_token" -le "$2" ] || return 0
    [ "$k_token" = "$2" ] || k_lower="$k_lower $k_seen"
  done
  [ -e "$k_dir/fence.$2" ] || printf '' >"$k_dir/fence.$2"
  [ -z "$k_lower" ] || rm -f $k_lower
  return 1
}

# k_station: the process in whose group changes run, in k_stands while there is one. Starting a session and a shell for each
# change would be most of what it costs; so from the second one on it is used again, but only while nothing else lives in its group: a change that
# leaves a child behind, or has to be ended, takes its group with it, and the next one gets another. Whoever holds the guard
# open is such a child. It hears of the end of this shell by the end of its input, and this shell of its end likewise.
k_station() {
  k_stations=$((k_stations + 1)) k_pipe=$k_own.pipe$k_stations
  mkfifo -m 600 "$k_pipe-q" "$k_pipe-a" "$k_pipe-g" || return
  printf '%s\n' "$k_loop" >"$k_own.loop" || return
  exec 8<>"$k_pipe-q" 9<>"$k_pipe-a"
  setsid -f sh "$k_own.loop" "$k_pipe-g" </dev/null >/dev/null 2>&1 7<"$k_pipe-q" 8>&- || { exec 8>&- 9>&-; return 1; }
  exec 5<"$k_pipe-a" 9>&-
  k_stands=1
}
k_leave() { exec 5<&- 8>&-; k_stands=''; }
k_changes=0 k_stations=0 k_stands='' k_loop='k_guard=$1
shift
trap "" TERM
export LVM_SUPPRESS_FD_WARNINGS=1
while read -r k_receipt && read -r k_script && read -r k_stdin; do
  exec 5<>"$k_guard" 6>"$k_guard"
  {
    (trap - TERM; . "$k_script") <"$k_stdin" >&3 2>&4 3>&- 4>&- 6>&- 7<&- 9>&-
    k_status=$?
    printf "%s\n" "$k_status" >"$k_receipt.rc"
    read -r k_rest k_long </proc/self/fdinfo/3
  } 3>>"$k_receipt.o" 4>>"$k_receipt.e"
  exec 5>&-
  trap "" PIPE
  if printf x >&6; then k_next=over; else k_next=again; fi
  exec 6>&-
  trap - PIPE
  [ ! -e "$k_receipt.end" ] || k_next=over
  echo "$k_status $k_long $k_next" >&9
  [ "$k_next" = again ] || exit
done <&7'

# k_once TIMEOUT EXPORTS SCRIPT: the command of a change that may well be all this shell is ever sent. It has its deadline with
# it and leaves no file but its receipt: one process to watch over it and one to clear away would be half of what it costs.
k_once() {
  k_changes=$((k_changes + 1)) k_from=$k_up
  {
    setsid -w timeout -k 2 --preserve-status "$(($1 + 5))" sh /proc/self/fd/9 <"$k_stdin" >&3 2>&4 3>&- 4>&- 9<<K_END
exec 9<&-; $k_script
$2
$3
K_END
    k_status=$?
    # timeout ended it: the receipt must say so, or it would pass for a command that failed by itself.
    [ "$k_status" = 0 ] || { k_now; [ $((k_up - k_from)) -lt $(($1 + 5)) ] || echo ended >"$k_receipt.end"; }
    printf '%s\n' "$k_status" >"$k_receipt.rc"
    read -r k_rest k_long </proc/self/fdinfo/3
  } 3>>"$k_receipt.o" 4>>"$k_receipt.e"
  k_input_done
  k_reply 0 "$k_status" "$k_receipt"
}

# k_change NAME TIMEOUT DIGEST FENCE TOKEN FOLLOW EXPORTS SCRIPT .: a change, once. Creating NAME.begin is the claim: who
# finds it there does not run. The token is compared after the claim: a run that takes over leaves its token first and lists
# the receipts then, so it finds this one or has it refused. The command's own first act is to add its process to it; its exit code is written to NAME.rc
# also when nobody listens any more.
k_change() {
  [ "$9" = . ] || return 0
  case $1 in made-*) k_old="$k_old${k_last:+ $k_last}" k_last=$1 ;; esac
  k_receipt=$k_dir/$1 k_used=$((k_used + 1))
  k_now
  set -C
  { printf '%s %s %s %s\n%s\n' "$k_boot" "$k_uptime" "$2" "$3" "$k_stat" >"$k_receipt.begin"; } 2>/dev/null
  k_status=$?
  set +C
  if [ "$k_status" != 0 ]; then
    k_input_done
    if [ -e "$k_receipt.begin" ]; then k_say x known; else k_say s 0; fi
    return 0
  fi
  if k_fenced "$4" "$5"; then rm -f "$k_receipt.begin"; k_input_done; k_say x fenced "$k_token"; return 0; fi
  k_script="set --; read -r k_stat </proc/self/stat; echo \"\$k_stat\" >>'$k_receipt.begin'
unset k_stat k_guard k_receipt k_script k_stdin k_status k_rest k_long k_next"
  if [ -z "$k_watcher$6" ] && [ $((${#k_script} + ${#7} + ${#8})) -lt 4000 ]; then k_once "$2" "$7" "$8"; return; fi
  k_watch
  printf '%s c %s %s %s\n' "$k_message" "$1" "$k_up" "$2" >"$k_own.run"
  umask 077
  printf '%s\n%s\n%s\n' "$k_script" "$7" "$8" >"$k_own.sh"
  k_status=$?
  umask 022
  # Half a script must not run: no room is told as for the receipt itself.
  if [ "$k_status" != 0 ]; then k_input_done; rm -f "$k_receipt.begin"; k_say s 0; return 0; fi
  if [ "$6" = follow ]; then
    printf '' >"$k_receipt.o"; printf '' >"$k_receipt.e"
    setsid -w sh "$k_own.sh" <"$k_stdin" >>"$k_receipt.o" 2>>"$k_receipt.e" 5<&- 8>&- &
    k_job=$!
    tail -s 0.03 --pid="$k_job" -c +1 -f "$k_receipt.o" 2>/dev/null &
    k_tail=$!
    tail -s 0.03 --pid="$k_job" -c +1 -f "$k_receipt.e" >&2 2>/dev/null &
    k_tails=$!
    wait "$k_job"
    k_status=$?
    printf '%s\n' "$k_status" >"$k_receipt.rc"
    wait "$k_tail" "$k_tails"
    k_input_done
    k_say f 0 >&2
    k_say r 0 "$k_status" f
    return 0
  fi
  k_status='' k_long=0 k_next=over k_changes=$((k_changes + 1))
  if [ "$k_changes" = 1 ]; then # it may well be the only one
    {
      setsid -w sh "$k_own.sh" <"$k_stdin" >&3 2>&4 3>&- 4>&- 5<&- 8>&-
      k_status=$?
      printf '%s\n' "$k_status" >"$k_receipt.rc"
      read -r k_rest k_long </proc/self/fdinfo/3
    } 3>>"$k_receipt.o" 4>>"$k_receipt.e"
  elif [ -n "$k_stands" ] || k_station; then
    printf '%s\n' "$k_receipt" "$k_own.sh" "$k_stdin" >&8
    read -r k_status k_long k_next <&5
  fi
  [ "$k_next" = again ] || k_leave
  if [ -z "$k_status" ]; then
    # Killed with its whole group; or, with no sign of the command itself, never begun.
    k_begun "$1"
    k_status=137 k_long=9999
    [ -n "$k_since" ] || { k_status=127; printf '%s\n' "no session of its own could be started" >>"$k_receipt.e"; }
    printf '%s\n' "$k_status" >"$k_receipt.rc"
  fi
  printf '' >"$k_own.sh"
  k_input_done
  k_reply 0 "$k_status" "$k_receipt"
}

# k_sum FILE: its sha256, in k_digest. openssl is several times faster than coreutils where there is one.
k_sum() {
  if command -v openssl >/dev/null; then k_digest=$(openssl dgst -sha256 -r "$1"); else k_digest=$(sha256sum "$1"); fi
  k_digest=${k_digest%% *}
  k_digest=${k_digest#\\}
}

# k_same PATH MODE OWNER GROUP SHA SIZE: says whether the file is there already: same, else mode, or other.
k_same() {
  k_found=$(stat -c '%s %a %U %u %G %g %F' "$1" 2>/dev/null) || { echo other; return; }
  set -- "$@" $k_found
  [ "$7" = "$6" ] && [ "${13}" = regular ] || { echo other; return; }
  k_sum "$1"
  [ "$k_digest" = "$5" ] || { echo other; return; }
  [ "$8" = "$2" ] || { echo mode; return; }
  if [ -n "$3" ] && { [ "$9" != "$3" ] && [ "${10}" != "$3" ] || [ "${11}" != "$4" ] && [ "${12}" != "$4" ]; }; then
    echo mode
    return
  fi
  echo same
}

# k_stale PART: removes what earlier uploads to the same place left unfinished, if nobody came back to it for a day.
k_stale() {
  k_name=${1##*/}
  find "${1%/*}/" -maxdepth 1 -name "${k_name%-*-*}-*.part" ! -name "$k_name" -mtime +0 -exec rm -f {} + 2>/dev/null
}

# k_adopt PART: continues what an earlier writer of the same content left unfinished, if that writer is gone. Writers never
# share a file: one that was cut off may still write what it has received.
k_adopt() {
  [ ! -e "$1" ] || return 0
  for k_seen in "${1%-*}"-*.part; do
    [ -f "$k_seen" ] || continue
    k_name=${k_seen##*-} k_line=''
    k_name=$k_dir/.part-${k_name%.part}
    [ ! -e "$k_name" ] || read -r k_line <"$k_name"
    k_parse "$k_line"
    k_alive || { mv -fT -- "$k_seen" "$1" && rm -f "$k_name" && return; }
  done
}

# k_enter NAME LIMIT FENCE TOKEN: the receipt of an upload that begins; then, and fails if so, whether it is fenced. Whoever
# takes over finds the one or causes the other.
k_enter() {
  read -r k_line </proc/self/stat
  if [ -n "$1" ]; then
    k_now
    printf '%s %s %s upload\n%s\n%s\n' "$k_boot" "$k_uptime" "$2" "$k_line" "$k_line" >"$k_dir/$1.begin" || exit
  fi
  k_fenced "$3" "$4" || return 0
  k_leaves "$1" 0
  echo fenced "$k_token"
  return 1
}

# k_leaves NAME STATUS: completes the receipt of an upload.
k_leaves() { [ -z "$1" ] || printf '%s\n' "$2" >"$k_dir/$1.rc"; }

# k_place PART PATH MODE OWNER GROUP SHA FENCE TOKEN LAZY [WHOLE]: checks what arrived and puts it where it belongs, all at
# once; waits for the disk unless LAZY is something. WHOLE is something: it came in one piece, and who unpacks it will tell.
k_place() {
  if [ -z "${10-}" ]; then
    k_sum "$1" || return
    [ "$k_digest" = "$6" ] || { rm -f "$1"; echo damaged; return; }
  fi
  [ -z "$4" ] || chown -- "$4:$5" "$1" || return
  chmod -- "$3" "$1" && { [ -n "$9" ] || sync "$1"; } || return
  if k_fenced "$7" "$8"; then rm -f "$1"; echo fenced "$k_token"; return; fi
  mv -fT -- "$1" "$2" && { [ -n "$9" ] || sync "${2%/*}/"; } && echo placed
}

# k_put SIZE RECEIPT PART PATH MODE OWNER GROUP SHA FENCE TOKEN LAZY: a small file, its content on stdin.
k_put() {
  k_size=$1 k_receipt=$2
  shift 2
  [ -d "${2%/*}/" ] || { echo "${2%/*}: No such file or directory" >&2; return 1; }
  [ "$(k_same "$2" "$3" "$4" "$5" "$6" "$k_size")" != same ] || { echo same; return; }
  k_enter "$k_receipt" 120 "$7" "$8" || return 0
  { (umask 077; cat >"$1") && k_place "$@"; }
  k_status=$?
  [ "$k_status" = 0 ] || rm -f "$1"
  k_leaves "$k_receipt" "$k_status"
  return "$k_status"
}

# k_adjust RECEIPT PATH MODE OWNER GROUP FENCE TOKEN: mode and owner of a file that has its content already.
k_adjust() {
  k_enter "$1" 30 "$6" "$7" || return 0
  { [ -z "$4" ] || chown -- "$4:$5" "$2"; } && chmod -- "$3" "$2" && echo placed
  k_status=$?
  k_leaves "$1" "$k_status"
  return "$k_status"
}

# k_upload RECEIPT PART OFFSET SIZE TIMEOUT . PATH MODE OWNER GROUP SHA FENCE TOKEN LAZY WHOLE: a large file, from the channel
# itself, which is done for afterwards: a leftover of the content must never be read as commands.
k_upload() {
  [ "$6" = . ] || exit
  k_now
  printf '%s r 0 %s %s\n' "$k_message" "$k_up" "$5" >"$k_own.run"
  k_receipt=$1 k_part=$2 k_offset=$3 k_size=$4 k_limit=$5 k_file=$k_own.$k_message.0 k_writer=${2##*-}
  k_writer=$k_dir/.part-${k_writer%.part}
  shift 6
  k_say g
  {
    (
      [ -d "${1%/*}/" ] || { echo "${1%/*}: No such file or directory" >&2; exit 1; }
      k_enter "$k_receipt" "$k_limit" "$6" "$7" || exit 0
      printf '%s\n' "$k_line" >"$k_writer"
      k_there=$(stat -c %s "$k_part" 2>/dev/null) || k_there=0
      [ "$k_there" = "$k_offset" ] || { echo moved; exit; }
      umask 077
      cat >>"$k_part" || { k_status=$?; rm -f "$k_part"; exit "$k_status"; }
      [ "$(stat -c %s "$k_part")" = "$k_size" ] || { echo cut; exit; }
      k_place "$k_part" "$@" || { k_status=$?; rm -f "$k_part"; exit "$k_status"; }
    ) >&3 2>&4 3>&- 4>&- 5<&- 8>&-
    k_status=$?
    k_long=0
  } 3>>"$k_file.o" 4>>"$k_file.e"
  k_leaves "$k_receipt" "$k_status"
  k_reply 0 "$k_status" "$k_file"
  k_flush
  rm -f "$k_own" "$k_own".* "$k_writer"
  exit
}

# k_kill GROUP SIGNAL: the whole process group, and what else lives in its session under groups of its own.
k_kill() {
  kill -s "$2" -- "-$1" 2>/dev/null
  for k_file in /proc/[0-9]*/stat; do
    { read -r k_line <"$k_file"; } 2>/dev/null || continue
    k_pid=${k_line%% *} k_line=${k_line##*) }
    set -- "$1" "$2" $k_line
    [ "$6" != "$1" ] || kill -s "$2" "$k_pid" 2>/dev/null
  done
}

# k_end GROUP: asks the group to end, and after two seconds makes it.
k_end() {
  k_kill "$1" TERM
  k_round=0
  while [ "$k_round" -lt 40 ] && kill -0 -- "-$1" 2>/dev/null; do
    sleep 0.05
    k_round=$((k_round + 1))
  done
  k_kill "$1" KILL
}

# k_begun NAME: what its receipt holds: k_claim (boot, uptime, limit, digest), k_pid and k_since of the command itself.
k_begun() {
  k_claim='' k_line='' k_pid='' k_since=''
  { read -r k_claim; read -r k_line; k_line=''; read -r k_line; } <"$k_dir/$1.begin"
  k_parse "$k_line"
}

# k_parse LINE: k_pid, k_mode, k_group and k_since (state, process group, start time) of a line from /proc/PID/stat.
k_parse() {
  k_pid=${1%% *} k_line=${1##*) }
  set -- $k_line
  k_mode=${1-} k_group=${3-} k_since=''
  [ "$#" -lt 20 ] || { shift 19; k_since=$1; }
}

# k_alive: whether the process of k_pid and k_since is still there, and no zombie.
k_alive() {
  [ -n "$k_since" ] && k_was=$k_since && k_id=$k_pid || return 1
  { read -r k_line <"/proc/$k_id/stat"; } 2>/dev/null || return 1
  k_parse "$k_line"
  [ "$k_since" = "$k_was" ] && [ "$k_mode" != Z ]
}

# k_receipts PREFIX: one line for each receipt: name, exit code or -, alive, ended (by kubexm) or gone, uptime now, claim.
k_receipts() {
  k_now
  for k_file in "$k_dir/$1"*.begin; do
    [ -e "$k_file" ] || continue
    k_name=${k_file##*/} k_name=${k_name%.begin} k_code='' k_life=gone
    k_begun "$k_name"
    if [ -z "$k_since" ]; then { read -r k_line; read -r k_line; } <"$k_file"; k_parse "$k_line"; fi
    if k_alive; then k_life=alive; elif [ -s "$k_dir/$k_name.end" ]; then k_life=ended; fi
    [ ! -e "$k_dir/$k_name.rc" ] || read -r k_code <"$k_dir/$k_name.rc"
    printf '%s %s %s %s %s\n' "$k_name" "${k_code:--}" "$k_life" "$k_uptime" "$k_claim"
  done
}

# k_forget PREFIX: removes the receipts of commands that have ended, many with one process; without a prefix all there is.
k_forget() {
  [ -n "$1" ] || rm -f "$k_dir"/fence.* "$k_dir/id"
  k_files='' k_round=0
  for k_file in "$k_dir/$1"*.begin; do
    k_file=${k_file%.begin}
    [ -e "$k_file.begin" ] || continue
    [ -e "$k_file.rc" ] || { k_begun "${k_file##*/}"; ! k_alive || continue; }
    k_files="$k_files $k_file.begin $k_file.o $k_file.e $k_file.p $k_file.q $k_file.rc $k_file.end" k_round=$((k_round + 1))
    [ "$k_round" -lt 100 ] || { rm -f $k_files; k_files='' k_round=0; }
  done
  [ -z "$k_files" ] || rm -f $k_files
  k_files=''
}

# k_end_receipt NAME: ends the command that left it, if it still runs. The mark comes before the look: a station that ends a
# command after it runs no other, so that the group is still the command's own when the signal arrives. The mark gets its
# content only if there was something to end: what failed by itself before that keeps its exit code.
k_end_receipt() {
  printf '' >>"$k_dir/$1.end"
  k_begun "$1"
  k_alive || return 0
  echo ended >"$k_dir/$1.end"
  k_end "$k_group"
}

# k_watch: beside the shell, ends what is overdue when nobody is there any more to do so, and clears away what is old.
k_watch() {
  [ -z "$k_watcher" ] || return 0
  (
    trap '' HUP TERM
    k_nap=''
    trap 'kill -KILL $k_nap; exit' USR1 # it does not nap on when the shell has ended
    exec </dev/null >/dev/null 2>&1 5<&- 8>&-
    k_cleared=''
    while sleep 3 & k_nap=$!; wait "$k_nap"; do
      if [ -z "$k_cleared" ]; then
        # Receipts with a name are kept long: who resumes a run takes a missing one for a command that never began.
        find "$k_dir" -maxdepth 1 -type f '(' -name '.*' -mtime +0 -o -name 'made-*' -mtime +0 -o -mtime +30 ')' \
          ! -name id -exec rm -f {} +
        k_cleared=1
      fi
      k_state='' k_begun='' k_limit=''
      read -r k_message k_state k_index k_begun k_limit <"$k_own.run"
      if [ -z "$k_state" ]; then
        [ -d "/proc/$$" ] || { rm -f "$k_own" "$k_own".*; exit; }
        continue
      fi
      k_now
      [ "$k_up" -gt $((${k_begun%.*} + k_limit + 5)) ] || continue
      case $k_state in
        r) set -- $k_stat; k_group=$5 ;;
        c) k_group='' ;;
      esac
      printf '' >"$k_own.run"
      if [ -n "$k_group" ]; then k_end "$k_group"; else k_end_receipt "$k_index"; fi
    done
  ) &
  k_watcher=$!
}
k_watcher=''
trap '[ -z "$k_watcher" ] || kill -USR1 "$k_watcher" 2>/dev/null; k_tidy "$k_own".*; [ -e "$k_dir/id" ] || rmdir "$k_dir" 2>/dev/null' EXIT
# Nobody listens any more: dash would end without a word to its watcher, which then waits for what is long over.
trap 'exit 141' PIPE
k_store=''
# The store's id appears whole: another shell that starts right now must not find it empty.
[ -O "$k_dir" ] && [ ! -L "$k_dir" ] && {
  [ -s "$k_dir/id" ] || { printf '%s\n' "$k_mark" >"$k_own.id" && { ln "$k_own.id" "$k_dir/id"; rm -f "$k_own.id"; }; }
  read -r k_store <"$k_dir/id"
} 2>/dev/null
# k_lacks: the programs that changes need and that are missing, or lack options used above, as BusyBox's do. A plain file is the
# real program; a link or a builtin is tried.
k_lacks='' k_line=$(for k_name in setsid timeout tail; do command -v "$k_name" || echo -; done)
for k_file in $k_line; do [ -f "$k_file" ] && [ ! -L "$k_file" ] || k_lacks=maybe; done
[ -z "$k_lacks" ] || {
  k_lacks=''
  setsid -w true || k_lacks=$k_lacks,setsid
  timeout -k 1 --preserve-status 5 true || k_lacks=$k_lacks,timeout
  tail -s 0.01 --pid=2147483647 -c +1 -f /dev/null || k_lacks=$k_lacks,tail
} </dev/null >/dev/null 2>&1
k_say hello "$k_euid" "$k_dir" "${k_store:--}" "$k_boot" "${k_lacks:--}" "$k_stat"
