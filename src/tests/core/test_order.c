#include "unit/test.h"
static void n(void)
{
}
static const struct test_case cases[] = {{"n", n, 0}};
TEST_MAIN(cases)
