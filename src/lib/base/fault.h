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
#define CCL_FAULT(point) (ccl_fault_hit(point))
#else
#define CCL_FAULT(point) (0)
#endif

#endif
