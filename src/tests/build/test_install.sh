#!/bin/sh
# slice: no
# make install into a scratch prefix gives a library that pkg-config finds, the examples build with
# and run on, drivers that run, man pages and completion; make uninstall leaves no file.
cd "$(dirname "$0")/../../.." || exit 3
. src/tests/build/tap.sh
case $(cat "$build/flags") in
*-fsanitize*|*-O0*)
    echo "ok 1 - install # SKIP only an optimised build is installed"
    echo "1..1"
    exit
    ;;
esac
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
drivers="all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather scatter"
drivers="$drivers sendrecv hypercube pingpong oneway twoway"

expect "make install" 0 "installed to $prefix" make BUILDDIR="$build" install PREFIX="$prefix"
[ -e "$prefix/lib" ] || exit 1
same "libnccl.so" libnccl.so.2 "$(readlink "$prefix/lib/libnccl.so")"
same "libnccl.so.2" libnccl.so.2.30.7 "$(readlink "$prefix/lib/libnccl.so.2")"
for file in lib/libnccl.so.2.30.7 lib/libnccl_static.a lib/pkgconfig/nccl.pc include/nccl.h \
    include/chorus.h; do
    same "installed: $file" yes "$([ -s "$prefix/$file" ] && echo yes)"
done
expect "soname" 0 "SONAME.*\[libnccl.so.2\]" readelf -d "$prefix/lib/libnccl.so.2.30.7"

for driver in $drivers; do
    name=${driver}_perf
    expect "$name runs" 0 "^# Out of bounds values : 0 OK" \
        "$prefix/bin/$name" -b 1K -e 4K -f 4 -n 1 -g 2
    expect "$name: man page" 0 "^\.TH" cat "$prefix/share/man/man1/$name.1"
    expect "$name: completion" 0 '' bash -n "$prefix/share/bash-completion/completions/$name"
done
expect "an installed driver uses the installed library" 0 "$prefix/(bin/\.\./)?lib/libnccl.so.2" \
    ldd "$prefix/bin/all_reduce_perf"
expect "the driver of the build folder uses the one beside it" 0 "/libnccl.so.2 " \
    env LD_LIBRARY_PATH="$prefix/lib" ldd "$build/all_reduce_perf"
same "LD_LIBRARY_PATH does not slip in another library" "" \
    "$(LD_LIBRARY_PATH=$prefix/lib ldd "$build/all_reduce_perf" | grep "$prefix")"

if ! command -v pkg-config >/dev/null 2>&1; then
    skip "pkg-config" "no pkg-config in PATH"
else
    export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
    same "pkg-config: version" 2.30.7 "$(pkg-config --modversion nccl)"
    flags=$(pkg-config --cflags --libs nccl)
    for example in init_all pthreads; do
        # shellcheck disable=SC2086
        expect "$example compiles with pkg-config" 0 '' \
            cc -std=gnu11 -Wall -Werror -o "$work/$example" examples/$example.c $flags -pthread
        expect "$example runs on the installed library" 0 "^rank 1 of 2: sum 3" \
            env LD_LIBRARY_PATH="$prefix/lib" "$work/$example" 2
    done
    # shellcheck disable=SC2046
    expect "init_all links statically" 0 '' cc -o "$work/static" examples/init_all.c \
        $(pkg-config --cflags nccl) "$prefix/lib/libnccl_static.a" \
        $(pkg-config --variable=staticlibs nccl)
    expect "init_all runs without the shared library" 0 "^rank 1 of 2: sum 3" "$work/static" 2
fi

expect "make uninstall" 0 "removed from $prefix" make BUILDDIR="$build" uninstall PREFIX="$prefix"
same "uninstall leaves no file" "" "$(find "$prefix" ! -type d)"

expect "make install DESTDIR" 0 "installed to $work/stage/opt/x" \
    make BUILDDIR="$build" install PREFIX=/opt/x DESTDIR="$work/stage"
expect "nccl.pc names the prefix" 0 "^prefix=/opt/x\$" cat "$work/stage/opt/x/lib/pkgconfig/nccl.pc"
same "nothing installed names the stage" "" "$(grep -rl "$work/stage" "$work/stage")"
same "nothing outside the prefix" opt "$(ls "$work/stage")"
echo "1..$number"
