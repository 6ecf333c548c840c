# Sources of libnccl.so.2, one a line, sorted within each layer. A file that is not listed here
# is not built. Layers from the bottom up; scripts/check-layers knows which may include which.

# base
LIB_SRCS += src/lib/base/alloc.c
LIB_SRCS += src/lib/base/clock.c
LIB_SRCS += src/lib/base/conf.c
LIB_SRCS += src/lib/base/cpu.c
LIB_SRCS += src/lib/base/doorbell.c
LIB_SRCS += src/lib/base/err.c
LIB_SRCS += src/lib/base/fault.c
LIB_SRCS += src/lib/base/log.c
LIB_SRCS += src/lib/base/mac.c
LIB_SRCS += src/lib/base/netif.c
LIB_SRCS += src/lib/base/param.c
LIB_SRCS += src/lib/base/param_names.c
LIB_SRCS += src/lib/base/range.c
LIB_SRCS += src/lib/base/rng.c
LIB_SRCS += src/lib/base/shm.c
LIB_SRCS += src/lib/base/sock.c
LIB_SRCS += src/lib/base/sock_open.c
LIB_SRCS += src/lib/base/thread.c

# device
LIB_SRCS += src/lib/device/device.c
LIB_SRCS += src/lib/device/host_arena.c
LIB_SRCS += src/lib/device/host_device.c
LIB_SRCS += src/lib/device/host_engine.c
LIB_SRCS += src/lib/device/host_event.c
LIB_SRCS += src/lib/device/host_keep.c
LIB_SRCS += src/lib/device/host_mem.c
LIB_SRCS += src/lib/device/host_queue.c
LIB_SRCS += src/lib/device/host_sleep.c
LIB_SRCS += src/lib/device/host_stream.c
LIB_SRCS += src/lib/device/host_worker.c
LIB_SRCS += src/lib/device/nvml.c

# transport
LIB_SRCS += src/lib/transport/arena.c
LIB_SRCS += src/lib/transport/p2p.c
LIB_SRCS += src/lib/transport/shm.c
LIB_SRCS += src/lib/transport/transport.c
LIB_SRCS += src/lib/transport/zone.c

# kernel: built with -O3
LIB_SRCS += src/lib/kernel/copy.c
LIB_SRCS += src/lib/kernel/fold.c
LIB_SRCS += src/lib/kernel/fold_avx2.c
LIB_SRCS += src/lib/kernel/fold_avx512.c
LIB_SRCS += src/lib/kernel/fold_base.c
LIB_SRCS += src/lib/kernel/kernel_host.c
LIB_SRCS += src/lib/kernel/size.c

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

# topo
LIB_SRCS += src/lib/topo/topo.c

# algo
LIB_SRCS += src/lib/algo/check.c
LIB_SRCS += src/lib/algo/check_form.c
LIB_SRCS += src/lib/algo/choice.c
LIB_SRCS += src/lib/algo/cost.c
LIB_SRCS += src/lib/algo/direct.c
LIB_SRCS += src/lib/algo/logstep.c
LIB_SRCS += src/lib/algo/program.c
LIB_SRCS += src/lib/algo/registry.c
LIB_SRCS += src/lib/algo/ring.c
LIB_SRCS += src/lib/algo/sched.c
LIB_SRCS += src/lib/algo/sched_text.c
LIB_SRCS += src/lib/algo/shot.c
LIB_SRCS += src/lib/algo/tree.c

# core
LIB_SRCS += src/lib/core/agree.c
LIB_SRCS += src/lib/core/await.c
LIB_SRCS += src/lib/core/chain.c
LIB_SRCS += src/lib/core/clique.c
LIB_SRCS += src/lib/core/comm.c
LIB_SRCS += src/lib/core/comm_end.c
LIB_SRCS += src/lib/core/comm_init.c
LIB_SRCS += src/lib/core/describe.c
LIB_SRCS += src/lib/core/enqueue.c
LIB_SRCS += src/lib/core/far.c
LIB_SRCS += src/lib/core/gated.c
LIB_SRCS += src/lib/core/group.c
LIB_SRCS += src/lib/core/health.c
LIB_SRCS += src/lib/core/jobs.c
LIB_SRCS += src/lib/core/join.c
LIB_SRCS += src/lib/core/launch.c
LIB_SRCS += src/lib/core/lead.c
LIB_SRCS += src/lib/core/lead_late.c
LIB_SRCS += src/lib/core/lead_run.c
LIB_SRCS += src/lib/core/lead_stage.c
LIB_SRCS += src/lib/core/lsa.c
LIB_SRCS += src/lib/core/ledger.c
LIB_SRCS += src/lib/core/links.c
LIB_SRCS += src/lib/core/mail.c
LIB_SRCS += src/lib/core/meet.c
LIB_SRCS += src/lib/core/memory.c
LIB_SRCS += src/lib/core/messages.c
LIB_SRCS += src/lib/core/pairs.c
LIB_SRCS += src/lib/core/park.c
LIB_SRCS += src/lib/core/plan.c
LIB_SRCS += src/lib/core/reach.c
LIB_SRCS += src/lib/core/redop.c
LIB_SRCS += src/lib/core/reg.c
LIB_SRCS += src/lib/core/resize.c
LIB_SRCS += src/lib/core/rma.c
LIB_SRCS += src/lib/core/schedule.c
LIB_SRCS += src/lib/core/session.c
LIB_SRCS += src/lib/core/set.c
LIB_SRCS += src/lib/core/simulate.c
LIB_SRCS += src/lib/core/split.c
LIB_SRCS += src/lib/core/track.c
LIB_SRCS += src/lib/core/wait.c
LIB_SRCS += src/lib/core/window.c
LIB_SRCS += src/lib/core/zones.c

# api
LIB_SRCS += src/lib/api/api_coll.c
LIB_SRCS += src/lib/api/api_comm.c
LIB_SRCS += src/lib/api/api_device.c
LIB_SRCS += src/lib/api/api_group.c
LIB_SRCS += src/lib/api/api_info.c
LIB_SRCS += src/lib/api/api_mem.c
LIB_SRCS += src/lib/api/api_p2p.c
LIB_SRCS += src/lib/api/api_param.c
LIB_SRCS += src/lib/api/api_require.c
LIB_SRCS += src/lib/api/api_split.c
LIB_SRCS += src/lib/api/api_window.c
LIB_SRCS += src/lib/api/argcheck.c
LIB_SRCS += src/lib/api/config.c

# What the library has of CUDA, compiled where nvcc is found.
CU_SRCS += src/lib/device/cuda_block.c
CU_SRCS += src/lib/device/cuda_device.c
CU_SRCS += src/lib/device/cuda_dl.c
CU_SRCS += src/lib/device/cuda_export.c
CU_SRCS += src/lib/device/cuda_import.c
CU_SRCS += src/lib/device/cuda_mem.c
CU_SRCS += src/lib/device/cuda_pool.c
CU_SRCS += src/lib/device/cuda_region.c
CU_SRCS += src/lib/device/cuda_staging.c
CU_SRCS += src/lib/device/cuda_stock.c
CU_SRCS += src/lib/device/cuda_stream.c
CU_SRCS += src/lib/device/cuda_zone.c
CU_SRCS += src/lib/kernel/cuda_gate.cu
CU_SRCS += src/lib/kernel/cuda_launch.cu
CU_SRCS += src/lib/kernel/cuda_local_args.cu
CU_SRCS += src/lib/kernel/cuda_pairs.cu
CU_SRCS += src/lib/kernel/cuda_type_bf16.cu
CU_SRCS += src/lib/kernel/cuda_type_copy.cu
CU_SRCS += src/lib/kernel/cuda_type_e4m3.cu
CU_SRCS += src/lib/kernel/cuda_type_e5m2.cu
CU_SRCS += src/lib/kernel/cuda_type_f16.cu
CU_SRCS += src/lib/kernel/cuda_type_f32.cu
CU_SRCS += src/lib/kernel/cuda_type_f64.cu
CU_SRCS += src/lib/kernel/cuda_type_i32.cu
CU_SRCS += src/lib/kernel/cuda_type_i64.cu
CU_SRCS += src/lib/kernel/cuda_type_i8.cu
CU_SRCS += src/lib/kernel/cuda_type_u32.cu
CU_SRCS += src/lib/kernel/cuda_type_u64.cu
CU_SRCS += src/lib/kernel/cuda_type_u8.cu

# Public headers, installed.
LIB_HEADERS += src/lib/chorus.h
LIB_HEADERS += src/lib/nccl.h
