# Sources of libnccl.so.2, one a line, sorted within each layer. A file that is not listed here
# is not built. Layers from the bottom up; scripts/check-layers knows which may include which.

# base
LIB_SRCS += src/lib/base/alloc.c
LIB_SRCS += src/lib/base/clock.c
LIB_SRCS += src/lib/base/doorbell.c
LIB_SRCS += src/lib/base/err.c
LIB_SRCS += src/lib/base/fault.c
LIB_SRCS += src/lib/base/log.c
LIB_SRCS += src/lib/base/mac.c
LIB_SRCS += src/lib/base/netif.c
LIB_SRCS += src/lib/base/param.c
LIB_SRCS += src/lib/base/rng.c
LIB_SRCS += src/lib/base/shm.c
LIB_SRCS += src/lib/base/sock.c
LIB_SRCS += src/lib/base/sock_open.c
LIB_SRCS += src/lib/base/thread.c

# device
LIB_SRCS += src/lib/device/device.c

# transport

# kernel: built with -O3

# boot
LIB_SRCS += src/lib/boot/boot.c
LIB_SRCS += src/lib/boot/door.c
LIB_SRCS += src/lib/boot/id.c
LIB_SRCS += src/lib/boot/link.c
LIB_SRCS += src/lib/boot/mesh.c
LIB_SRCS += src/lib/boot/mesh_open.c
LIB_SRCS += src/lib/boot/root.c
LIB_SRCS += src/lib/boot/root_conn.c
LIB_SRCS += src/lib/boot/root_session.c
LIB_SRCS += src/lib/boot/watch.c
LIB_SRCS += src/lib/boot/wire.c

# topo

# algo

# core

# api

# CUDA sources (.cu), compiled by nvcc where it is found.
CU_SRCS +=

# Public headers, installed.
LIB_HEADERS += src/lib/chorus.h
LIB_HEADERS += src/lib/nccl.h
