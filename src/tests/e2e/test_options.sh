#!/bin/sh
# time limit: 200 s
# Accepted options: sizes and suffixes, series, modes of timing, registration, streams, splits,
# devices; each runs verified and shows in the table what was asked for.
. "$(dirname "$0")/lib.sh"

# The size column, joined by commas.
sizes_shown() { awk '/^ +[0-9]+ / {printf "%s%s", sep, $1; sep = ","}' "$out"; }

sizes_case() { # ARGUMENTS EXPECTED
    begin "sizes: $1"
    eval "perf all_reduce -g 2 -d int8 -n 1 $1"
    want_code 0
    shown=$(sizes_shown)
    want "sizes $shown, not $2" [ "$shown" = "$2" ]
    want_table 2 0
    end
}

sizes_case '-b 8 -e 64 -f 2' 8,16,32,64
sizes_case '-b 8 -e 70 -f 2' 8,16,32,64
sizes_case '-b 8 -e 8' 8
sizes_case '-b 1k -e 4K -f 2' 1024,2048,4096
sizes_case '-b 1kB -e 2KiB -f 2' 1024,2048
sizes_case '-b 0.5k -e 1.5K -i 512' 512,1024,1536
sizes_case '-b 1.5m -e 1.5M' 1572864
sizes_case '-b 8B -e 16b -i 8' 8,16
sizes_case '-b 100 -e 300 -i 100' 100,200,300
sizes_case '-b 10 -e 40 -f 1.5' 10,15,22,33
sizes_case '-b 1 -e 3 -f 1.1' 1,2,3
sizes_case '-b 1 -e 2 -i 1' 1,2
sizes_case '-b 0 -e 0' 0
sizes_case '-b 0 -e 16 -f 2' 0,8,16
sizes_case '-b .5k -e 512' 512
sizes_case '--minbytes 4 --maxbytes=8 --stepfactor=2' 4,8
sizes_case '--minbytes=8 --maxbytes 24 --stepbytes 8' 8,16,24

begin 'sizes: a remainder is dropped and said, no row of 0 bytes appears unasked'
perf all_reduce -g 2 -b 5 -e 5 -d double
want_code 0
want_table 2 1
want_not_out '^ +0 +0 '
want_out 'asked 5'
end
for name in all_gather reduce_scatter alltoall gather scatter alltoallv sendrecv hypercube; do
    begin "sizes: $name -b 8 on 8 ranks has no row of 0 bytes"
    perf $name -g 8 -b 8 -e 8 -d double
    want_code 0
    want_not_out '^ +0 +0 '
    want_table 8 1
    end
done

begin 'sizes: default is one row of 32 MiB'
run 120 "$(driver all_reduce)" -n 1 -w 0 -g 2
want_code 0
want "sizes $(sizes_shown)" [ "$(sizes_shown)" = 33554432 ]
end

flags_case() { # ARGUMENTS [REGEXP on stdout]
    begin "accepted: $1"
    eval "perf all_reduce -b 1K -e 16K -f 4 $1"
    want_code 0
    want "$(awk -f "$tests_dir/table.awk" "$out")" \
        [ "$(awk -f "$tests_dir/table.awk" "$out" | awk '{print $4}')" = 0 ]
    [ -z "$2" ] || want_out "$2"
    want_not_err '.'
    end
}

for z in 0 1 2 3; do flags_case "-g 4 -z $z"; done
for a in 0 1 2 3; do flags_case "-g 4 -a $a" "^# Timed: .*\\(-a $a\\)"; done
for x in 0 1 2; do flags_case "-g 2 -x $x" 'ncclCommInitRankConfig'; done
flags_case '-g 4 -z 1 -m 3'
flags_case '-t 2 -g 2 -z 1'
flags_case '-t 4 -y 1'
flags_case '-g 4 -y 1'
for mode in '-g 4' '-t 3' '--spawn 3' '--spawn 2 -g 2'; do
    for registered in 1 2; do flags_case "$mode -R $registered"; done
done
flags_case '-g 4 -R 0'
flags_case '-t 2 -m 4'
flags_case '-g 2 -N 3'
flags_case '-g 2 -c 3'
flags_case '-g 2 -w 0'
flags_case '-g 2 -w 5 -n 7' 'warmup iters: 5 iters: 7'
flags_case '-g 4 -I 1' 'i_min +i_max +i_p99 +i_cv%'
flags_case '-t 2 -I 1 -n 9 -K 3' 'i_min'
flags_case '-g 2 -I 1 -w 3000 -n 2' 'i_min'
flags_case '-t 2 -I 1 -w 7 -n 3 -z 3' 'i_min'
flags_case '-g 2 -C 1' '[cC]pu_?time|cputime'
flags_case '-g 2 -S 1' '[0-9]{4}-[0-9]{2}-[0-9]{2}'
flags_case '-g 2 -M 1' '^# .*[Mm]emory'
flags_case '-g 2 -u 1' 'unalign: 1'
flags_case '-t 2 -u 7'
flags_case '-g 2 -T 0'
flags_case '-g 2 -T 0.5'
flags_case '-g 2 -G 0'
flags_case '-g 2 -D 0'
flags_case '-p 1 -t 3'
flags_case '--parallel-init 1 --nthreads 3'
flags_case '-g2 -d half -o max' '^ +1024 +512 +half +max '

begin '-N 3: three series in one table'
perf all_reduce -g 2 -b 8 -e 16 -f 2 -N 3
want_table 2 6
end

begin '-c 0: nothing is verified, and the columns say so'
perf all_reduce -g 2 -b 8 -e 8 -c 0
want_code 0
want_out '^ +8 .* N/A .* N/A'
end

begin 'one rank: busbw is n/a, said once'
perf all_reduce -b 8 -e 64 -f 2
want_code 0
want_out '^ +8 .* n/a '
want_out '^# Avg bus bandwidth +: n/a'
want 'said more than once' [ "$(grep -c -i 'busbw.*n/a' "$out" "$err" | awk -F: '{n += $2}
    END {print n}')" -le 2 ]
end

# ---- devices and groups ----

begin 'NCCL_TESTS_DEVICE=3: local rank i uses device 3 + i'
NCCL_TESTS_DEVICE=3 perf all_reduce -b 8 -e 8 -g 2
want_code 0
want_out '^#  Rank  0 .* device  3 '
want_out '^#  Rank  1 .* device  4 '
end

begin 'CHORUS_HOST_DEVICES=2: eight ranks share two devices, said in the header'
CHORUS_HOST_DEVICES=2 perf all_reduce -b 8 -e 8 -g 8
want_code 0
want_table 8 1
want_out '8 ranks on 2 host devices, at most 4 a device'
end

for queues in 1 8; do
    for mode in '-g 8' '-t 8' '-t 2 -g 4 -p 1' '--spawn 2 -g 2'; do
        begin "CHORUS_HOST_QUEUES=$queues $mode"
        CHORUS_HOST_QUEUES=$queues perf alltoall -b 8 -e 64K -f 16 $mode
        want_code 0
        want "rows that are not right" \
            [ "$(awk -f "$tests_dir/table.awk" "$out" | awk '{print $4, $5}')" = '0 1' ]
        end
    done
done

split_case() { # VARIABLE GROUPS(as shown for ranks 0..3)
    begin "$1: groups $2"
    run 60 env "$1" "$(driver all_reduce)" -b 8 -e 1K -f 8 -n 2 -g 4
    want_code 0
    groups=$(awk '/^# *Rank +[0-9]+ / {printf "%s%s", sep, $5; sep = ","}' "$out")
    want "groups $groups" [ "$groups" = "$2" ]
    want_out '^# Out of bounds values : 0 OK'
    end
}
split_case NCCL_TESTS_SPLIT=MOD2 0,1,0,1
split_case NCCL_TESTS_SPLIT='mod 2' 0,1,0,1
split_case NCCL_TESTS_SPLIT='%2' 0,1,0,1
split_case NCCL_TESTS_SPLIT=DIV2 0,0,1,1
split_case NCCL_TESTS_SPLIT=/3 0,0,0,1
split_case NCCL_TESTS_SPLIT=AND0x1 0,1,0,1
split_case NCCL_TESTS_SPLIT='&0b10' 0,0,2,2
split_case NCCL_TESTS_SPLIT=OR1 1,1,3,3
split_case NCCL_TESTS_SPLIT='|2' 2,3,2,3
split_case NCCL_TESTS_SPLIT_MASK=0x2 0,0,2,2
split_case NCCL_TESTS_SPLIT_MASK=1 0,1,0,1

# The rows are those of a group, so busbw is by its size and not by the world's.
for split in 'MOD2 1 2' 'DIV3 1.33333 3'; do
    set -- $split
    begin "NCCL_TESTS_SPLIT=$1: busbw is algbw * $2, with n = $3"
    NCCL_TESTS_SPLIT=$1 perf all_reduce -b 1M -e 1M -g 4
    want_out "^# busbw = algbw \* $2: .* with n = $3,"
    want_out "^# Groups: .* $3 of 4 ranks"
    want 'busbw of the row differs' awk -v factor="$2" '/^ +[0-9]+ / {
        rows++
        if ($8 < factor * $7 * 0.97 || $8 > factor * $7 * 1.03) exit bad = 1
    } END {exit bad || rows != 1}' "$out"
    end
done

begin 'NCCL_TESTS_SPLIT=DIV1: groups of one rank have no busbw'
NCCL_TESTS_SPLIT=DIV1 perf all_reduce -b 1K -e 1K -g 4
want_code 0
want_out '^# busbw n/a'
want_out '^ +1024 .* n/a .* n/a '
want_out '^# Avg bus bandwidth +: n/a'
end

begin 'NCCL_TESTS_SPLIT=DIV2 with --spawn 4'
NCCL_TESTS_SPLIT=DIV2 perf all_gather -b 8 -e 1K -f 8 --spawn 4
want_code 0
want_table 4 0
end

begin 'groups are listed with members, and the rate of all is in the last columns'
NCCL_TESTS_SPLIT=MOD2 perf all_reduce -b 1M -e 1M -g 5
want_out '^#  Group  0 has ranks 0 2 4$'
want_out '^#  Group  1 has ranks 1 3$'
# Factors 4/3 and 1: both groups together have 7/4 of the rate of the first.
want 'sumbw is not that of both groups' awk '/^ +[0-9]+ / {
    rows++
    for (i = 0; i < 2; i++)
        if ($(14 + i) < 1.72 * $(8 + 4 * i) || $(14 + i) > 1.78 * $(8 + 4 * i)) exit bad = 1
} END {exit bad || rows != 1}' "$out"
end

begin '-M 1: memory of each rank'
perf all_reduce -b 1M -e 1M -g 3 -M 1
want_out '^# Memory of rank 2 +:.* buffers 2\.0 MiB$'
end

# ---- pairs ----

for name in pingpong oneway twoway; do
    begin "$name --pairs: each pair alone, and the table"
    perf $name -b 4K -e 4K --pairs -t 4
    want_code 0
    want "$(grep -c -- ' -> ' "$out") rows" \
        [ "$(grep -c -- ' -> ' "$out")" = $([ $name = oneway ] && echo 12 || echo 6) ]
    want_out '^#   pairs: busbw in GB/s from row to column'
    want 'not four rows in the table' [ "$(grep -c '^#  *[0-3] | ' "$out")" = 4 ]
    want_out '^# Out of bounds values : 0 OK'
    end
done

begin 'pingpong: the last of an odd number of ranks is idle'
perf pingpong -b 1K -e 1K -t 3 -J "$tmp/ping.csv"
want_code 0
want_table 3 1
want_out '^# Timed: .* half of a round trip'
end

# ---- alltoallv ----

printf '0 100 0\n7 0 300\n1000 0 64\n' >"$tmp/matrix"
begin 'alltoallv: a matrix from a file, scaled, with a summary'
NCCL_TESTS_ALLTOALLV_MATRIX_FILE=$tmp/matrix NCCL_TESTS_ALLTOALLV_MATRIX_SCALE=2 \
    NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY=1 perf alltoallv -b 1K -e 1K -g 3
want_code 0
want_out '^# Out of bounds values : 0 OK'
end
printf '0 100\n7\n' >"$tmp/ragged"
begin 'alltoallv: a ragged matrix is refused with row and column'
NCCL_TESTS_ALLTOALLV_MATRIX_FILE=$tmp/ragged perf alltoallv -b 8 -e 8 -g 2
want_code 2
want_err 'row 2'
end
begin 'alltoallv: a matrix of too few ranks is refused'
NCCL_TESTS_ALLTOALLV_MATRIX_FILE=$tmp/matrix perf alltoallv -b 8 -e 8 -g 4
want_code 2
want_err "NCCL_TESTS_ALLTOALLV_MATRIX_FILE.*3.*4|NCCL_TESTS_ALLTOALLV_MATRIX_FILE.*4.*3"
end
begin 'alltoallv: a file gives the sizes, so a series is refused'
NCCL_TESTS_ALLTOALLV_MATRIX_FILE=$tmp/matrix perf alltoallv -b 8 -e 16 -f 2 -g 3
want_code 2
want_err 'NCCL_TESTS_ALLTOALLV_MATRIX_FILE.* -b '
end
for spread in 0 0.5 1; do
    begin "alltoallv: spread $spread"
    NCCL_TESTS_ALLTOALLV_SPREAD=$spread perf alltoallv -b 1K -e 64K -f 8 -g 4
    want_code 0
    want_table 4 0
    end
done

finish
