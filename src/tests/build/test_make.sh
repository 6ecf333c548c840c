#!/bin/sh
# slice: no
# The variables of the makefile work or are refused by name, and it says what the machine has.
# Nothing is built here: each case ends before the first recipe, or asks for help or report only.
cd "$(dirname "$0")/../../.." || exit 3
. src/tests/build/tap.sh
empty=$(mktemp -d) || exit 3
trap 'rm -rf "$empty"' EXIT
MAKEFLAGS=''

# A value or name that is refused: arguments of make | pattern of the message
while IFS='|' read -r arguments pattern; do
    eval "set -- $arguments"
    expect "refused: $arguments" 2 "$pattern" make "$@" report
done <<'END'
SANN=address|SANN is no variable .*did you mean SAN\?
BUILD_DIR=x|BUILD_DIR is no variable .*did you mean BUILDDIR\?
prefix=/x|prefix is no variable .*did you mean PREFIX\?
WHATEVERITIS=1|WHATEVERITIS is no variable of this makefile; see make help
SAN=adress|SAN='adress' is none of: address undefined thread address,undefined
'SAN=address undefined'|SAN='address undefined' is none of
SAN=address,thread|SAN='address,thread' is none of
DEBUG=yes|DEBUG='yes' is none of: 0 1
FAULTS=2|FAULTS='2' is none of: 0 1
COV=on|COV='on' is none of: 0 1
V=2|V='2' is none of: 0 1
MPI=yes|MPI='yes' is none of: auto 0 1
CUDA=12|CUDA='12' is none of: auto 0 1
MPI_HOME=/none|MPI_HOME='/none': no /none/bin/mpicc
'MPI=1 MPI_HOME=/none'|MPI='1 MPI_HOME=/none' is none of
MPI=1 MPI_HOME=/none|MPI=1 MPI_HOME='/none': no /none/bin/mpicc
CUDA_HOME=/none|CUDA_HOME='/none': no /none/bin/nvcc
CUDA=1 CUDA_HOME=/none|CUDA=1 CUDA_HOME='/none': no /none/bin/nvcc
NVCC_GENCODE=sm_90|NVCC_GENCODE='sm_90' is not made of -gencode
'BUILDDIR=a b'|BUILDDIR='a b': a space is not possible
BUILDDIR=|BUILDDIR='' is no folder to build in
BUILDDIR=.|BUILDDIR='.' is a folder of the sources
BUILDDIR=src/lib|BUILDDIR='src/lib' is a folder of the sources
PREFIX=usr|PREFIX='usr' is not an absolute path
'PREFIX=/a b'|PREFIX='/a b': a space is not possible
'DESTDIR=/a b'|DESTDIR='/a b': a space is not possible
NAME_SUFFIX=a/b|NAME_SUFFIX='a/b': a slash is not possible
END

# Where a variant is built: arguments | folder
while IFS='|' read -r arguments folder; do
    # shellcheck disable=SC2086
    expect "built in $folder: $arguments" 0 " -o $folder/obj/" \
        make -n -B V=1 $arguments $folder/obj/src/lib/base/err.o
done <<'END'
|build
DEBUG=1|build/debug
SAN=address|build/address
SAN=address,undefined|build/address-undefined
SAN=thread FAULTS=1|build/thread-faults
COV=1|build/cov
DEBUG=1 FAULTS=0|build/debug
BUILDDIR=build/elsewhere SAN=thread|build/elsewhere
END

# Flags that a variable adds: arguments | flag
while IFS='|' read -r arguments flag; do
    # shellcheck disable=SC2086
    expect "flag $flag: $arguments" 0 " $flag " \
        make -n -B V=1 BUILDDIR=build/flagtest $arguments build/flagtest/obj/src/lib/base/err.o
done <<'END'
|-O2
DEBUG=1|-O0
SAN=thread|-fsanitize=thread
SAN=undefined|-fno-sanitize-recover=all
FAULTS=1|-DCCL_FAULTS
COV=1|--coverage
CFLAGS=-march=native|-march=native
|-ffp-contract=off
|-fno-math-errno
END
expect "kernels are built with -O3" 0 " -O3 " make -n -B V=1 build/obj/src/lib/kernel/planted.o \
    --eval 'src/lib/kernel/planted.c: ;'

expect "help names the variables" 0 "NVCC_GENCODE=" make help
make help | sed '/^Variables/,$d' >"$empty/help"
targets=$(sed -n '/^\.PHONY:/,/[^\\]$/p' Makefile | sed 's/\.PHONY://; s/\\$//; s/FORCE//')
for target in $targets; do
    expect "help names the target $target" 0 "^  (.* )?$target( |\$)" cat "$empty/help"
done
rm "$empty/help"
expect "MPI off by wish" 0 "^MPI:  off: MPI=0" make report MPI=0
expect "CUDA off by wish" 0 "^CUDA: off: CUDA=0" make report CUDA=0
report=$(scripts/bare make report)
expect "MPI off, says why" 0 "^MPI:  off: no mpicc in PATH" echo "$report"
expect "CUDA off, says why" 0 "^CUDA: off: no .*nvcc" echo "$report"
expect "MPI_HOME of the environment that has no mpicc turns it off" 0 \
    "^MPI:  off: no /none/bin/mpicc" env MPI_HOME=/none make report
expect "clean keeps a foreign folder" 2 "was not made by this makefile" make clean BUILDDIR="$empty"
same "the foreign folder is still there" yes "$([ -d "$empty" ] && echo yes)"
expect "test refuses a name suffix" 2 "NAME_SUFFIX='_x'" make test NAME_SUFFIX=_x
echo "1..$number"
