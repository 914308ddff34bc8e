/* SPDX-License-Identifier: MIT */
/* What the files of lib/quant share. */
#ifndef PICO_QUANT_H
#define PICO_QUANT_H

#include "../gguf/gguf.h"

/*
 * The searches: all that takes time. Each works on n values x, a multiple of 8
 * and at most 256, with weights w of their errors. Written once for vectors of
 * eight (search.h), with a fixed order of all sums, and built for more than one
 * instruction set: the result is the same to the bit.
 *
 * Where a code q stands for a value, that is step * q - min, and the code of x is
 * the whole number nearest to (x + min) / step, within lo..hi; 0 if step is 0.
 */
struct search {
	const char *name;	/* as PICO_CPU has it */
	/* As pico_dequantize(), but for which NaN a NaN is. */
	void (*widen)(uint32_t type, const uint8_t *src, float *x, size_t n);
	/* The largest magnitude of any number of values; not finite if one of
	   them is not. */
	float (*largest)(const float *x, size_t n);
	/*
	 * Weights: what the square of an error counts for, next to those of
	 * others in the block. By importance, if not NULL, which is what the
	 * error of a product grows with, and somewhat more for large values:
	 * sqrt(c mean of x^2 + x^2), a middle between all alike, which gives the
	 * least errors, and x^2. Of those tried c = 4 changed least of what a
	 * model says. Less with importance can make the error of a product
	 * larger than without.
	 */
	void (*weigh)(const float *x, const float *importance, size_t n,
	    float *w);
	/* The step that suits each of up to 16 blocks of n values best, with
	   min = 0; n is 8, 16 or 32. Below 0 where the largest value is better
	   off at the end of the range that has more room. */
	void (*symmetric)(const float *x, const float *w, size_t n,
	    size_t blocks, int lo, int hi, float *step);
	/* Codes 0..hi; *min >= 0. Returns the step, >= 0. */
	float (*affine)(const float *x, const float *w, size_t n, int hi,
	    float *min);
	/* Sum of w * error^2. */
	float (*error)(const float *x, const float *w, size_t n, float step,
	    float min, int lo, int hi);
	void (*codes)(const float *x, size_t n, float step, float min, int lo,
	    int hi, int8_t *q);
	/* The same for the code book of IQ4. */
	float (*book)(const float *x, const float *w, size_t n);
	float (*book_error)(const float *x, const float *w, size_t n,
	    float step);
	void (*book_codes)(const float *x, size_t n, float step, int8_t *q);
};
/* Two of each: the other one is for weights by importance, where errors matter
   more than time. */
extern const struct search search_plain[2], search_avx2[2];

/* Of all types: a block x with weights w to its bytes. */
typedef void block_quantizer(const struct search *s, const float *x,
    const float *w, uint8_t *b);
block_quantizer quantize_q4_1, quantize_q5_1, quantize_q8_0, quantize_q2_k,
    quantize_q3_k, quantize_q4_k, quantize_q5_k, quantize_q6_k,
    quantize_iq4_nl, quantize_iq4_xs, quantize_tq1_0, quantize_tq2_0,
    quantize_q1_0, quantize_q2_0, quantize_mxfp4, quantize_nvfp4;

/* The same for a step that is known. */
typedef void step_packer(const struct search *s, const float *x, float step,
    uint8_t *b);
step_packer pack_q4_0, pack_q5_0;

static inline void
put_u16(uint8_t *b, uint16_t v)
{
	memcpy(b, &v, sizeof v);
}

/* Stores a scale; returns what it is when read again. */
static inline float
put_f16(uint8_t *b, float f)
{
	uint16_t h = f32_to_f16(f);

	put_u16(b, h);
	return f16_to_f32(h);
}

#endif
