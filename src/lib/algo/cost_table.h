/* What the cost model knows of a machine; measured on host devices by scripts/tune, which prints
 * new rows. Included by cost.c with a macro.
 * CCL_COST(algorithm, protocol, where, base_us, hop_us, bytes_per_us)
 *     where: IN_PROCESS or ACROSS (connections between processes); base_us: a call whose executors
 *     are all there; hop_us: one message; bytes_per_us: what one core moves, reads and writes
 *     counted.
 */
CCL_COST(direct, SIMPLE, IN_PROCESS, 2.06, 0.305, 10957)
CCL_COST(oneshot, SIMPLE, IN_PROCESS, 0.62, 0.576, 14954)
CCL_COST(oneshot, LL, IN_PROCESS, 3.19, 0.368, 4114)
CCL_COST(twoshot, SIMPLE, IN_PROCESS, 1.91, 0.198, 21661)
CCL_COST(twoshot, LL, IN_PROCESS, 3.15, 0.090, 2682)
CCL_COST(ring, SIMPLE, IN_PROCESS, 0.85, 0.310, 17709)
CCL_COST(ring, LL, IN_PROCESS, 1.94, 0.215, 6367)
CCL_COST(tree, SIMPLE, IN_PROCESS, 0.00, 0.790, 14744)
CCL_COST(tree, LL, IN_PROCESS, 0.00, 1.102, 5010)
CCL_COST(logstep, SIMPLE, IN_PROCESS, 0.42, 0.857, 36186)
CCL_COST(logstep, LL, IN_PROCESS, 2.33, 0.553, 10980)
CCL_COST(direct, SIMPLE, ACROSS, 2.06, 1.000, 10957)
CCL_COST(oneshot, SIMPLE, ACROSS, 1.85, 1.525, 17880)
CCL_COST(oneshot, LL, ACROSS, 0.00, 0.737, 3610)
CCL_COST(twoshot, SIMPLE, ACROSS, 0.00, 0.642, 21293)
CCL_COST(twoshot, LL, ACROSS, 0.00, 0.569, 3699)
CCL_COST(ring, SIMPLE, ACROSS, 0.00, 0.380, 19252)
CCL_COST(ring, LL, ACROSS, 0.00, 0.616, 8409)
CCL_COST(tree, SIMPLE, ACROSS, 0.00, 1.149, 13343)
CCL_COST(tree, LL, ACROSS, 0.00, 0.953, 4691)
CCL_COST(logstep, SIMPLE, ACROSS, 0.00, 1.627, 49824)
CCL_COST(logstep, LL, ACROSS, 0.00, 1.597, 18384)
