/* One row per option, in the order of --help; the only place where an option is described. The
 * parser, its range checks, the defaults, --help, the man pages and the bash completion are made
 * from the rows, the environment rows likewise. Included several times with different macros.
 * PERF_GROUP(id, title)
 * PERF_OPTION(group, short, long, kind, field, min, max, default, unit, argument, help)
 *     kind FLAG takes no argument and stores min; a default that is no number is only shown.
 * PERF_VARIABLE(name, help) */
PERF_GROUP(RANKS, "Ranks")
PERF_OPTION(RANKS, 't', "nthreads", INT, threads, 1, 1024, "1", "threads", "N",
            "threads of a process")
PERF_OPTION(RANKS, 'g', "ngpus", INT, gpus, 1, 1024, "1", "devices", "N",
            "devices, one rank each, of a thread")
PERF_OPTION(RANKS, 0, "spawn", INT, spawn, 1, 1024, "off", "processes", "N",
            "start N local processes that form one world; no launcher needed")
PERF_OPTION(RANKS, 0, "init", INIT, init, 0, 0, "auto", "", "MODE",
            "who forms the communicators: auto, all (ncclCommInitAll), thread, mpi, env (RANK, "
            "WORLD_SIZE, MASTER_ADDR, MASTER_PORT) or spawn")
PERF_OPTION(RANKS, 'p', "parallel_init", INT, parallel_init, 0, 1, "0", "", "0|1",
            "1: each thread initialises its own ranks; 0: the main thread all of them")

PERF_OPTION(
    RANKS, 0, "device", DEVICE, device, 0, 0, "auto", "", "KIND",
    "what the ranks run on: cuda (GPUs), host (host devices), or auto: GPUs if there are any "
    "that the library can use, else host devices")
PERF_OPTION(RANKS, 0, "library", TEXT, library, 0, 0, "ours", "", "PATH",
            "run on the libnccl.so.2 at PATH, of whomever; the program restarts with it preloaded")

PERF_GROUP(SIZES, "Sizes")
PERF_OPTION(SIZES, 'b', "minbytes", SIZE, min_bytes, 0, INT64_MAX, "32M", "bytes", "SIZE",
            "first size; k, m, g and t are powers of 1024, fractions allowed")
PERF_OPTION(SIZES, 'e', "maxbytes", SIZE, max_bytes, 0, INT64_MAX, "32M", "bytes", "SIZE",
            "last size")
PERF_OPTION(SIZES, 'i', "stepbytes", SIZE, step_bytes, 1, INT64_MAX, "1M", "bytes", "SIZE",
            "distance between sizes, unless -f is given")
PERF_OPTION(SIZES, 'f', "stepfactor", FACTOR, step_factor, 1, 1000000, "off", "", "FACTOR",
            "each size is FACTOR, greater than 1, times the one before")
PERF_OPTION(SIZES, 0, "exact", FLAG, exact, 1, 1, "off", "", "",
            "run element counts as asked instead of rounding a rank's share to 16 bytes")
PERF_OPTION(SIZES, 'u', "unalign", INT, unaligned, 0, 1024, "0", "elements", "N",
            "shift the start of both buffers by N elements")

PERF_GROUP(WORK, "Operation")
PERF_OPTION(WORK, 'o', "op", OP, op, 0, 0, "sum", "", "OP",
            "sum, prod, max, min, avg, mulsum (a PreMulSum made around each call) or all")
PERF_OPTION(WORK, 'd', "datatype", TYPE, type, 0, 0, "float", "", "TYPE",
            "int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3, "
            "f8e5m2 or all")
PERF_OPTION(WORK, 'r', "root", ROOT, root, 0, INT_MAX, "0", "rank", "RANK",
            "root rank; all or -1: every rank in turn")
PERF_OPTION(WORK, 'z', "blocking", INT, blocking, 0, 3, "0", "", "0..3",
            "wait and barrier after each call (1), wait only (2), or wait and barrier after each "
            "-m group (3)")
PERF_OPTION(WORK, 'y', "stream_null", INT, null_stream, 0, 1, "0", "", "0|1",
            "1: use the NULL stream")
PERF_OPTION(WORK, 'G', "cudagraph", INT, graph_launches, 0, INT_MAX, "0", "launches", "N",
            "capture the iterations in a graph and launch it N times; GPUs only")
PERF_OPTION(WORK, 'R', "local_register", INT, local_register, 0, 2, "0", "", "0..2",
            "register the buffers, from ncclMemAlloc: local (1) or symmetric (2) windows")
PERF_OPTION(WORK, 'x', "cta_policy", INT, cta_policy, 0, 2, "unset", "", "0..2",
            "CTA policy of the communicator: default, efficiency, zero")
PERF_OPTION(WORK, 0, "pairs", FLAG, pairs, 1, 1, "off", "", "",
            "pingpong, oneway, twoway: one pair of ranks after the other, and the table of all")
PERF_OPTION(WORK, 'D', "device_implementation", INT, device_impl, 0, INT_MAX, "0", "", "N",
            "number of the driver's own device kernel; 0: the library's collective")
PERF_OPTION(WORK, 'V', "device_cta_count", INT, device_ctas, 1, 127, "unset", "CTAs", "N",
            "CTAs of the device kernel that -D chose")

PERF_GROUP(TIMING, "Timing")
PERF_OPTION(TIMING, 'n', "iters", INT, iters, 0, INT_MAX, "20", "iterations", "N",
            "timed iterations of a row; 0: until interrupted")
PERF_OPTION(TIMING, 'w', "warmup_iters", INT, warmup, 0, INT_MAX, "1", "iterations", "N",
            "iterations before the timed ones, at each size")
PERF_OPTION(TIMING, 'm', "agg_iters", INT, agg_iters, 1, INT_MAX, "1", "calls", "N",
            "calls in one group of an iteration")
PERF_OPTION(TIMING, 'N', "run_cycles", INT, run_cycles, 0, INT_MAX, "1", "cycles", "N",
            "times that the whole series of sizes runs; 0: until interrupted")
PERF_OPTION(TIMING, 'a', "average", INT, average, 0, 3, "1", "", "0..3",
            "which rank's time counts: rank 0's (0), average (1), minimum (2), maximum (3)")
PERF_OPTION(TIMING, 0, "until_stable", PERCENT, until_stable, 0, 1000, "off", "%", "P",
            "repeat the -n iterations of a row until the 95 % confidence interval of their mean "
            "is within P % of it, 3 to 100 times")
PERF_OPTION(TIMING, 0, "rotate", FLAG, rotate, 1, 1, "off", "", "",
            "let calls take turns through buffers that together are larger than the cache")
PERF_OPTION(TIMING, 'T', "timeout", SECONDS, timeout_s, 0, 1000000000, "120", "seconds", "S",
            "end with exit code 4 when no rank makes progress for S; 0: never")

PERF_GROUP(CHECK, "Verification")
PERF_OPTION(CHECK, 'c', "check", INT, check, 0, INT_MAX, "1", "iterations", "N",
            "iterations whose results are compared bit for bit on every rank; 0: none")
PERF_OPTION(CHECK, 0, "selftest", FLAG, selftest_only, 1, 1, "off", "", "",
            "only test the verification itself and say what this program holds")
PERF_OPTION(CHECK, 0, "preflight", FLAG, preflight, 1, 1, "off", "", "",
            "only form the world and let each pair of ranks talk, then report")

PERF_GROUP(BASELINE, "Comparison with an earlier run")
PERF_OPTION(
    BASELINE, 0, "baseline", TEXT, baseline, 0, 0, "none", "", "FILE",
    "end with exit code 5 when a row is slower than in the record FILE (.json or .jsonl) and "
    "those of further runs, FILE.0, FILE.1 ..., or 6 when they cannot be compared")
PERF_OPTION(BASELINE, 0, "tolerance", PERCENT, tolerance, 0, 1000, "auto", "%", "P",
            "how much slower a row may be; auto: 5 %, or as much as the baseline's runs differ")
PERF_OPTION(BASELINE, 0, "baseline_anyway", FLAG, baseline_anyway, 1, 1, "off", "", "",
            "compare with the baseline of another machine or set-up, or on a disturbed GPU")

PERF_GROUP(REPORT, "Report")
PERF_OPTION(REPORT, 'J', "output_file", TEXT, json_file, 0, 0, "none", "", "FILE",
            "write a record to FILE: JSON, or by its suffix .jsonl, .csv or .xml (JUnit); if it "
            "exists to the first free of FILE.0, FILE.1, ...")
PERF_OPTION(REPORT, 'I', "per_iter_timing", INT, iter_report, 0, 1, "0", "", "0|1",
            "time each iteration; adds columns i_min, i_max, i_p99 and i_cv%")
PERF_OPTION(REPORT, 'K', "per_iter_skip", INT, iter_skip, 0, INT_MAX, "0", "iterations", "N",
            "leave the first N iterations out of what -I reports")
PERF_OPTION(REPORT, 'C', "report_cputime", INT, report_cputime, 0, 1, "0", "", "0|1",
            "add the time that the calls themselves took")
PERF_OPTION(REPORT, 'S', "report_timestamps", INT, timestamps, 0, 1, "0", "", "0|1",
            "add date and time to each row")
PERF_OPTION(
    REPORT, 'M', "memory", INT, memory_report, 0, 1, "0", "", "0|1",
    "add lines with the memory of library and buffers, of each rank, and what is not given back")
PERF_OPTION(REPORT, 0, "schedule", TEXT, schedule_file, 0, 0, "none", "", "FILE",
            "add to each row what ran (algorithm/protocol/channels/transport) and write the "
            "schedule of the last row to FILE, none if FILE is -")

PERF_GROUP(INFO, "Information")
PERF_OPTION(INFO, 0, "devices", FLAG, show_devices, 1, 1, "off", "", "",
            "list the devices of this process and end")
PERF_OPTION(INFO, 0, "version", FLAG, action, PERF_SHOW_VERSION, 0, "off", "", "",
            "show versions, paths, devices and MPI, and end")
PERF_OPTION(INFO, 0, "man", FLAG, action, PERF_SHOW_MAN, 0, "off", "", "",
            "print the man page (troff) and end")
PERF_OPTION(INFO, 0, "completion", FLAG, action, PERF_SHOW_COMPLETION, 0, "off", "", "",
            "print the bash completion and end")
PERF_OPTION(INFO, 'h', "help", FLAG, action, PERF_SHOW_HELP, 0, "off", "", "",
            "show this text and end")

PERF_VARIABLE("NCCL_TESTS_DEVICE", "device of local rank 0; local rank i uses the i-th after it")
PERF_VARIABLE("NCCL_TESTS_MIN_BW", "exit code 5 if the average busbw is below 0.9 times this, GB/s")
PERF_VARIABLE("NCCL_TESTS_SPLIT", "groups of ranks: AND, OR, MOD or DIV (or & | % /) and a number")
PERF_VARIABLE("NCCL_TESTS_SPLIT_MASK", "groups of ranks: a rank's group is its number AND the mask")
PERF_VARIABLE("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", "alltoallv: file of the traffic matrix")
PERF_VARIABLE("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", "alltoallv: factor for all of the matrix")
PERF_VARIABLE("NCCL_TESTS_ALLTOALLV_SPREAD", "alltoallv: unevenness of the built-in matrix")
PERF_VARIABLE("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", "alltoallv: 1 prints what each rank moves")
PERF_VARIABLE("CHORUS_DEVICE", "with our library, the default of --device")
PERF_VARIABLE("CHORUS_HOST_DEVICES", "number of host devices (default 8)")
PERF_VARIABLE("CHORUS_HOST_QUEUES", "in-order queues that the streams of a host device share")
PERF_VARIABLE("NCCL_MULTI_RANK_GPU_ENABLE",
              "1 lets ranks share a GPU; set by the program for more ranks than GPUs, unless set")
PERF_VARIABLE("NO_COLOR", "when set, no colour on a terminal")
