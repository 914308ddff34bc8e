/* SPDX-License-Identifier: MIT */
/* How fast a disk is, from reads that took some time. */
#include <math.h>

#include "../../lib/model/model.h"

static int n_tests, n_failed;

static void
is(double got, double want, const char *what)
{
	bool good = fabs(got - want) <= 1e-9 * want;

	printf("%sok %d - %s\n", good ? "" : "not ", ++n_tests, what);
	if (!good)
		printf("# got %g, want %g\n", got, want);
	n_failed += !good;
}

int
main(void)
{
	const uint64_t mb = 1000000;
	struct timed_read one[] = { { mb, 0.5 } };
	struct timed_read even[] = { { mb, 1 }, { mb, 2 } };
	struct timed_read odd[] = { { mb, 4 }, { mb, 1 }, { mb, 2 } };
	struct timed_read still[] = { { mb, 0 }, { mb, 0 } };
	struct timed_read none[] = { { 0, 1 } };
	struct timed_read stall[16], small[16], slow[16];
	size_t i;

	is(median_speed(one, 0), 0, "no read");
	is(median_speed(none, 1), 0, "no bytes");
	is(median_speed(one, 1), 2e6, "one read");
	is(median_speed(even, 2), 5e5, "two: the slower");
	is(median_speed(odd, 3), 5e5, "three, not in order");
	is(median_speed(still, 2), 1e15, "a clock that stands");
	for (i = 0; i < 16; i++) {
		/* 1 GB/s; some were held up for half a second */
		stall[i] = (struct timed_read){ mb, i % 3 == 1 ? 0.5 : 1e-3 };
		/* half of them are small and all delay */
		small[i] = (struct timed_read){ i % 2 ? mb : 4096, 1e-3 };
		slow[i] = (struct timed_read){ mb, i == 3 ? 1e-3 : 0.05 };
	}
	is(median_speed(stall, 16), 1e9, "stalls do not count");
	is(median_speed(small, 16), 1e9, "nor do small reads");
	is(median_speed(slow, 16), 2e7, "a slow disk, and a fast read");
	printf("1..%d\n", n_tests);
	return n_failed > 0;
}
