#!/bin/sh
# time limit: 120 s
# Each line of bad_options.txt: the exit code, a message that starts with the driver's name and
# names the option, nothing on stdout and nothing run.
. "$(dirname "$0")/lib.sh"

bad_row() { # LINE
    pattern=${1#* | }
    wanted=${pattern##* | }
    pattern=${pattern% | *}
    environment='' line=${1%% | *}
    while :; do
        word=${line%% *}
        case $word in *=*) environment="$environment '$word'"; line=${line#* } ;; *) break ;; esac
    done
    arguments=${line#"$word"}
    begin "refused: ${1%% | *}"
    eval "run 20 env $environment \"\$(driver $word)\" $arguments"
    want_code "$wanted"
    want_err "^${word}_perf: "
    want_err "$pattern"
    want 'stdout is not empty' [ ! -s "$out" ]
    end
}

while IFS= read -r row; do
    case $row in '' | '#'*) continue ;; esac
    bad_row "$row"
done <"$tests_dir/bad_options.txt"

begin 'a refused option says where help is'
run 20 "$(driver all_reduce)" -d flaot
want_err '\(try --help\)$'
want 'more than one line' [ "$(wc -l <"$err")" -eq 1 ]
end

begin 'the last of two values counts, also when the first is bad for others'
perf all_reduce -b 8 -e 8 -g 2 -d half -d float
want_code 0
want_table 2 1
want_out ' float '
end

for collective in all_reduce alltoall sendrecv; do
    begin "-r on $collective: a note on stderr, column root is -1"
    perf $collective -b 64 -e 64 -g 2 -r 1
    want_code 0
    want_err "note: .*-r"
    want 'more than one line on stderr' [ "$(wc -l <"$err")" -eq 1 ]
    want_table 2 1
    want_out '^ +64 +[0-9]+ +float +[a-z]+ +-1 '
    end
done
for collective in broadcast all_gather; do
    begin "-o on $collective: a note on stderr, column redop is none"
    perf $collective -b 64 -e 64 -g 2 -o prod
    want_code 0
    want_err "note: .*-o"
    want_table 2 1
    want_out '^ +64 +[0-9]+ +float +none '
    end
done

finish
