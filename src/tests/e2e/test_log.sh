#!/bin/sh
# What NCCL_DEBUG=INFO says: of a new communicator, of calls by each subsystem, in files, with
# times; nothing on stdout, and no line of a subsystem that was not asked for.
. "$(dirname "$0")/lib.sh"
comm='comm 0x[0-9a-f]+'

logged() { # LEVEL SUBSYSTEMS DRIVER ARGUMENT...: one call each, no warm-up
    level=$1 subsystems=$2 name=$3
    shift 3
    NCCL_DEBUG=$level NCCL_DEBUG_SUBSYS=$subsystems \
        run 120 "$(driver "$name")" -b 8 -e 8 -n 1 -w 0 "$@"
    want_code 0
    want_not_out ' CHORUS [A-Z]+ '
}

# want_lines NUMBER PATTERN: so many lines of the log.
want_lines() {
    lines=$(grep -c -E -e "$2" "$err")
    [ "$lines" -eq "$1" ] || complain "$lines lines have /$2/, not $1"
}

# ---- a new communicator ----

begin 'INFO tells of a communicator once: devices, processes, executors, links, algorithms'
NCCL_ALGO=^tree NCCL_DEBUG=INFO perf all_reduce -b 8 -e 8 -g 3
want_code 0
want_lines 1 ' CHORUS VERSION NCCL version [0-9.]+\+cuda'
for rank in 0 1 2; do
    device="device $rank \\(host device $rank, host:0$rank\\)"
    want_lines 1 "ncclCommInitAll: $comm: rank $rank of 3 on $device, 3 executors, 1 processes"
    want_lines 1 "$comm: executor $rank is device $rank of rank $rank, .* ranks $rank\$"
done
want_lines 1 'comm 0x[0-9a-f]+: 8 host devices in the process of rank 0'
want_lines 1 'comm 0x[0-9a-f]+: process 0 is [0-9]+ on host [^ ]+: ranks 0,1,2$'
want_lines 1 'memory of the process: [0-9]+ channels of connections, 4 slots of 131072 bytes'
want_lines 1 'allowed for AllReduce: .*ring/Simple ring/LL'
want_not_err 'allowed for .*tree'
want_not_err 'ncclAllReduce'
end

begin 'INFO with several processes: each once, by rank 0'
NCCL_PROTO=LL NCCL_DEBUG=INFO perf all_reduce -b 8 -e 8 --spawn 2 -g 2
want_code 0
want_lines 1 ' CHORUS VERSION '
want_lines 4 "ncclCommInit[A-Za-z]*: $comm: rank [0-3] of 4 on device"
want_lines 1 'process 0 is [0-9]+ on host [^ ]+: ranks 0,1$'
want_lines 1 'process 1 is [0-9]+ on host [^ ]+: ranks 2,3$'
want_lines 1 'reached by shared memory'
want_lines 1 'allowed for AllReduce: .*ring/LL'
want_lines 1 'allowed for AlltoAll, Gather, Scatter: pairwise$'
want_not_err 'allowed for .*/Simple'
end

begin 'ranks of one device: one executor'
CHORUS_HOST_DEVICES=1 logged INFO INIT all_reduce -g 4
want_lines 1 'executor 0 is device 0 of rank 0, which leads it: ranks 0,1,2,3'
want_lines 1 'reached by nothing, one device has all ranks' # the links of one executor
end

# ---- subsystems ----

# of SUBSYSTEM PATTERN KIND DRIVER ARGUMENT...: some line has the pattern, and all lines of INFO are
# of the kind.
of() {
    subsystem=$1 pattern=$2 kind=$3
    shift 3
    begin "$subsystem: $pattern"
    logged INFO "$subsystem" "$@"
    want_err " CHORUS INFO .*$pattern"
    grep ' CHORUS INFO ' "$err" | grep -v -E -e " CHORUS INFO ($kind)" >"$tmp/strange"
    [ ! -s "$tmp/strange" ] || complain "other lines: $(head -n 1 "$tmp/strange")"
    end
}
of INIT 'rank 1 of 2 on device 1' 'ncclCommInit|comm ' all_reduce -g 2
of GRAPH 'executor 1 is device 1' 'comm .*: (process|executor|reached)' all_reduce -g 2
buffers='stream 0x[0-9a-f]+ in 0x[0-9a-f]+ out 0x[0-9a-f]+$'
of COLL "ncclAllReduce: $comm rank 1 of 2: count 2 datatype float32 op sum root - $buffers" \
    'ncclAllReduce: ' all_reduce -g 2
of COLL 'count 8 datatype int8 op max root 1 ' 'ncclReduce: ' reduce -g 2 -o max -d int8 -r 1
of COLL 'datatype float16 op - root 0 ' 'ncclBroadcast: ' broadcast -g 2 -d half
of COLL 'ncclSend: .* op - to 1 stream' 'nccl(Send|Recv): ' sendrecv -g 2
of COLL 'ncclRecv: .* op - from 1 stream' 'nccl(Send|Recv): ' sendrecv -g 2
how='[a-z]+ (-|Simple|LL) on 1 channels, [0-9.]+ us by the model'
where='executor 1, ranks 1, led by rank 1'
of TUNING "ncclAllReduce: $comm #0: 8 bytes: $how; $where: 1 call alone" \
    'ncclAllReduce: |comm .*: allowed' all_reduce -g 2
of CALL 'ncclGroupEnd' 'nccl' all_reduce -g 2
of SHM 'executor 0 to executor 1, channel 0, [A-Za-z0-9]+: the sender.s end, by shm' \
    'comm .*: reached|executor|rank' all_reduce --spawn 2
of ALLOC_HOST 'shared segment of [0-9]+ bytes' 'shared' all_reduce --spawn 2
of BOOTSTRAP 'root of a session of 2 ranks ends' '[a-z]' all_reduce -g 2
of DESTROY 'comm 0x[0-9a-f]+: rank 1 of 2 ends' 'comm .* ends' all_reduce -g 2
of REG 'ncclCommRegister: rank 1: [0-9]+ bytes at 0x' 'ncclComm(Register|Deregister)' \
    all_reduce -g 2 --local_register 1

of ALLOC 'ncclMemAlloc: [0-9]+ bytes at 0x' 'ncclMem(Alloc|Free)' \
    all_reduce -g 2 --local_register 1

begin 'P2P: connections inside a process'
NCCL_ALGO=ring logged INFO P2P all_reduce -g 2
want_err 'executor 0 to executor 1, channel 0, [A-Za-z0-9]+: the sender.s end, by p2p'
end

begin 'TUNING: a protocol and channels that were asked for are those that ran'
NCCL_ALGO=ring NCCL_PROTO=LL logged INFO TUNING all_reduce -g 3
want_err 'ncclAllReduce: .*: ring LL on 1 channels, '
want_not_err 'ncclAllReduce: .*: (direct|tree|oneshot|twoshot) '
end

begin 'TUNING: how the calls of one device came together'
CHORUS_HOST_DEVICES=1 logged INFO TUNING all_reduce -g 4
want_err 'executor 0, ranks 0,1,2,3, led by rank 0: 4 calls joined by events$'
end

begin 'COLL: a line for each rank and call, also where it becomes messages'
logged INFO COLL,TUNING alltoall --spawn 2
want_err 'ncclAlltoAll: comm 0x[0-9a-f]+ rank 0: 32 bytes: pairwise, [0-9.]+ us by the model$'
calls=$(grep -c -E 'ncclAlltoAll: comm .* rank 0 of 2: count 4 ' "$err")
want 'no calls' [ "$calls" -gt 0 ]
want_lines "$calls" 'ncclAlltoAll: comm .* rank 1 of 2: count 4 '
want_lines $((2 * calls)) 'ncclAlltoAll: .* pairwise, '
want_not_err 'nccl(Send|Recv)'
end

begin 'several subsystems, inverted ones, WARN alone'
logged INFO coll,Destroy all_reduce -g 2
want_err 'ncclAllReduce: comm'
want_err 'rank 0 of 2 ends'
want_not_err 'rank 0 of 2 on device'
logged INFO ^COLL,CALL all_reduce -g 2
want_err 'ncclAllReduce: .* us by the model'
want_not_err 'ncclAllReduce: comm 0x[0-9a-f]+ rank'
want_not_err 'ncclGroup'
logged WARN ALL all_reduce -g 2
want_lines 0 ' CHORUS INFO '
want_lines 1 ' CHORUS VERSION '
logged '' ALL all_reduce -g 2
want_lines 0 ' CHORUS '
end

# ---- files and times ----

begin 'NCCL_DEBUG_FILE: a file for each process'
NCCL_DEBUG_FILE="$tmp/log.%h.%p.5%%" logged INFO INIT,COLL all_reduce --spawn 2
want_not_err ' CHORUS '
files=0
for file in "$tmp"/log.*; do
    case $file in "$tmp/log.$(uname -n)."*.5%) ;; *) complain "a file is called $file" ;; esac
    pid=${file#"$tmp/log.$(uname -n)."}
    pid=${pid%.5%}
    want "strange lines in $file" sh -c "! grep -v -q -e '^[^:]*:$pid:[0-9]* CHORUS ' '$file'"
    grep -q -E 'ncclAllReduce: comm .* rank [01] of 2' "$file" && files=$((files + 1))
done
want "$files files have calls" [ "$files" -eq 2 ]
end

begin 'NCCL_DEBUG_FILE: one file for all'
NCCL_DEBUG_FILE="$tmp/common" logged INFO COLL all_reduce --spawn 2
for rank in 0 1; do
    want "no call of rank $rank" grep -q -E "ncclAllReduce: comm .* rank $rank of 2" "$tmp/common"
done
end

begin 'NCCL_DEBUG_FILE that cannot be made: a warning, and stderr'
NCCL_DEBUG_FILE="$tmp/nowhere/log" logged INFO INIT all_reduce -g 2
want_err 'NCCL_DEBUG_FILE=.*/nowhere/log: No such file'
want_err 'rank 0 of 2 on device'
end

begin 'times before lines of the levels that have them'
NCCL_DEBUG_TIMESTAMP_FORMAT='{at}' NCCL_DEBUG_TIMESTAMP_LEVELS=INFO \
    logged INFO INIT all_reduce -g 2
want_lines 0 '^[^{].* CHORUS INFO '
want_err '^\{at\} [^ ]+:[0-9]+:[0-9]+ CHORUS INFO '
want_lines 1 '^[^{].* CHORUS VERSION '
CHORUS_SLOT_BYTES=1 logged WARN INIT all_reduce -g 2
day='20[0-9]{2}-[01][0-9]-[0-3][0-9]' hour='[0-2][0-9]:[0-5][0-9]:[0-6][0-9]'
want_err "^\\[$day $hour\\] [^ ]+ CHORUS WARN .*CHORUS_SLOT_BYTES"
end
finish
