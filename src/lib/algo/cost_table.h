/* What the cost model knows of a machine; measured on host devices by scripts/tune, which prints
 * new rows. Included by cost.c with a macro.
 * CCL_COST(algorithm, protocol, where, base_us, hop_us, turn_us, bytes_per_us)
 *     where: IN_PROCESS or ACROSS (connections between processes); base_us: a call whose executors
 *     are all there; hop_us: one message; turn_us: one more executor on the same core gets its
 *     turn; bytes_per_us: what one core moves, reads and writes counted.
 */
CCL_COST(direct, SIMPLE, IN_PROCESS, 3.52, 0.707, 1.162, 17070)
CCL_COST(oneshot, SIMPLE, IN_PROCESS, 2.73, 0.253, 0.000, 15106)
CCL_COST(oneshot, LL, IN_PROCESS, 1.50, 0.372, 0.000, 4465)
CCL_COST(twoshot, SIMPLE, IN_PROCESS, 2.29, 0.001, 1.389, 17959)
CCL_COST(twoshot, LL, IN_PROCESS, 1.70, 0.008, 1.328, 4424)
CCL_COST(ring, SIMPLE, IN_PROCESS, 0.42, 0.188, 0.076, 17321)
CCL_COST(ring, LL, IN_PROCESS, 0.92, 0.113, 0.000, 4704)
CCL_COST(tree, SIMPLE, IN_PROCESS, 4.19, 0.001, 0.744, 19346)
CCL_COST(tree, LL, IN_PROCESS, 5.06, 0.001, 0.708, 7054)
CCL_COST(logstep, SIMPLE, IN_PROCESS, 0.23, 0.520, 0.000, 25490)
CCL_COST(logstep, LL, IN_PROCESS, 2.57, 0.647, 0.307, 15729)
CCL_COST(direct, SIMPLE, ACROSS, 3.64, 1.695, 8.247, 25289)
CCL_COST(oneshot, SIMPLE, ACROSS, 0.80, 0.707, 1.723, 16452)
CCL_COST(oneshot, LL, ACROSS, 0.40, 0.470, 3.060, 4328)
CCL_COST(twoshot, SIMPLE, ACROSS, 1.67, 0.185, 2.542, 19857)
CCL_COST(twoshot, LL, ACROSS, 2.18, 0.104, 4.089, 4850)
CCL_COST(ring, SIMPLE, ACROSS, 0.00, 0.318, 2.040, 17525)
CCL_COST(ring, LL, ACROSS, 0.00, 0.364, 1.003, 6311)
CCL_COST(tree, SIMPLE, ACROSS, 3.18, 0.001, 5.059, 14745)
CCL_COST(tree, LL, ACROSS, 2.55, 0.001, 3.799, 4568)
CCL_COST(logstep, SIMPLE, ACROSS, 0.00, 0.949, 3.017, 31106)
CCL_COST(logstep, LL, ACROSS, 0.00, 0.763, 6.029, 11076)
