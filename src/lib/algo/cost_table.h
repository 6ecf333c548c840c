/* What the cost model knows of a machine; measured on host devices by scripts/tune, which prints
 * new rows. Included by cost.c with a macro.
 * CCL_COST(algorithm, protocol, where, base_us, hop_us, turn_us, bytes_per_us)
 *     where: IN_PROCESS or ACROSS (connections between processes); base_us: a call whose executors
 *     are all there; hop_us: one message; turn_us: one more executor on the same core gets its
 *     turn; bytes_per_us: what one core moves, reads and writes counted.
 */
CCL_COST(direct, SIMPLE, IN_PROCESS, 0.98, 0.282, 2.022, 17947)
CCL_COST(oneshot, SIMPLE, IN_PROCESS, 1.09, 0.044, 1.850, 17293)
CCL_COST(oneshot, LL, IN_PROCESS, 1.42, 0.001, 2.431, 4469)
CCL_COST(twoshot, SIMPLE, IN_PROCESS, 1.32, 0.072, 0.913, 21991)
CCL_COST(twoshot, LL, IN_PROCESS, 1.64, 0.001, 1.381, 3507)
CCL_COST(ring, SIMPLE, IN_PROCESS, 0.02, 0.212, 0.000, 19974)
CCL_COST(ring, LL, IN_PROCESS, 0.00, 0.119, 0.032, 5417)
CCL_COST(tree, SIMPLE, IN_PROCESS, 1.43, 0.001, 0.462, 20393)
CCL_COST(tree, LL, IN_PROCESS, 0.28, 1.092, 0.000, 9384)
CCL_COST(logstep, SIMPLE, IN_PROCESS, 0.04, 0.751, 0.000, 34832)
CCL_COST(logstep, LL, IN_PROCESS, 0.02, 0.451, 1.586, 12545)
CCL_COST(direct, SIMPLE, ACROSS, 2.34, 0.700, 5.731, 17947)
CCL_COST(oneshot, SIMPLE, ACROSS, 2.34, 0.001, 5.731, 20036)
CCL_COST(oneshot, LL, ACROSS, 0.00, 0.356, 1.507, 5919)
CCL_COST(twoshot, SIMPLE, ACROSS, 1.75, 0.001, 4.473, 23485)
CCL_COST(twoshot, LL, ACROSS, 0.73, 0.109, 2.388, 4242)
CCL_COST(ring, SIMPLE, ACROSS, 0.00, 0.456, 0.553, 20705)
CCL_COST(ring, LL, ACROSS, 0.00, 0.262, 1.297, 11941)
CCL_COST(tree, SIMPLE, ACROSS, 2.35, 0.001, 3.986, 18007)
CCL_COST(tree, LL, ACROSS, 1.62, 0.001, 3.587, 5592)
CCL_COST(logstep, SIMPLE, ACROSS, 0.00, 0.963, 2.403, 34858)
CCL_COST(logstep, LL, ACROSS, 0.00, 0.932, 2.527, 16813)
