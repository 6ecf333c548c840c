/* chorus_mpi.so: all that the drivers know of MPI, so that they are built without it. Compiled by
 * mpicc, loaded by harness/world_mpi.c under a launcher.
 */
#ifndef PERF_MPI_PLUGIN_H
#define PERF_MPI_PLUGIN_H

#include <stddef.h>

enum { PERF_MPI_PLUGIN_VERSION = 1 };

struct perf_mpi_plugin {
    int version;
    const char *library; /* "Open MPI 4.1", as the headers say */
    /* All return 0, or an MPI error code after MPI's own message. By one thread. */
    int (*init)(void);
    int (*rank)(void);
    int (*size)(void);
    int (*allgather)(const void *mine, void *all, size_t bytes);
    int (*finalize)(void);
};

/* The one symbol of the plugin. */
extern const struct perf_mpi_plugin chorus_mpi_plugin;
#define PERF_MPI_SYMBOL "chorus_mpi_plugin"

#endif
