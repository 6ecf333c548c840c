#!/bin/sh
# time limit: 240 s
# Every launch mode prints ONE table with the right number of ranks and verified rows: threads,
# devices, mixes of both, spawned processes, mpirun, the variables of torchrun; and refuses to
# run as several lonely worlds under a launcher.
. "$(dirname "$0")/lib.sh"
sizes='-b 8 -e 64K -f 16'
rows=4

# mode NAME RANKS ARGUMENT...: all_reduce and one driver with a root, in one process tree.
mode() {
    mode_name=$1 ranks=$2
    shift 2
    for collective in all_reduce broadcast alltoall; do
        begin "$mode_name: $collective"
        perf $collective $sizes "$@"
        want_code 0
        want_table "$ranks" $rows
        want_not_err '.'
        end
    done
}

mode '-g 1' 1 -g 1
mode '-g 8' 8 -g 8
mode '-g 16 on 8 devices' 16 -g 16
mode '-t 8' 8 -t 8
mode '-t 8 -p 1' 8 -t 8 -p 1
mode '-t 2 -g 4' 8 -t 2 -g 4
mode '-t 2 -g 4 -p 1' 8 -t 2 -g 4 -p 1
mode '-g 4 --init thread' 4 -g 4 --init thread
mode '--spawn 4' 4 --spawn 4
mode '--spawn 2 -t 2 -g 2' 8 --spawn 2 -t 2 -g 2
mode '--spawn 1' 1 --spawn 1

begin '-t 8: the header says that each rank has its device'
perf all_reduce $sizes -t 8
want_out '^#  Rank  7 Group  0 Pid +[0-9]+ on +[^ ]+ device  7 \[host:07\]'
want_out '^# nThread 8 nGpus 1 minBytes 8 maxBytes 65536 step: 16\(factor\)'
end

begin '-g 8: the header names the init call, -t 8 another one'
perf all_reduce $sizes -g 8
want_out 'ncclCommInitAll'
perf all_reduce $sizes -t 8
want_out 'ncclCommInitRank'
end

# Whose thread makes the communicators is seen by a library in between.
if has gcc; then
    cat >"$tmp/who.c" <<'END'
#define _GNU_SOURCE
#include "nccl.h"
#include <stdio.h>
#include <unistd.h>
#define WRAP __attribute__((visibility("default")))
static void tell(const char *call)
{
    fprintf(stderr, "%s by the %s thread\n", call, gettid() == getpid() ? "main" : "own");
}
WRAP ncclResult_t ncclCommInitAll(ncclComm_t *comms, int n, const int *devices)
{
    tell("ncclCommInitAll");
    return pncclCommInitAll(comms, n, devices);
}
WRAP ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id, int rank)
{
    tell("ncclCommInitRank");
    return pncclCommInitRank(comm, n, id, rank);
}
END
    gcc -shared -fPIC -Isrc/lib -o "$tmp/who.so" "$tmp/who.c" 2>"$err"
    for row in '-g 4|ncclCommInitAll by the main|1' '-t 4|ncclCommInitRank by the main|4' \
        '-g 4 -p 1|ncclCommInitRank by the own|4' '-t 2 -g 2 -p 1|ncclCommInitRank by the own|4'; do
        flags=${row%%|*} told=${row#*|}
        begin "$flags: ${told%|*} thread"
        LD_PRELOAD=$tmp/who.so perf all_reduce $sizes $flags
        want_code 0
        want "$(grep -c "^${told%|*} thread" "$err") calls" \
            [ "$(grep -c "^${told%|*} thread" "$err")" -eq "${told#*|}" ]
        want 'other calls too' [ "$(grep -c ' thread$' "$err")" -eq "${told#*|}" ]
        end
    done
    rm -f "$tmp/who.so"
else
    skip 'the thread that makes the communicators' 'no gcc'
fi

# ---- mpirun ----

mpi_mode() { # NAME RANKS PROCESSES ARGUMENT...
    mode_name=$1 ranks=$2 procs=$3
    shift 3
    for collective in all_reduce sendrecv; do
        if ! has_mpi; then
            skip "$mode_name: $collective" 'no mpirun or no chorus_mpi.so'
            continue
        fi
        begin "$mode_name: $collective"
        run 120 $mpi -np "$procs" "$(driver $collective)" -n 2 -w 1 $sizes "$@"
        want_code 0
        want_table "$ranks" $rows
        end
    done
}

mpi_mode 'mpirun -np 4' 4 4
mpi_mode 'mpirun -np 2 -t 2 -g 2' 8 2 -t 2 -g 2
mpi_mode 'mpirun -np 1 -g 4' 4 1 -g 4
mpi_mode 'mpirun -np 2 --init mpi' 2 2 --init mpi

if has_mpi; then
    begin 'mpirun -np 2 --init all: an error that names the variable'
    run 60 $mpi -np 2 "$(driver all_reduce)" $sizes --init all
    want_code 3
    want_err 'OMPI_COMM_WORLD_SIZE'
    want_not_out '^ *[0-9]+ +[0-9]+ +float'
    end
    begin 'mpirun without the plugin: exit 3 and how to build it'
    mkdir -p "$tmp/alone"
    cp "$(driver all_reduce)" "$BUILDDIR/libnccl.so.2" "$tmp/alone/"
    run 60 $mpi -np 2 "$tmp/alone/all_reduce_perf" $sizes
    want_code 3
    want_err 'chorus_mpi.so'
    want_err 'mpicc|MPI=1|make'
    end
else
    skip 'mpirun -np 2 --init all: an error that names the variable' 'no mpirun'
    skip 'mpirun without the plugin: exit 3 and how to build it' 'no mpirun'
fi

# ---- the variables of torchrun ----

# torchrun WORLD ARGUMENT...: WORLD background shells; the outputs are joined in $out and $err.
torchrun() {
    world=$1
    shift
    free_port
    codes='' pids=''
    for rank in $(seq 0 $((world - 1))); do
        RANK=$rank WORLD_SIZE=$world MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            timeout -k 5 100 "$(driver all_reduce)" -n 2 -w 1 $sizes "$@" \
            >"$tmp/out.$rank" 2>"$tmp/err.$rank" </dev/null &
        pids="$pids $!"
    done
    code=0
    for pid in $pids; do
        wait "$pid"
        codes="$codes $?"
    done
    for one in $codes; do [ "$one" -eq 0 ] || code=$one; done
    cat "$tmp"/out.[0-9]* >"$out"
    cat "$tmp"/err.[0-9]* >"$err"
    rm -f "$tmp"/out.[0-9]* "$tmp"/err.[0-9]*
}

torch_mode() { # NAME WORLD RANKS ARGUMENT...
    begin "$1"
    world=$2 ranks=$3
    shift 3
    torchrun "$world" "$@"
    want "exit codes$codes" [ "$code" -eq 0 ]
    want_table "$ranks" $rows
    end
}

torch_mode 'torchrun variables, 2 processes' 2 2
torch_mode 'torchrun variables, 4 processes' 4 4
torch_mode 'torchrun variables, 2 processes -t 2 -g 2' 2 8 -t 2 -g 2

begin 'torchrun variables, one process: a world of one with -g 4'
RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 perf all_reduce $sizes -g 4
want_code 0
want_table 4 $rows
end

# disagree SETTING HERE THERE PATTERN: process 0 and process 1 run what the two words say, options
# or a variable; the message names the setting, and both values.
disagree() {
    begin "processes that differ in $1: exit 3 naming it and both values"
    free_port
    world="WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port"
    case $2$3 in
    *=*) first_env=$2 first='' second_env=$3 second='' ;;
    *) first_env='' first=$2 second_env='' second=$3 ;;
    esac
    env $world RANK=0 $first_env timeout 60 "$(driver all_reduce)" -n 2 -b 8 -e 8 $first \
        >"$tmp/first" 2>&1 </dev/null &
    pid=$!
    run 60 env $world RANK=1 $second_env "$(driver all_reduce)" -n 2 -b 8 -e 8 $second
    other=$code
    wait $pid
    code=$?
    cat "$tmp/first" >>"$err"
    want_code 3
    want "the other process ended with $other, not 3" [ "$other" -eq 3 ]
    want_err "process 1 .*process 0: $4 in process 0"
    end
}

disagree -e '-e 16' '-e 32' '-e \(--maxbytes\) is 32 there and 16'
disagree -u '' '-u 1' '-u \(--unalign\) is 1 there and 0'
disagree --exact --exact '' '--exact is 0 there and 1'
disagree -a '-a 0' '-a 3' '-a \(--average\) is 3 there and 0'
disagree -R '' '-R 1' '-R \(--local_register\) is 1 there and 0'
disagree -y '' '-y 1' '-y \(--stream_null\) is 1 there and 0'
disagree -x '' '-x 2' '-x \(--cta_policy\) is 2 there and -1'
disagree -I '-I 1' '' '-I \(--per_iter_timing\) is 0 there and 1'
disagree -C '-C 1' '' '-C \(--report_cputime\) is 0 there and 1'
disagree -d '-d half' '-d int8' '-d \(--datatype\) is int8 there and half'
disagree -o '-o all' '-o max' '-o \(--op\) is max there and all'
disagree NCCL_TESTS_SPLIT NCCL_TESTS_SPLIT=MOD2 '' 'NCCL_TESTS_SPLIT is not set there and MOD2'
disagree NCCL_TESTS_SPLIT_MASK NCCL_TESTS_SPLIT_MASK=1 NCCL_TESTS_SPLIT_MASK=2 \
    'NCCL_TESTS_SPLIT_MASK is 2 there and 1'
disagree NCCL_TESTS_DEVICE NCCL_TESTS_DEVICE=1 NCCL_TESTS_DEVICE=2 \
    'NCCL_TESTS_DEVICE is 2 there and 1'

begin 'processes may differ in what only one of them uses: -J, -S, -T'
free_port
world="WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port"
env $world RANK=1 timeout 60 "$(driver all_reduce)" -n 2 $sizes -T 50 \
    >"$tmp/second" 2>&1 </dev/null &
pid=$!
run 60 env $world RANK=0 "$(driver all_reduce)" -n 2 $sizes -S 1 -J "$tmp/one.json"
want_code 0
wait $pid
want 'the other process failed' [ $? -eq 0 ]
end

# ---- a launcher around a world of one ----

for variable in OMPI_COMM_WORLD_SIZE PMI_SIZE SLURM_STEP_NUM_TASKS; do
    for extra in '--init all' '--init thread' '--init all -g 4'; do
        begin "$variable=2 $extra: an error that names the variable"
        run 60 env $variable=2 "$(driver all_reduce)" $sizes $extra
        want_code 3
        want_err "$variable"
        want_not_out '^ *[0-9]+ +[0-9]+ +float'
        end
    done
    begin "$variable=1: a world of one is fine"
    run 60 env $variable=1 "$(driver all_reduce)" $sizes -g 2
    want_code 0
    want_table 2 $rows
    end
done

for setting in SLURM_NTASKS=4 WORLD_SIZE=4 'RANK=1 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1'; do
    begin "$setting alone means no launcher"
    run 60 env $setting "$(driver all_reduce)" $sizes -g 2
    want_code 0
    want_table 2 $rows
    end
done

for bad in 'RANK=2 WORLD_SIZE=2' 'RANK=-1 WORLD_SIZE=2' 'RANK=x WORLD_SIZE=2' \
    'RANK=0 WORLD_SIZE=0' 'RANK=0 WORLD_SIZE=two'; do
    begin "torchrun variables $bad: refused by name"
    run 60 env $bad MASTER_ADDR=127.0.0.1 MASTER_PORT=29999 "$(driver all_reduce)" $sizes
    want "exit code $code, not 2 or 3" [ "$code" -eq 2 -o "$code" -eq 3 ]
    want_err 'RANK|WORLD_SIZE'
    end
done

begin 'torchrun variables with a port that is no port: refused by name'
run 60 env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=99999 "$(driver all_reduce)"
want "exit code $code, not 2 or 3" [ "$code" -eq 2 -o "$code" -eq 3 ]
want_err 'MASTER_PORT'
end

begin 'torchrun variables with a missing process: exit 4 naming it'
free_port
run 60 env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    "$(driver all_reduce)" $sizes -T 3
want_code 4
want_err 'process 1|rank 1|processes 1|ranks 1'
end

finish
