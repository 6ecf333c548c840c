#!/bin/sh
# time limit: 120 s
# -J: never overwrites, is valid for a real parser in every ending, keeps upstream's keys, and
# says the same as the table. Endings by signals are in test_kill.sh.
. "$(dirname "$0")/lib.sh"
json=$tmp/j.json

fresh() { rm -f "$tmp"/j.json*; }

if ! has_json_parser; then
    skip 'JSON' 'neither jq nor python3'
    finish
fi

# query EXPRESSION(jq) EXPECTED: only where jq is.
query() {
    has jq || return
    seen=$(jq -r "$1" "$json" 2>/dev/null)
    want "$1 is $seen, not $2" [ "$seen" = "$2" ]
}

fresh
begin '-J: valid, and its name on stderr'
perf all_reduce -b 8 -e 1K -f 4 -g 4 -J "$json"
want_code 0
want_err "j\.json"
want 'not valid' valid_json "$json"
query .schema_version 2
query .status passed
query .error null
query '.results | length' 4
query .nranks 4
query '.config | type' object
query '.env | type' array
query '.args | type != "null"' true
query '.results[0].size' 8
query '.results[0].count' 2
query '.results[0].type' float
query '.results[0].redop' sum
query '.results[0].root' -1
query '.results[0].out_of_place.nwrong' 0
query '.results[0].in_place.nwrong' 0
query '.results[0].out_of_place.time | type' number
query '.results[0].out_of_place.alg_bw | type' number
query '.results[0].in_place.bus_bw | type' number
query '.average_bus_bandwidth | type != "null"' true
query '[.version, .start_time, .end_time, .nccl_version] | map(. != null) | all' true
query 'has("out_of_bounds") and has("errors")' true
end

begin '-J: the same numbers as the table'
if has jq; then
    jq -r '.results[] | [.size, .count, .type, .redop, .root] | map(tostring) | join(" ")' "$json" \
        >"$tmp/json.rows"
    awk '/^ *[0-9]+ / {print $1, $2, $3, $4, $5}' "$out" >"$tmp/table.rows"
    want 'rows differ' cmp -s "$tmp/json.rows" "$tmp/table.rows"
fi
end

begin '-J: an existing file is left alone; the next free name is taken and said'
cp "$json" "$tmp/kept"
perf all_reduce -b 8 -e 8 -g 2 -J "$json"
want_code 0
want_err 'j\.json\.0'
perf all_reduce -b 8 -e 8 -g 2 -J "$json"
want_err 'j\.json\.1'
want 'the first file has changed' cmp -s "$json" "$tmp/kept"
want '.0 is not valid' valid_json "$json.0"
want '.1 is not valid' valid_json "$json.1"
end

begin '-J: a symbolic link to nowhere is not followed over a file'
fresh
ln -s "$tmp/target" "$json"
perf all_reduce -b 8 -e 8 -g 2 -J "$json"
want_code 0
want 'the link was followed' [ ! -e "$tmp/target" ]
end

begin '-J: a folder that is not there: exit 3 naming the file, no table'
perf all_reduce -b 8 -e 8 -g 2 -J "$tmp/no/such/folder.json"
want_code 3
want_err 'no/such/folder\.json'
want_not_out '^ *8 '
end

# A limit on the size of files does what a full disk does: a write in mid-run fails. The table goes
# into a pipe, which has no such limit.
begin '-J: a full disk in mid-run: exit 3 naming the file, which stays valid'
fresh
sh -c 'trap "" XFSZ; ulimit -f 20; "$@" 2>"$0"; echo "code $?"' "$err" \
    "$(driver all_reduce)" -b 8 -e 64K -f 2 -n 2 -N 5 -g 2 -J "$json" </dev/null | cat >"$out"
want_out '^code 3$'
want_err "^all_reduce_perf: option -J: cannot write $json"
want_out '^ +8 '
want 'not valid' valid_json "$json"
query .status running
query '.results | length > 3' true
end

begin '-J: env holds only the variables of libraries and launchers, and no secrets of theirs'
fresh
SECRET_TOKEN=hunter2 SLURM_JWT=hunter2 OMPI_MCA_Some_Password=hunter2 FI_OPX_key=hunter2 \
    NCCL_SECRETS=hunter2 UCX_Token=hunter2 NCCL_DEBUG=WARN CHORUS_HOST_QUEUES=2 UCX_TLS=tcp \
    perf all_reduce -b 8 -e 8 -g 2 -J "$json"
want_code 0
want 'not valid' valid_json "$json"
want 'it holds a secret' sh -c "! grep -q hunter2 '$json'"
query '.env | contains(["NCCL_DEBUG=WARN", "CHORUS_HOST_QUEUES=2", "UCX_TLS=tcp"])' true
query '.env | map(test("^(NCCL|CHORUS|CUDA|OMPI|SLURM|UCX|FI)_[A-Za-z0-9_]*=")) | all' true
end

begin '-J: nasty text in the environment and in the name stays valid'
rm -rf "$tmp/nasty"
mkdir "$tmp/nasty"
nasty=$(printf '%s/nasty/a"b\\c\td\001e\344.json' "$tmp")
NCCL_COMM_NAME=$(printf 'quote" back\\ tab\t ctl\002 bad\377 \360\237\230\200') \
    perf all_reduce -b 8 -e 8 -g 2 -J "$nasty"
want_code 0
want 'not valid' valid_json "$nasty"
end

for mode in '-t 3' '--spawn 3' '-t 2 -g 2'; do
    begin "-J with $mode: one file, valid"
    fresh
    perf broadcast -b 8 -e 64 -f 2 -r all $mode -J "$json"
    want_code 0
    want 'not valid' valid_json "$json"
    want 'a second file' [ ! -e "$json.0" ]
    query .status passed
    end
done
if has_mpi; then
    begin '-J with mpirun -np 3: one file, valid'
    fresh
    run 60 $mpi -np 3 "$(driver all_reduce)" -b 8 -e 64 -f 2 -n 2 -J "$json"
    want_code 0
    want 'not valid' valid_json "$json"
    want 'a second file' [ ! -e "$json.0" ]
    query '.env | map(test("^OMPI_COMM_WORLD_SIZE=3")) | any' true
    end
else
    skip '-J with mpirun -np 3: one file, valid' 'no mpirun'
fi

begin '-J: what has no in-place form has null there'
fresh
perf alltoall -b 1K -e 1K -g 2 -J "$json"
want_code 0
query '.results[0].in_place' null
end

printf '0 100 0\n7 0 300\n1000 0 64\n' >"$tmp/matrix"
begin '-J: what alltoallv sums up is no mismatch'
fresh
NCCL_TESTS_ALLTOALLV_MATRIX_FILE=$tmp/matrix NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY=1 \
    perf alltoallv -b 1K -e 1K -g 3 -J "$json"
want_code 0
query '.mismatches | length' 0
query '.summary | length' 3
query '.summary[2] | test("^rank  2 send_bytes +[0-9]+ recv_bytes +[0-9]+ ")' true
query .summary_left_out 0
end

if [ -e "$BUILDDIR/tests/wrap_faults.so" ]; then
    begin '-J: mismatches are told apart from sums'
    fresh
    WRAP_FAULT=drop LD_PRELOAD=$BUILDDIR/tests/wrap_faults.so \
        NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY=1 perf alltoallv -b 1K -e 1K -g 3 -J "$json"
    want_code 1
    query '.mismatches | length' 1
    query '.mismatches[0] | test("rank [0-9]+: .*index")' true
    query '.summary | length' 3
    end
else
    skip '-J: mismatches are told apart from sums' 'no wrap_faults.so in this build'
fi

begin '-J: the factor of busbw is the group'"'"'s, null for a group of one'
fresh
NCCL_TESTS_SPLIT=MOD2 perf all_reduce -b 8 -e 8 -g 4 -J "$json"
query .nranks 4
query .group_size 2
query .bus_factor 1
fresh
NCCL_TESTS_SPLIT=DIV1 perf all_reduce -b 8 -e 8 -g 4 -J "$json"
query .group_size 1
query .bus_factor null
query '.results[0].out_of_place.bus_bw' null
end

begin '-J: the largest size that fits, and a run of which nothing does'
fresh
perf all_reduce -b 8M -e 4T -f 524288 -g 2 -J "$json"
want_code 0
query .maximum_bytes_that_fit 8388608
fresh
perf all_reduce -b 4T -e 4T -g 2 -J "$json"
want_code 3
query .maximum_bytes_that_fit 0
query .status error
query .out_of_bounds.okay false
query '.error | test("no row fits")' true
end

begin '-J: one rank has no bus bandwidth, as null or N/A and not 0'
fresh
perf all_reduce -b 8 -e 8 -J "$json"
want_code 0
want 'not valid' valid_json "$json"
query '.average_bus_bandwidth | type != "number"' true
end

begin '-J: -c 0 has no count of wrong elements'
fresh
perf all_reduce -b 8 -e 8 -g 2 -c 0 -J "$json"
query '.results[0].out_of_place.nwrong | type != "number"' true
end

begin '-J: -I and -K'
fresh
perf all_reduce -b 8 -e 64 -f 2 -g 2 -I 1 -n 5 -K 1 -J "$json"
want_code 0
want 'not valid' valid_json "$json"
end

begin '-J: not made when an option is refused'
fresh
perf all_reduce -b 8 -e 8 -d flaot -J "$json"
want_code 2
want 'a file is there' [ ! -e "$json" ]
end

begin '-J: valid in another locale'
fresh
comma=$(locale -a 2>/dev/null | grep -i -E '^(de|fr|it|es|nl)_' | head -1)
LC_ALL=${comma:-de_DE.UTF-8} perf all_reduce -b 8 -e 8 -g 2 -J "$json"
want 'not valid' valid_json "$json"
end

finish
