/* SPDX-License-Identifier: MIT */
/* Uniform numbers, and the choice they make. */
#include "sample.h"

/*
 * Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
 * easy as 1, 2, 3" (2011): ten rounds that scramble a counter of four words
 * under a key of two. The seed is the key, sequence and position the counter.
 */
static void
philox(uint64_t seed, uint64_t seq, uint64_t pos, uint64_t out[2])
{
	uint32_t c[4] = { (uint32_t)pos, (uint32_t)(pos >> 32),
	    (uint32_t)seq, (uint32_t)(seq >> 32) };
	uint32_t k[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
	uint64_t a, b;
	int round;

	for (round = 0; round < 10; round++) {
		a = (uint64_t)c[0] * 0xd2511f53u;
		b = (uint64_t)c[2] * 0xcd9e8d57u;
		c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k[0];
		c[1] = (uint32_t)b;
		c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k[1];
		c[3] = (uint32_t)a;
		k[0] += 0x9e3779b9u;	/* golden ratio */
		k[1] += 0xbb67ae85u;	/* square root of 3, less 1 */
	}
	out[0] = (uint64_t)c[0] << 32 | c[1];
	out[1] = (uint64_t)c[2] << 32 | c[3];
}

/* 53 bits fill a double exactly: no rounding, so never 1. */
static double
uniform(uint64_t bits)
{
	return (double)(bits >> 11) * 0x1p-53;
}

double
pico_draw(uint64_t seed, uint64_t seq, uint64_t pos)
{
	uint64_t w[2];

	philox(seed, seq, pos, w);
	return uniform(w[0]);
}

double
pico_draw_other(uint64_t seed, uint64_t seq, uint64_t pos)
{
	uint64_t w[2];

	philox(seed, seq, pos, w);
	return uniform(w[1]);
}

int32_t
pico_choose(const struct pico_cand *cand, size_t n, double u)
{
	int32_t id = cand[0].id;
	double sum = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		if (!(cand[i].p > 0))
			continue;
		id = cand[i].id;
		sum += cand[i].p;
		if (u < sum)
			break;
	}
	/* Rounding may leave the sum of all just below u: the last one then. */
	return id;
}
