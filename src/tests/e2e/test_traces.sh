#!/bin/sh
# time limit: 200 s
# What killed jobs leave behind: 20 runs that end by SIGKILL, SIGTERM or SIGINT of one process or
# of all in the middle of a collective leave no file in /dev/shm, /tmp or the folder for temporary
# files, no System V memory and no process.
. "$(dirname "$0")/lib.sh"
mkdir "$tmp/scratch"
# A background job of a shell ignores SIGINT unless told otherwise.
listen='env --default-signal=INT'
$listen true 2>/dev/null || listen=''

# Names that belong to this library, or to one of the processes.
traces() { # PID...
    pattern=chorus-driver
    for one in "$@"; do pattern="$pattern|$one"; done
    ls /dev/shm 2>/dev/null | grep -i -E 'chorus|nccl' | sed 's|^|/dev/shm/|'
    # Random names of others hold digits too.
    ls /tmp 2>/dev/null | grep -vE '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-' |
        grep -E "(^|[^0-9])($pattern)([^0-9]|\$)" | sed 's|^|/tmp/|'
    ls -A "$tmp/scratch" | sed 's|^|scratch/|'
    awk -v pids=" $* " 'NR > 1 && index(pids, " " $5 " ") {print "memory " $2}' /proc/sysvipc/shm \
        2>/dev/null
}
rank_pids() { awk '/^# *Rank +[0-9]+ / {print $7}' "$out" | sort -u; }
rows_seen() { [ "$(awk '/^ +[0-9]+ / {n++} END {print n + 0}' "$out")" -ge 1 ]; }
is_gone() {
    state=$(awk '{sub(/^.*\) /, ""); print $1}' "/proc/$1/stat" 2>/dev/null)
    [ -z "$state" ] || [ "$state" = Z ]
}
all_gone() { for one in "$@"; do is_gone "$one" || return 1; done; }

round=0
while [ $round -lt 20 ]; do
    round=$((round + 1))
    case $((round % 4)) in
    0) signal=${listen:+INT} who=all ;;
    1) signal=KILL who=one ;;
    2) signal=KILL who=all ;;
    3) signal=TERM who=one ;;
    esac
    : "${signal:=TERM}"
    set -- all_reduce alltoall broadcast reduce_scatter sendrecv
    shift $((round % 5))
    begin "$round: SIG$signal of $who in $1 leaves nothing"
    : >"$out"
    TMPDIR=$tmp/scratch timeout -k 5 60 $listen "$(driver "$1")" -b 1K -e 64K \
        -f 4 -N 0 -n 50 --spawn 3 >"$out" 2>"$err" </dev/null &
    runner=$!
    want 'no row within 30 s' poll 30 rows_seen
    pids=$(rank_pids)
    want 'no processes in the header' [ -n "$pids" ]
    set -- $pids
    [ $who = all ] || set -- "$1"
    kill -$signal "$@" 2>/dev/null
    wait $runner
    want "left processes of $pids" poll 10 all_gone $pids
    left=$(traces $pids)
    want "left $left" [ -z "$left" ]
    end
done
finish
