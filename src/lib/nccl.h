/* nccl.h: the public interface of Chorus, compatible with API level 2.30.7.
 *
 * NCCL_API declares each function twice: as ncclX, a weak symbol that a preloaded library may
 * replace, and as pncclX, the strong symbol of the same code. Rules for every function, unless it
 * says otherwise: counts are elements of the data type, sizes and offsets are bytes; the result is
 * ncclSuccess or an error whose text ncclGetLastError gives; a NULL out-pointer or a bad
 * communicator is ncclInvalidArgument; any thread may call, but one communicator is used by one
 * thread at a time.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* With CHORUS_NO_CUDA, or without a CUDA header, a stream is an opaque handle of the same ABI. */
#if !defined(CHORUS_NO_CUDA) && defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#define NCCL_HAS_CUDA_RUNTIME 1
#endif
#endif
#ifdef NCCL_HAS_CUDA_RUNTIME
#include <cuda_runtime.h>
#ifdef __cplusplus
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif
#elif !defined(__DRIVER_TYPES_H__)
typedef struct CUstream_st *cudaStream_t;
#endif

#define NCCL_MAJOR        2
#define NCCL_MINOR        30
#define NCCL_PATCH        7
#define NCCL_SUFFIX       ""
#define NCCL_VERSION_CODE 23007
/* The scheme changed after 2.8: 2.8.4 is 2804, 2.9.6 is 20906. */
#define NCCL_VERSION(X, Y, Z)                                                                      \
    (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_API(type, name, parameters)                                                           \
    type name parameters;                                                                          \
    type p##name parameters

/* ---- handles, results, constants ---- */

typedef struct ncclComm *ncclComm_t;            /* one rank's handle of a communicator */
typedef struct ncclWindow_vidmem *ncclWindow_t; /* a window: points to DEVICE memory */
#define NCCL_COMM_NULL NULL

/* Opaque; made on one rank, carried to the others by the program, passed by value. */
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1, /* a device call failed */
    ncclSystemError = 2,        /* the operating system refused something */
    ncclInternalError = 3,
    ncclInvalidArgument = 4, /* an argument cannot be right by itself */
    ncclInvalidUsage = 5,    /* the call does not fit the state or is not supported */
    ncclRemoteError = 6,     /* another rank or its host failed */
    ncclInProgress = 7,      /* nonblocking communicators: poll ncclCommGetAsyncError */
    ncclTimeout = 8,         /* since 2.30 */
    ncclNumResults = 9
} ncclResult_t;

#define NCCL_CONFIG_UNDEF_INT       INT_MIN
#define NCCL_CONFIG_UNDEF_PTR       NULL
#define NCCL_UNDEF_FLOAT            (-1.0f)
#define NCCL_SPLIT_NOCOLOR          (-1) /* takes part in a split, belongs to no part */
#define NCCL_WIN_DEFAULT            0x00
#define NCCL_WIN_COLL_SYMMETRIC     0x01 /* the same offset on every rank in every call */
#define NCCL_WIN_STRICT_ORDERING    0x02
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_CTA_POLICY_DEFAULT     0x00
#define NCCL_CTA_POLICY_EFFICIENCY  0x01
#define NCCL_CTA_POLICY_ZERO        0x02
#define NCCL_SHRINK_DEFAULT         0x00
#define NCCL_SHRINK_ABORT           0x01 /* stops operations in flight first */
#define NCCL_REVOKE_DEFAULT         0x00
#define NCCL_SUSPEND_MEM            0x01
#define NCCL_API_MAGIC              0xcafebeef

typedef enum {
    ncclInt8 = 0,
    ncclChar = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclHalf = 6,
    ncclFloat32 = 7,
    ncclFloat = 7,
    ncclFloat64 = 8,
    ncclDouble = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
    ncclNumTypes = 12
} ncclDataType_t;

typedef enum {
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
    ncclAvg = 4,
    ncclNumOps = 5,           /* values from here on are ncclRedOpCreatePreMulSum's */
    ncclMaxRedOp = 0x7fffffff /* keeps the enum 32 bits wide */
} ncclRedOp_t;

typedef enum {
    ncclScalarDevice = 0,       /* read when the operation runs */
    ncclScalarHostImmediate = 1 /* copied before the call returns */
} ncclScalarResidence_t;

typedef enum {
    ncclStatGpuMemSuspend = 0,   /* bytes that ncclCommSuspend can free */
    ncclStatGpuMemSuspended = 1, /* 1 while suspended, else 0 */
    ncclStatGpuMemPersist = 2,   /* bytes that stay */
    ncclStatGpuMemTotal = 3      /* bytes in all */
} ncclCommMemStat_t;

/* Options of one communicator. Start from NCCL_CONFIG_INITIALIZER and set what you need;
 * fields left undefined take their defaults, and NCCL_* variables override both. Fields younger
 * than `version` are ignored, so binaries built with an older header keep working. */
typedef struct ncclConfig_v23007 {
    size_t size;             /* set by the initializer, like the next two */
    unsigned int magic;      /* NCCL_API_MAGIC */
    unsigned int version;    /* NCCL_VERSION_CODE of the header in use */
    int blocking;            /* 1 (default): calls return when done; 0: ncclInProgress */
    int cgaClusterSize;      /* >= 0 */
    int minCTAs;             /* 1..maxCTAs: bounds of thread blocks per operation */
    int maxCTAs;             /* minCTAs.. */
    const char *netName;     /* copied during the call */
    int splitShare;          /* 0 or 1: children share the resources of this communicator */
    int trafficClass;        /* handed to the network */
    const char *commName;    /* copied during the call; shown in logs */
    int collnetEnable;       /* 0 or 1 */
    int CTAPolicy;           /* NCCL_CTA_POLICY_*, combined */
    int shrinkShare;         /* 0 or 1 */
    int nvlsCTAs;            /* >= 1 */
    int nChannelsPerNetPeer; /* 1..64 */
    int nvlinkCentricSched;  /* 0 or 1 */
    int graphUsageMode;      /* 0..2; 2: captured and eager operations mix */
    int numRmaCtx;           /* >= 0 */
    int maxP2pPeers;         /* >= 1 */
    int graphStreamOrdering; /* 0 or 1 */
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                    \
    {                                                                                              \
        sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH),    \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                   \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,                   \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,                   \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                   \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                   \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT                    \
    }

typedef struct ncclSimInfo_v22200 {
    size_t size;
    unsigned int magic; /* 0x74685283 */
    unsigned int version;
    float estimatedTime; /* microseconds */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER                                                                  \
    {                                                                                              \
        sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH),       \
            NCCL_UNDEF_FLOAT                                                                       \
    }

/* ---- information: needs no device and no communicator ---- */

/* major*10000 + minor*100 + patch of the loaded library. */
NCCL_API(ncclResult_t, ncclGetVersion, (int *version));
/* A constant text for any value of `result`; never NULL. */
NCCL_API(const char *, ncclGetErrorString, (ncclResult_t result));
/* The text of the process's last failure, "" before any; `comm` is ignored and may be NULL. The
 * pointer stays valid until the thread's next call of this function. */
NCCL_API(const char *, ncclGetLastError, (ncclComm_t comm));
/* Deprecated; does nothing. */
NCCL_API(void, ncclResetDebugInit, (void));

/* ---- life of a communicator ----
 * The init functions are collective over the nranks ranks, use the calling thread's current
 * device and block until all ranks have called (inside a group: until the outermost
 * ncclGroupEnd; *comm is usable after it). On failure *comm is NULL. */

/* Makes an id and starts listening for the ranks that will use it, at most once each.
 * ncclInvalidUsage when no network interface is usable. */
NCCL_API(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId));
/* ncclInvalidArgument: nranks < 1, rank outside [0, nranks). ncclInvalidUsage: two ranks on one
 * GPU without NCCL_MULTI_RANK_GPU_ENABLE=1. */
NCCL_API(ncclResult_t, ncclCommInitRank,
         (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank));
/* The same with options; config NULL: all defaults. The struct is only read during the call. */
NCCL_API(ncclResult_t, ncclCommInitRankConfig,
         (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config));
/* The same with nId ids (1..nranks) that share the load of the rendezvous. Mind the order. */
NCCL_API(ncclResult_t, ncclCommInitRankScalable,
         (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds,
          ncclConfig_t *config));
/* All ranks from this thread: comms[i] is rank i on devlist[i] (NULL: device i). Always blocks
 * and keeps the current device. ndev 0 does nothing. */
NCCL_API(ncclResult_t, ncclCommInitAll, (ncclComm_t * comms, int ndev, const int *devlist));
/* Collective: completes what was enqueued; afterwards only destroy or abort. NULL: no-op. */
NCCL_API(ncclResult_t, ncclCommFinalize, (ncclComm_t comm));
/* Finalizes if needed and frees. Never waits for another rank of this process. NULL: no-op. */
NCCL_API(ncclResult_t, ncclCommDestroy, (ncclComm_t comm));
/* Frees in any state without waiting for peers; may come from another thread while a call on
 * the communicator hangs, which then fails. NULL: no-op. */
NCCL_API(ncclResult_t, ncclCommAbort, (ncclComm_t comm));
/* Ends operations in flight and forbids new ones; split, shrink and destroy still work. */
NCCL_API(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags));
/* Collective over comm: ranks of one color (>= 0) form *newcomm, ordered by key, then by rank;
 * NCCL_SPLIT_NOCOLOR gives NULL. config NULL inherits. */
NCCL_API(ncclResult_t, ncclCommSplit,
         (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config));
/* Collective over the ranks not in the list, which is sorted in place. */
NCCL_API(ncclResult_t, ncclCommShrink,
         (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm,
          ncclConfig_t *config, int shrinkFlags));
/* On one member: the id with which ncclCommGrow admits new ranks. */
NCCL_API(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId *uniqueId));
/* Members pass comm and rank -1 (the id only where it was made); newcomers comm NULL, the id and
 * their rank. nRanks is the new size. */
NCCL_API(ncclResult_t, ncclCommGrow,
         (ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank, ncclComm_t *newcomm,
          ncclConfig_t *config));

/* *asyncError: ncclSuccess, ncclInProgress, or the first error of background work. Cheap, never
 * blocks, any thread, any state. */
NCCL_API(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *asyncError));
NCCL_API(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count));
NCCL_API(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device));
NCCL_API(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank));

/* ---- memory and registration ---- */

/* Memory of the current device that every transport can map; size 0 is allowed. */
NCCL_API(ncclResult_t, ncclMemAlloc, (void **ptr, size_t size));
/* NULL: no-op. */
NCCL_API(ncclResult_t, ncclMemFree, (void *ptr));
/* Local: announces a buffer that operations will use. Counted: a range inside a registered one
 * gives the same handle. */
NCCL_API(ncclResult_t, ncclCommRegister,
         (const ncclComm_t comm, void *buff, size_t size, void **handle));
/* NULL handle: no-op; an unknown handle is ncclInvalidUsage. */
NCCL_API(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void *handle));
/* Collective: every rank gives a buffer from ncclMemAlloc; winFlags are NCCL_WIN_*. */
NCCL_API(ncclResult_t, ncclCommWindowRegister,
         (ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags));
NCCL_API(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win));
/* The buffer that was registered as `win`. */
NCCL_API(ncclResult_t, ncclWinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void **outUserPtr));
/* Collective: frees, and brings back, the communicator's own memory. flags: NCCL_SUSPEND_MEM. */
NCCL_API(ncclResult_t, ncclCommSuspend, (ncclComm_t comm, int flags));
NCCL_API(ncclResult_t, ncclCommResume, (ncclComm_t comm));
NCCL_API(ncclResult_t, ncclCommMemStats,
         (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value));

/* ---- collectives ----
 * Every rank calls with equal count, type, operator and root. The call enqueues on `stream` and
 * returns; buffers belong to the operation until the stream has passed it. count 0 does nothing.
 * ncclInvalidArgument: root outside [0, n), no such type, no such operator. */

/* A per-communicator operator: sum of scalar * input; `scalar` points to one `datatype`. */
NCCL_API(ncclResult_t, ncclRedOpCreatePreMulSum,
         (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
          ncclComm_t comm));
/* May follow the last use at once; built-in and unknown operators are ncclInvalidArgument. */
NCCL_API(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));
/* recvbuff is used at the root only. In place: sendbuff == recvbuff. */
NCCL_API(ncclResult_t, ncclReduce,
         (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
          ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream));
/* Broadcast in place. */
NCCL_API(ncclResult_t, ncclBcast,
         (void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
          cudaStream_t stream));
/* sendbuff is used at the root only. In place: sendbuff == recvbuff. */
NCCL_API(ncclResult_t, ncclBroadcast,
         (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
          ncclComm_t comm, cudaStream_t stream));
/* In place: sendbuff == recvbuff. */
NCCL_API(ncclResult_t, ncclAllReduce,
         (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
          ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream));
/* sendbuff holds n * recvcount. In place: recvbuff == sendbuff + rank * recvcount. */
NCCL_API(ncclResult_t, ncclReduceScatter,
         (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype,
          ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream));
/* recvbuff holds n * sendcount. In place: sendbuff == recvbuff + rank * sendcount. */
NCCL_API(ncclResult_t, ncclAllGather,
         (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
          ncclComm_t comm, cudaStream_t stream));
/* Block i of sendbuff (count elements) goes to rank i. Not in place. */
NCCL_API(ncclResult_t, ncclAlltoAll,
         (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
          ncclComm_t comm, cudaStream_t stream));
/* The root's recvbuff holds n * count. In place: sendbuff == recvbuff + root * count. */
NCCL_API(ncclResult_t, ncclGather,
         (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
          ncclComm_t comm, cudaStream_t stream));
/* The root's sendbuff holds n * count. In place: recvbuff == sendbuff + root * count. */
NCCL_API(ncclResult_t, ncclScatter,
         (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
          ncclComm_t comm, cudaStream_t stream));

/* ---- point to point ----
 * Messages of a pair match in the order of the calls; zero elements are a message too. Outside a
 * group the stream waits for the peer; a message to oneself needs its receive in the group. */
NCCL_API(ncclResult_t, ncclSend,
         (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
          cudaStream_t stream));
NCCL_API(ncclResult_t, ncclRecv,
         (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
          cudaStream_t stream));

/* ---- groups: per thread, they nest ---- */
NCCL_API(ncclResult_t, ncclGroupStart, (void));
/* The outermost end does everything that was called in the group, or returns the first error of
 * those calls and does nothing. ncclInvalidUsage without a start. */
NCCL_API(ncclResult_t, ncclGroupEnd, (void));
/* Ends the group, estimates its time and drops it. */
NCCL_API(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo));

/* ---- one-sided: sigIdx, ctx and flags are 0 ---- */

typedef struct {
    int opCnt; /* signals to wait for, >= 1 */
    int peer;
    int sigIdx;
    int ctx;
} ncclWaitSignalDesc_t;

/* Writes count elements at peerWinOffset bytes of the peer's window, then raises its signal. */
NCCL_API(ncclResult_t, ncclPutSignal,
         (const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
          ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags,
          ncclComm_t comm, cudaStream_t stream));
NCCL_API(ncclResult_t, ncclSignal,
         (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream));
/* The stream waits for the signals and consumes them. */
NCCL_API(ncclResult_t, ncclWaitSignal,
         (int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm, cudaStream_t stream));

/* ---- parameters: values of NCCL_* variables; no device needed ---- */

typedef struct ncclParam *ncclParamHandle_t;

/* An integer parameter has the type I64, a text Str; an unset text is "". Handles, texts and the
 * table of keys live as long as the process. Unknown key: ncclInvalidArgument. */
NCCL_API(ncclResult_t, ncclParamBind, (ncclParamHandle_t * out, const char *key));
/* ncclInvalidArgument unless the parameter has exactly this type. */
NCCL_API(ncclResult_t, ncclParamGetI8, (ncclParamHandle_t h, int8_t *out));
NCCL_API(ncclResult_t, ncclParamGetI16, (ncclParamHandle_t h, int16_t *out));
NCCL_API(ncclResult_t, ncclParamGetI32, (ncclParamHandle_t h, int32_t *out));
NCCL_API(ncclResult_t, ncclParamGetI64, (ncclParamHandle_t h, int64_t *out));
NCCL_API(ncclResult_t, ncclParamGetU8, (ncclParamHandle_t h, uint8_t *out));
NCCL_API(ncclResult_t, ncclParamGetU16, (ncclParamHandle_t h, uint16_t *out));
NCCL_API(ncclResult_t, ncclParamGetU32, (ncclParamHandle_t h, uint32_t *out));
NCCL_API(ncclResult_t, ncclParamGetU64, (ncclParamHandle_t h, uint64_t *out));
NCCL_API(ncclResult_t, ncclParamGetStr, (ncclParamHandle_t h, const char **out));
/* Copies the raw value: an I64, or the characters of a Str without a zero. *len is its length in
 * bytes; where maxLen is below that, nothing is copied: ncclInvalidArgument. */
NCCL_API(ncclResult_t, ncclParamGet, (ncclParamHandle_t h, void *out, int maxLen, int *len));
/* The value of any parameter as text. */
NCCL_API(ncclResult_t, ncclParamGetParameter, (const char *key, const char **value, int *valueLen));
NCCL_API(ncclResult_t, ncclParamGetAllParameterKeys, (const char ***table, int *tableLen));
/* Prints all parameters on stdout, each as NAME=VALUE and where the value is from. */
NCCL_API(void, ncclParamDumpAll, (void));

/* ---- host side of the device API ---- */

typedef enum {
    NCCL_GIN_TYPE_NONE = 0,
    NCCL_GIN_TYPE_PROXY = 2,
    NCCL_GIN_TYPE_GDAKI = 3,
    NCCL_GIN_TYPE_GPI = 4
} ncclGinType_t;

typedef struct ncclCommProperties {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int rank, nRanks;
    int cudaDev, nvmlDev;
    bool deviceApiSupport;
    bool multimemSupport;
    ncclGinType_t ginType;
    int nLsaTeams;
    bool hostRmaSupport;
    ncclGinType_t railedGinType;
} ncclCommProperties_t;

#define NCCL_COMM_PROPERTIES_INITIALIZER                                                           \
    {                                                                                              \
        sizeof(ncclCommProperties_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, 0, 0, 0, 0, false, false, \
            NCCL_GIN_TYPE_NONE, 0, false, NCCL_GIN_TYPE_NONE                                       \
    }

/* A subset of the ranks: rank `rank` of nRanks, neighbours `stride` world ranks apart. */
typedef struct ncclTeam {
    int nRanks, rank, stride;
} ncclTeam_t;
typedef struct ncclMultimemHandle {
    void *mcBasePtr;
} ncclMultimemHandle_t;

/* Complete in the device headers; the functions here take pointers only. */
typedef struct ncclDevComm ncclDevComm_t;
typedef struct ncclDevCommRequirements ncclDevCommRequirements_t;
typedef struct ncclDevResourceRequirements ncclDevResourceRequirements_t;
typedef struct ncclLsaBarrierHandle ncclLsaBarrierHandle_t;
typedef struct ncclLLA2AHandle ncclLLA2AHandle_t;
typedef struct ncclGinBarrierHandle ncclGinBarrierHandle_t;
typedef struct ncclGinOutboxHandle ncclGinOutboxHandle_t;
typedef struct ncclGinInboxA2AHandle ncclGinInboxA2AHandle_t;

/* props starts as NCCL_COMM_PROPERTIES_INITIALIZER. */
NCCL_API(ncclResult_t, ncclCommQueryProperties, (ncclComm_t comm, ncclCommProperties_t *props));
/* Collective; outDevComm is passed by value to kernels. Destroying is local. */
NCCL_API(ncclResult_t, ncclDevCommCreate,
         (ncclComm_t comm, const ncclDevCommRequirements_t *reqs, ncclDevComm_t *outDevComm));
NCCL_API(ncclResult_t, ncclDevCommDestroy, (ncclComm_t comm, const ncclDevComm_t *devComm));
/* Device pointers to `offset` bytes into a window; NULL where the platform has none. */
NCCL_API(ncclResult_t, ncclGetLsaDevicePointer,
         (ncclWindow_t window, size_t offset, int lsaRank, void **outPtr));
NCCL_API(ncclResult_t, ncclGetPeerDevicePointer,
         (ncclWindow_t window, size_t offset, int peer, void **outPtr));
NCCL_API(ncclResult_t, ncclGetLsaMultimemDevicePointer,
         (ncclWindow_t window, size_t offset, void **outPtr));
NCCL_API(ncclResult_t, ncclGetMultimemDevicePointer,
         (ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem, void **outPtr));
/* The team of all ranks, of those with load-store access to each other, and across these. A
 * team without ranks ({0, -1, 0}) and a rank of -1 report an error. */
NCCL_API(ncclTeam_t, ncclTeamWorld, (ncclComm_t comm));
NCCL_API(ncclTeam_t, ncclTeamLsa, (ncclComm_t comm));
NCCL_API(ncclTeam_t, ncclTeamRail, (ncclComm_t comm));
NCCL_API(int, ncclTeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank));
NCCL_API(int, ncclTeamRankToLsa, (ncclComm_t comm, ncclTeam_t team, int rank));
/* Fill in what a barrier or an exchange needs, for ncclDevCommRequirements' list. */
NCCL_API(ncclResult_t, ncclLsaBarrierCreateRequirement,
         (ncclTeam_t team, int nBarriers, ncclLsaBarrierHandle_t *outHandle,
          ncclDevResourceRequirements_t *outReq));
NCCL_API(int, ncclLLA2ACalcSlots, (int maxElts, int maxEltSize));
NCCL_API(ncclResult_t, ncclLLA2ACreateRequirement,
         (int nBlocks, int nSlots, ncclLLA2AHandle_t *outHandle,
          ncclDevResourceRequirements_t *outReq));
NCCL_API(ncclResult_t, ncclGinBarrierCreateRequirement,
         (ncclComm_t comm, ncclTeam_t team, int nBarriers, ncclGinBarrierHandle_t *outHandle,
          ncclDevResourceRequirements_t *outReq));
NCCL_API(ncclResult_t, ncclGinOutboxCreateRequirement,
         (int nBlocks, int size_log2, ncclGinOutboxHandle_t *outHandle,
          ncclDevResourceRequirements_t *outReq));
NCCL_API(ncclResult_t, ncclGinInboxA2ACreateRequirement,
         (ncclTeam_t peers, int nBlocks, int size_log2, ncclGinInboxA2AHandle_t *outHandle,
          ncclDevResourceRequirements_t *outReq));

#undef NCCL_API

#ifdef __cplusplus
}
#endif

#endif
