/* What the cost model knows of a machine; measured on host devices by scripts/tune, which prints
 * new rows. Included by cost.c with a macro.
 * CCL_COST(algorithm, protocol, where, base_us, hop_us, turn_us, bytes_per_us)
 *     where: IN_PROCESS or ACROSS (connections between processes); base_us: a call whose executors
 *     are all there; hop_us: one message; turn_us: one more executor on the same core gets its
 *     turn; bytes_per_us: what one core moves, reads and writes counted.
 */
CCL_COST(direct, SIMPLE, IN_PROCESS, 0.68, 0.165, 1.211, 31000)
CCL_COST(oneshot, SIMPLE, IN_PROCESS, 0.51, 0.120, 0.200, 13500)
CCL_COST(oneshot, LL, IN_PROCESS, 0.45, 0.150, 0.000, 2861)
CCL_COST(twoshot, SIMPLE, IN_PROCESS, 1.76, 0.101, 0.665, 18506)
CCL_COST(twoshot, LL, IN_PROCESS, 0.54, 0.124, 0.429, 3028)
CCL_COST(ring, SIMPLE, IN_PROCESS, 0.26, 0.147, 0.000, 14234)
CCL_COST(ring, LL, IN_PROCESS, 0.00, 0.156, 0.050, 5215)
CCL_COST(tree, SIMPLE, IN_PROCESS, 0.00, 0.351, 0.791, 16709)
CCL_COST(tree, LL, IN_PROCESS, 0.00, 0.618, 0.774, 6179)
CCL_COST(logstep, SIMPLE, IN_PROCESS, 0.00, 0.536, 0.426, 33829)
CCL_COST(logstep, LL, IN_PROCESS, 0.62, 0.663, 0.000, 15400)
CCL_COST(direct, SIMPLE, ACROSS, 3.62, 3.079, 19.380, 14157)
CCL_COST(oneshot, SIMPLE, ACROSS, 1.15, 0.129, 8.554, 15624)
CCL_COST(oneshot, LL, ACROSS, 0.00, 0.230, 8.104, 5000)
CCL_COST(twoshot, SIMPLE, ACROSS, 1.31, 0.001, 3.520, 25656)
CCL_COST(twoshot, LL, ACROSS, 1.83, 0.001, 2.956, 3211)
CCL_COST(ring, SIMPLE, ACROSS, 0.00, 0.190, 2.024, 23398)
CCL_COST(ring, LL, ACROSS, 0.00, 0.287, 1.850, 7995)
CCL_COST(tree, SIMPLE, ACROSS, 1.46, 0.001, 3.577, 16650)
CCL_COST(tree, LL, ACROSS, 0.00, 0.465, 3.582, 2112)
CCL_COST(logstep, SIMPLE, ACROSS, 0.00, 0.962, 3.360, 34506)
CCL_COST(logstep, LL, ACROSS, 0.00, 0.428, 6.150, 9443)
