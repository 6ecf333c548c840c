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

begin 'processes that run different sizes: exit 3 naming the process'
free_port
RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    timeout 60 "$(driver all_reduce)" -b 8 -e 8 >"$tmp/first" 2>&1 </dev/null &
pid=$!
RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port perf all_reduce -b 8 -e 16
other=$code
wait $pid
code=$?
cat "$tmp/first" >>"$err"
want_code 3
want "the other process ended with $other, not 3" [ "$other" -eq 3 ]
want_err 'process 1'
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
