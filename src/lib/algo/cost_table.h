/* What the cost model knows of a machine; measured on host devices by scripts/tune, which prints
 * new rows. Included by cost.c with a macro.
 * CCL_COST(algorithm, protocol, where, base_us, hop_us, bytes_per_us)
 *     where: IN_PROCESS or ACROSS (connections between processes); base_us: a call whose executors
 *     are all there; hop_us: one message; bytes_per_us: what one core moves, reads and writes
 *     counted.
 */
CCL_COST(direct, SIMPLE, IN_PROCESS, 0.22, 0.839, 7550)
CCL_COST(oneshot, SIMPLE, IN_PROCESS, 1.70, 0.205, 11390)
CCL_COST(oneshot, LL, IN_PROCESS, 1.92, 0.590, 2935)
CCL_COST(twoshot, SIMPLE, IN_PROCESS, 1.53, 0.242, 10276)
CCL_COST(twoshot, LL, IN_PROCESS, 0.00, 0.328, 2121)
CCL_COST(ring, SIMPLE, IN_PROCESS, 1.40, 0.212, 9834)
CCL_COST(ring, LL, IN_PROCESS, 2.43, 0.129, 3857)
CCL_COST(tree, SIMPLE, IN_PROCESS, 0.00, 0.649, 18156)
CCL_COST(tree, LL, IN_PROCESS, 0.00, 0.591, 4890)
CCL_COST(logstep, SIMPLE, IN_PROCESS, 1.76, 0.371, 28093)
CCL_COST(logstep, LL, IN_PROCESS, 0.00, 1.094, 8765)
CCL_COST(oneshot, SIMPLE, ACROSS, 0.00, 2.240, 6810)
CCL_COST(oneshot, LL, ACROSS, 0.00, 1.351, 1912)
CCL_COST(twoshot, SIMPLE, ACROSS, 0.00, 1.920, 8089)
CCL_COST(twoshot, LL, ACROSS, 7.25, 0.903, 2391)
CCL_COST(ring, SIMPLE, ACROSS, 4.04, 1.411, 8148)
CCL_COST(ring, LL, ACROSS, 6.27, 1.196, 2514)
CCL_COST(tree, SIMPLE, ACROSS, 0.00, 4.224, 13197)
CCL_COST(tree, LL, ACROSS, 0.00, 3.893, 7777)
CCL_COST(logstep, SIMPLE, ACROSS, 0.00, 4.498, 13974)
CCL_COST(logstep, LL, ACROSS, 1.27, 3.786, 9185)
