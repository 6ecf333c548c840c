#!/bin/sh
# slice: no
# Programs that end in ways which crash others: the library is loaded, used and unloaded again and
# again, is never cleaned up, is cleaned up by a destructor or an exit handler, or the process
# exits while a collective hangs or another thread is inside a call. All exit with code 0.
. "$(dirname "$0")/lib.sh"
cc=gcc
has $cc || cc=cc
if ! has $cc || is_sanitized; then
    skip 'unload and exit' 'no compiler, or a sanitizer that counts what is never freed'
    finish
fi

cat >"$tmp/common.h" <<'END'
#include "chorus.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define NEED(call)                                                                                 \
    do {                                                                                           \
        if ((call) != ncclSuccess) {                                                               \
            fprintf(stderr, "%s failed\n", #call);                                                 \
            _Exit(9);                                                                              \
        }                                                                                          \
    } while (0)
END

cat >"$tmp/unload.c" <<'END'
#include "common.h"
#include <dlfcn.h>
#define FIND(name) __typeof__(&name) my_##name = (__typeof__(&name))dlsym(library, #name)
static const char *path;
static void *use(void *unused)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) _Exit(8);
    FIND(ncclCommInitAll);
    FIND(ncclAllReduce);
    FIND(ncclGroupStart);
    FIND(ncclGroupEnd);
    FIND(ncclCommDestroy);
    FIND(chorus_devices);
    ncclComm_t comms[2];
    int in[2] = {1, 2}, out[2] = {0, 0}, devices[2] = {0, 1};
    NEED(my_ncclCommInitAll(comms, 2, devices));
    NEED(my_ncclGroupStart());
    for (int r = 0; r < 2; r++)
        NEED(my_ncclAllReduce(&in[r], &out[r], 1, ncclInt32, ncclSum, comms[r], NULL));
    NEED(my_ncclGroupEnd());
    for (int r = 0; r < 2; r++) {
        NEED(my_chorus_devices()->set(r));
        NEED(my_chorus_devices()->stream_sync(NULL));
        if (out[r] != 3) _Exit(7);
        NEED(my_ncclCommDestroy(comms[r]));
    }
    dlclose(library);
    return unused;
}
/* By this thread, and by threads that end after the library has gone. */
int main(int argc, char **argv)
{
    path = argv[argc - 1];
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        use(NULL);
        pthread_create(&thread, NULL, use, NULL);
        pthread_join(thread, NULL);
    }
    return 0;
}
END

cat >"$tmp/leave.c" <<'END'
#include "common.h"
static ncclComm_t comms[2];
static int done, in[2], out[2];
static cudaStream_t streams[2];
static void destroy(void)
{
    for (int r = 0; r < 2 && !done; r++) NEED(ncclCommDestroy(comms[r]));
}
static void abort_all(void)
{
    for (int r = 0; r < 2; r++) NEED(ncclCommAbort(comms[r]));
}
static int by_destructor;
__attribute__((destructor)) static void last(void)
{
    if (by_destructor) destroy();
}
static void *wait_for_it(void *stream)
{
    chorus_devices()->stream_sync((cudaStream_t)stream);
    return NULL;
}
static void call(int nranks)
{
    NEED(ncclGroupStart());
    for (int r = 0; r < nranks; r++)
        NEED(ncclAllReduce(&in[r], &out[r], 1, ncclInt32, ncclSum, comms[r], streams[r]));
    NEED(ncclGroupEnd());
}
static void *call_for_ever(void *unused)
{
    for (;;) call(2);
    return unused;
}
int main(int argc, char **argv)
{
    const char *how = argv[argc - 1];
    pthread_t thread;
    NEED(ncclCommInitAll(comms, 2, NULL));
    for (int r = 0; r < 2; r++) {
        NEED(chorus_devices()->set(r));
        NEED(chorus_devices()->stream_create(&streams[r]));
    }
    call(2);
    if (strcmp(how, "atexit") == 0) atexit(destroy);
    if (strcmp(how, "destructor") == 0) by_destructor = 1;
    if (strcmp(how, "abort") == 0) {
        call(1);
        atexit(abort_all);
    }
    if (strcmp(how, "hang") == 0) call(1);
    if (strcmp(how, "wait") == 0) {
        call(1);
        pthread_create(&thread, NULL, wait_for_it, streams[0]);
    }
    if (strcmp(how, "busy") == 0) pthread_create(&thread, NULL, call_for_ever, NULL);
    return 0;
}
END

build() { # NAME FLAG...
    name=$1
    shift
    $cc -std=gnu11 -Isrc/lib -o "$tmp/$name" "$tmp/$name.c" "$@" 2>"$err" || cat "$err"
}
build unload -ldl -pthread
build leave -L"$BUILDDIR" -lnccl -Wl,-rpath,"$BUILDDIR" -pthread

begin 'loaded, used and unloaded 20 times, by threads that end later too'
run 60 "$tmp/unload" "$BUILDDIR/libnccl.so.2"
want_code 0
want_quiet
end
for how in nothing atexit destructor abort hang wait busy; do
    begin "exit: $how"
    # A crash may need the right moment.
    for again in 1 2 3 4 5; do
        run 30 "$tmp/leave" $how
        want_code 0
        want_quiet
    done
    end
done
finish
