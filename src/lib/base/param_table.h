/* One row per parameter, sorted by variable name. Included several times with different macros;
 * the only place where a variable's name, default, range and help are written.
 * CCL_PARAM_INT(id, env, default, lowest, highest, help)   CCL_PARAM_TEXT(id, env, default, help)
 */
CCL_PARAM_INT(CACHE_BYTES, "CHORUS_CACHE_BYTES", 0, 0, 1099511627776,
              "bytes of the last-level cache; buffers of all ranks that fill more than half of it "
              "are written past it; 0: what the system says")
CCL_PARAM_INT(CHANNELS, "CHORUS_CHANNELS", 0, 0, 64,
              "channels of collectives that pass through connections; 0: 1 on host devices, which "
              "have 4 at most, and up to 32 on GPUs")
CCL_PARAM_TEXT(CPU, "CHORUS_CPU", "auto",
               "best instruction set of the host kernels: auto, base, avx2, avx512")
CCL_PARAM_TEXT(DEVICE, "CHORUS_DEVICE", "auto",
               "devices of the process: auto (GPUs where they can be used), cuda, host")
CCL_PARAM_INT(GPU_SPLIT, "CHORUS_GPU_SPLIT", 0, 0, 64,
              "so many ranks of a GPU are treated as one GPU, the next as another; 0: as it is")
CCL_PARAM_INT(HOST_DEVICES, "CHORUS_HOST_DEVICES", 8, 1, 64, "number of host devices")
CCL_PARAM_INT(HOST_QUEUES, "CHORUS_HOST_QUEUES", 0, 0, 1024,
              "in-order hardware queues that the streams of a host device share; 0: one a stream")
CCL_PARAM_INT(HOST_THREADS, "CHORUS_HOST_THREADS", 0, 0, 256,
              "worker threads of the host devices of a process; 0: one a core")
CCL_PARAM_INT(INIT_TIMEOUT_MS, "CHORUS_INIT_TIMEOUT_MS", 120000, 100, 86400000,
              "milliseconds until an initialisation that misses ranks fails, naming them")
CCL_PARAM_TEXT(SCHEDULE_FILE, "CHORUS_SCHEDULE_FILE", 0,
               "file of schedules that are proved and used where they fit (docs/schedules.md)")
CCL_PARAM_INT(SLOT_BYTES, "CHORUS_SLOT_BYTES", 131072, 1024, 16777216,
              "bytes of one FIFO slot of a connection")
CCL_PARAM_INT(SLOT_DEPTH, "CHORUS_SLOT_DEPTH", 4, 2, 64, "slots of one FIFO of a connection")
CCL_PARAM_TEXT(ALGO, "NCCL_ALGO", 0,
               "algorithms that may be used: Ring, Tree, PAT, direct, oneshot, twoshot, logstep; ^ "
               "inverts, function:list;... is per function")
CCL_PARAM_INT(BUFFSIZE, "NCCL_BUFFSIZE", 0, 0, 1073741824,
              "bytes of a FIFO of a connection, cut to slots of 1024 bytes to 16 MiB; 0: as "
              "CHORUS_SLOT_BYTES and CHORUS_SLOT_DEPTH say")
CCL_PARAM_TEXT(CHECK_MODE, "NCCL_CHECK_MODE", 0,
               "DEBUG_LOCAL or DEBUG_GLOBAL: calls examine their buffers (docs/environment.md); "
               "DEFAULT: as NCCL_CHECK_POINTERS says")
CCL_PARAM_INT(CHECK_POINTERS, "NCCL_CHECK_POINTERS", 0, 0, 1,
              "1: calls examine their buffers (docs/environment.md)")
CCL_PARAM_INT(COMM_BLOCKING, "NCCL_COMM_BLOCKING", -1, -1, 1,
              "0: calls that wait for other ranks return ncclInProgress, 1: they block; -1: as the "
              "communicator's configuration says")
CCL_PARAM_TEXT(COMM_ID, "NCCL_COMM_ID", 0, "host:port of the root; replaces the id's address")
CCL_PARAM_TEXT(CONF_FILE, "NCCL_CONF_FILE", 0,
               "file of KEY=VALUE lines that stand for variables (docs/environment.md); unset: "
               "~/.nccl.conf")
CCL_PARAM_TEXT(CTA_POLICY, "NCCL_CTA_POLICY", 0,
               "instead of config.CTAPolicy: DEFAULT, EFFICIENCY, ZERO, joined by |, or a number")
CCL_PARAM_TEXT(DEBUG, "NCCL_DEBUG", 0, "log level: VERSION, WARN, INFO, ABORT, TRACE")
CCL_PARAM_TEXT(DEBUG_FILE, "NCCL_DEBUG_FILE", 0,
               "log file; %h is the host, %p the process, %% is %")
CCL_PARAM_TEXT(DEBUG_SUBSYS, "NCCL_DEBUG_SUBSYS", "INIT,BOOTSTRAP,ENV",
               "log subsystems, comma separated; a leading ^ inverts the list")
CCL_PARAM_TEXT(DEBUG_TIMESTAMP_FORMAT, "NCCL_DEBUG_TIMESTAMP_FORMAT", "[%F %T]",
               "time before lines of the log, as strftime has it; %1f to %9f are fractions of a "
               "second")
CCL_PARAM_TEXT(DEBUG_TIMESTAMP_LEVELS, "NCCL_DEBUG_TIMESTAMP_LEVELS", "WARN",
               "levels whose lines have the time, comma separated, or ALL; a leading ^ inverts the "
               "list")
CCL_PARAM_INT(ENABLE_VERSION_CHECK, "NCCL_ENABLE_VERSION_CHECK", 1, 0, 1,
              "0: structs of the device interface may be of newer headers than this library")
CCL_PARAM_TEXT(HOSTID, "NCCL_HOSTID", 0, "text that replaces the identity of this host")
CCL_PARAM_INT(LOCAL_REGISTER, "NCCL_LOCAL_REGISTER", 1, 0, 1,
              "0: ncclCommRegister does nothing and gives a NULL handle")
CCL_PARAM_INT(LSA_TEAM_SIZE, "NCCL_LSA_TEAM_SIZE", 0, 0, 65536,
              "ranks of an LSA team divide it; 0: as many as reach each other's memory")
CCL_PARAM_INT(MAX_CTAS, "NCCL_MAX_CTAS", 0, 0, 64,
              "most channels of a communicator; the less of it and config.maxCTAs counts; 0: unset")
CCL_PARAM_INT(MAX_NCHANNELS, "NCCL_MAX_NCHANNELS", 0, 0, 64,
              "old name of NCCL_MAX_CTAS, which goes before it; 0: unset")
CCL_PARAM_INT(MIN_CTAS, "NCCL_MIN_CTAS", 0, 0, 64,
              "least channels of a communicator; the more of it and config.minCTAs counts; 0: "
              "unset")
CCL_PARAM_INT(MIN_NCHANNELS, "NCCL_MIN_NCHANNELS", 0, 0, 64,
              "old name of NCCL_MIN_CTAS, which goes before it; 0: unset")
CCL_PARAM_INT(MULTI_RANK_GPU, "NCCL_MULTI_RANK_GPU_ENABLE", 0, 0, 1,
              "1 lets several ranks of a communicator share a GPU (host devices always may)")
CCL_PARAM_INT(P2P_DISABLE, "NCCL_P2P_DISABLE", 0, 0, 1,
              "1: GPUs do not write to each other's memory, but through memory of the host")
CCL_PARAM_TEXT(PROTO, "NCCL_PROTO", 0,
               "protocols that may be used: LL, LL128 (GPUs over NVLink), Simple; same grammar as "
               "NCCL_ALGO")
CCL_PARAM_INT(SET_THREAD_NAME, "NCCL_SET_THREAD_NAME", 0, 0, 1,
              "1: the library's threads have names that begin with chorus-")
CCL_PARAM_INT(SHM_DISABLE, "NCCL_SHM_DISABLE", 0, 0, 1,
              "1: no memory of the host between GPUs; those that P2P does not serve are refused")
CCL_PARAM_TEXT(SOCKET_FAMILY, "NCCL_SOCKET_FAMILY", 0, "AF_INET or AF_INET6")
CCL_PARAM_TEXT(SOCKET_IFNAME, "NCCL_SOCKET_IFNAME", 0,
               "interface name prefixes; a leading ^ excludes, = matches exactly")
