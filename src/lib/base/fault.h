/* Fault points: places where a test can make the library fail, compiled in with FAULTS=1.
 *
 * CHORUS_FAULTS="point:n[:action],..." acts at the n-th pass (1-based) of a point of the process;
 * n may be "3+" for the third and all later passes. Actions: fail (default), kill (SIGKILL),
 * stop (SIGSTOP), exit. Without FAULTS=1 a point is the constant 0 and costs nothing.
 */
#ifndef CCL_BASE_FAULT_H
#define CCL_BASE_FAULT_H

#ifdef CCL_FAULTS
/* True when the caller has to behave as if the operation at this point had failed. */
int ccl_fault_hit(const char *point);
/* How often a point of this process has acted; for tests, which count passes until none does. */
unsigned ccl_fault_acted(void);
/* No point acts from here on. */
void ccl_fault_disarm(void);
#define CCL_FAULT(point) (ccl_fault_hit(point))
#define CCL_HAS_FAULTS   1
#else
#define ccl_fault_acted()  (0u)
#define ccl_fault_disarm() ((void)0)
#define CCL_HAS_FAULTS     0
#define CCL_FAULT(point)   (0)
#endif

#endif
