/* What the cost model knows of a machine; measured on host devices by scripts/tune, which prints
 * new rows. Included by cost.c with a macro.
 * CCL_COST(algorithm, protocol, where, base_us, hop_us, bytes_per_us)
 *     where: IN_PROCESS or ACROSS (connections between processes); base_us: a call whose executors
 *     are all there; hop_us: one message; bytes_per_us: what one core moves, reads and writes
 *     counted.
 */
CCL_COST(direct, SIMPLE, IN_PROCESS, 1.0, 0.5, 12000)
CCL_COST(oneshot, SIMPLE, IN_PROCESS, 1.5, 0.20, 8000)
CCL_COST(oneshot, LL, IN_PROCESS, 1.5, 0.15, 2500)
CCL_COST(twoshot, SIMPLE, IN_PROCESS, 1.5, 0.20, 8000)
CCL_COST(twoshot, LL, IN_PROCESS, 1.5, 0.15, 2500)
CCL_COST(ring, SIMPLE, IN_PROCESS, 1.5, 0.25, 8000)
CCL_COST(ring, LL, IN_PROCESS, 1.5, 0.20, 2500)
CCL_COST(tree, SIMPLE, IN_PROCESS, 1.5, 0.40, 8000)
CCL_COST(tree, LL, IN_PROCESS, 1.5, 0.35, 2500)
CCL_COST(logstep, SIMPLE, IN_PROCESS, 1.5, 0.25, 6000)
CCL_COST(logstep, LL, IN_PROCESS, 1.5, 0.20, 2500)
CCL_COST(oneshot, SIMPLE, ACROSS, 3.0, 0.60, 8000)
CCL_COST(oneshot, LL, ACROSS, 3.0, 0.50, 2500)
CCL_COST(twoshot, SIMPLE, ACROSS, 3.0, 0.60, 8000)
CCL_COST(twoshot, LL, ACROSS, 3.0, 0.50, 2500)
CCL_COST(ring, SIMPLE, ACROSS, 3.0, 0.70, 8000)
CCL_COST(ring, LL, ACROSS, 3.0, 0.60, 2500)
CCL_COST(tree, SIMPLE, ACROSS, 3.0, 0.80, 8000)
CCL_COST(tree, LL, ACROSS, 3.0, 0.70, 2500)
CCL_COST(logstep, SIMPLE, ACROSS, 3.0, 0.60, 6000)
CCL_COST(logstep, LL, ACROSS, 3.0, 0.50, 2500)
