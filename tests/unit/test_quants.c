/* SPDX-License-Identifier: MIT */
/*
 * Every tensor type against stored values, equal to the last bit. The blocks in
 * tests/data/quants are random bits that reach every entry of every grid; what
 * they mean is compared by checksum. If ../shared/conformance/quants is there,
 * its vectors are compared value by value.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/base/base.h"

static const struct {
	const char *type;
	uint64_t hash;	/* of the values, -0 as 0 */
} vectors[] = {
	{ "F16", 0xce2518a34f0f8a8b },
	{ "BF16", 0x61d0445ded2e4675 },
	{ "Q4_0", 0xbdaa6d89a30ad091 },
	{ "Q4_1", 0x14cca7075f1b81c4 },
	{ "Q5_0", 0xf374cb6843003d3f },
	{ "Q5_1", 0x173f2febeefc89ef },
	{ "Q8_0", 0xd9b3839b81ef6c21 },
	{ "Q2_K", 0x0d872f20b291c034 },
	{ "Q3_K", 0xe1f3a268d13e35ab },
	{ "Q4_K", 0x6247ce8846de0bbf },
	{ "Q5_K", 0x0ba98b1e2e93c9df },
	{ "Q6_K", 0x5b7a50eb8b45baf2 },
	{ "IQ1_S", 0x2217db868593804d },
	{ "IQ1_M", 0xfd788189fd6a1987 },
	{ "IQ2_XXS", 0xa7ae3194debba7d7 },
	{ "IQ2_XS", 0x70391826f4ecdd86 },
	{ "IQ2_S", 0x2dd28d9f258eef2d },
	{ "IQ3_XXS", 0x9e2e26a8bf382f99 },
	{ "IQ3_S", 0x6d064cf3131d94ed },
	{ "IQ4_NL", 0x86099405d2a6b49a },
	{ "IQ4_XS", 0xd417ae9e39337e8e },
	{ "TQ1_0", 0xfe0d3b8c43485fde },
	{ "TQ2_0", 0xb4dbda5dbcd9625d },
	{ "MXFP4", 0xaa7adbe50ff45c3b },
	{ "NVFP4", 0x6ea58573032836b1 },
	{ "Q1_0", 0x55bdd547f2db4828 },
	{ "Q2_0", 0x72e120291b08a366 },
};

static int n_tests, n_failed;

static void
ok(bool good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++n_tests, what);
	n_failed += !good;
}

static float *
decode(const struct pico_type *type, const struct map *bin, size_t *n)
{
	float *y;

	*n = (size_t)bin->n / type->bytes * type->block;
	y = malloc(*n * sizeof *y);
	if (y == NULL || *n == 0 ||
	    pico_dequantize(type->id, bin->p, y, *n) < 0) {
		free(y);
		return NULL;
	}
	return y;
}

static void
check_hash(const char *name, uint64_t want)
{
	const struct pico_type *type = pico_type_named(name);
	struct map bin;
	char path[100];
	size_t n, i;
	float *y;

	(void)snprintf(path, sizeof path, "tests/data/quants/%s.bin", name);
	if (map_open(&bin, path, NULL) < 0) {
		ok(false, path);
		return;
	}
	y = decode(type, &bin, &n);
	for (i = 0; y != NULL && i < n; i++)
		y[i] = y[i] == 0.0f ? 0.0f : y[i];
	ok(y != NULL && hash_bytes(HASH_START, y, n * sizeof *y) == want, path);
	free(y);
	map_close(&bin);
}

static void
check_values(const char *name, const char *kind)
{
	const struct pico_type *type = pico_type_named(name);
	struct map bin, want;
	char path[100], what[100];
	size_t n, i, wrong = 0;
	float *y;

	(void)snprintf(what, sizeof what, "%s%s, value by value", name, kind);
	(void)snprintf(path, sizeof path,
	    "../shared/conformance/quants/%s%s.bin", name, kind);
	if (map_open(&bin, path, NULL) < 0) {
		printf("ok %d - %s # SKIP no such vectors\n", ++n_tests, what);
		return;
	}
	(void)snprintf(path, sizeof path,
	    "../shared/conformance/quants/%s%s.f32", name, kind);
	if (map_open(&want, path, NULL) < 0) {
		ok(false, path);
		map_close(&bin);
		return;
	}
	y = decode(type, &bin, &n);
	for (i = 0; y != NULL && i < n; i++)	/* a zero has either sign */
		wrong += y[i] != get_f32(want.p + 4 * i);
	ok(y != NULL && want.n == n * sizeof *y && wrong == 0, what);
	if (wrong > 0)
		printf("# %zu of %zu values differ\n", wrong, n);
	free(y);
	map_close(&bin);
	map_close(&want);
}

static float
one(const char *type_name, const void *src)
{
	float y = -99.0f;

	(void)pico_dequantize(pico_type_named(type_name)->id, src, &y, 1);
	return y;
}

static void
check_plain(void)
{
	const double f64[] = { 1.0 + 0x1p-24, 1e300 };
	const int64_t i64 = -9007199254740993;
	const int32_t i32 = INT32_MIN;
	const int16_t i16 = -32768;
	const int8_t i8 = -128;
	const float f32 = -1.5e-42f;

	ok(one("F32", &f32) == f32, "F32 is copied, subnormals too");
	ok(one("F64", f64) == 1.0f, "F64 is rounded to even");
	ok(isinf(one("F64", f64 + 1)), "F64 too large is infinite");
	ok(one("I8", &i8) == -128.0f, "I8");
	ok(one("I16", &i16) == -32768.0f, "I16");
	ok(one("I32", &i32) == -2147483648.0f, "I32");
	ok(one("I64", &i64) == -9007199254740992.0f, "I64 is rounded");
}

/* The types that are only used for activations. */
static void
check_activations(void)
{
	uint8_t q8_1[36] = { 0x00, 0x3c, 0, 0, 5, 0xff };	/* d = 1 */
	uint8_t q8_k[292] = { 0, 0, 0, 0x40, 0x80, 3 };		/* d = 2 */
	float y[256];

	ok(pico_dequantize(9, q8_1, y, 32) == 0 && y[0] == 5.0f &&
	    y[1] == -1.0f && y[31] == 0.0f, "Q8_1");
	ok(pico_dequantize(15, q8_k, y, 256) == 0 && y[0] == -256.0f &&
	    y[1] == 6.0f && y[255] == 0.0f, "Q8_K");
}

static void
check_table(void)
{
	static const uint32_t removed[] = { 4, 5, 31, 32, 33, 36, 37, 38 };
	uint32_t id, n = 0;
	size_t i;
	bool gone = true;

	for (id = 0; id < 1000; id++)
		if (pico_type(id) != NULL) {
			n++;
			gone &= pico_type(id)->id == id;
		}
	for (i = 0; i < COUNT(removed); i++)
		gone &= pico_type(removed[i]) == NULL;
	ok(n == 35 && gone, "35 types, the removed ones are not there");
	ok(pico_type_named("q4_k") == pico_type(12) &&
	    pico_type_named("Q4_2") == NULL && pico_type_named("") == NULL,
	    "types by name, case ignored");
}

/* Any bytes at all must decode without leaving a table. */
static void
check_any_bytes(void)
{
	static uint8_t b[292 * 64];
	static float y[256 * 64];
	uint32_t id, x = 1;
	size_t i;
	int rc = 0;

	for (i = 0; i < sizeof b; i++) {
		x = x * 1664525 + 1013904223;
		b[i] = (uint8_t)(x >> 24);
	}
	for (id = 0; id < 64; id++)
		if (pico_type(id) != NULL)
			rc |= pico_dequantize(id, b, y,
			    (size_t)pico_type(id)->block * 64);
	ok(rc == 0, "any bytes can be decoded");
	ok(pico_dequantize(12, b, y, 255) == -1, "part of a block is refused");
	ok(pico_dequantize(99, b, y, 256) == -1, "an unknown type is refused");
}

static void
check_bad_blocks(void)
{
	uint8_t b[3 * 292] = {0};
	uint64_t first = 99;

	ok(pico_bad_blocks(2, b, 96, &first) == 0, "zeros are valid");
	b[18 + 1] = 0x7c;
	ok(pico_bad_blocks(2, b, 96, &first) == 1 && first == 1,
	    "an infinite scale in Q4_0 is found");
	ok(pico_bad_blocks(1, b, 48, &first) == 1 && first == 9,
	    "so is an infinite value in F16");
	b[18 + 1] = 0;
	b[84 * 2 + 83] = 0xfe;
	ok(pico_bad_blocks(10, b, 768, &first) == 1 && first == 2,
	    "a NaN minimum in Q2_K is found");
	b[84 * 2 + 83] = 0;
	b[49] = b[51] = b[53] = b[55] = 0xf0;
	ok(pico_bad_blocks(29, b, 256, &first) == 1 && first == 0,
	    "the spread scale of IQ1_M is found");
	b[17] = 255;
	ok(pico_bad_blocks(39, b, 64, &first) == 1 && first == 1,
	    "exponent 255 in MXFP4 is found");
	ok(pico_bad_blocks(24, b, 292, &first) == 0, "integers are valid");
}

int
main(void)
{
	size_t i;

	for (i = 0; i < COUNT(vectors); i++) {
		check_hash(vectors[i].type, vectors[i].hash);
		check_values(vectors[i].type, "");
		if (strcmp(vectors[i].type, "BF16") != 0 &&
		    strcmp(vectors[i].type, "F16") != 0)
			check_values(vectors[i].type, ".rand");
	}
	check_plain();
	check_activations();
	check_table();
	check_any_bytes();
	check_bad_blocks();
	printf("1..%d\n", n_tests);
	return n_failed > 0;
}
