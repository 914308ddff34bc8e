/* SPDX-License-Identifier: MIT */
/* Half precision (IEEE 754 binary16), in integers only. */
#include <string.h>

#include "base.h"

float
f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	uint32_t exp = h >> 10 & 31, man = h & 0x3ff, u;
	float f;

	if (exp == 31) {
		u = sign | 0x7f800000 | man << 13;
	} else if (exp != 0) {
		u = sign | (exp + 112) << 23 | man << 13;
	} else if (man == 0) {
		u = sign;
	} else {
		/* subnormal: man * 2^-24; normalise */
		int shift = __builtin_clz(man) - 21;

		u = sign | (uint32_t)(113 - shift) << 23 |
		    (man << (shift + 13) & 0x7fffff);
	}
	memcpy(&f, &u, sizeof f);
	return f;
}

uint16_t
f32_to_f16(float f)
{
	uint32_t u, abs, man, sign;
	int exp, shift;

	memcpy(&u, &f, sizeof u);
	sign = u >> 16 & 0x8000;
	abs = u & 0x7fffffff;
	if (abs > 0x7f800000)
		return (uint16_t)(sign | 0x7e00 | (abs >> 13 & 0x1ff));
	if (abs >= 0x477ff000)		/* rounds to 65536 or more */
		return (uint16_t)(sign | 0x7c00);
	if (abs >= 0x38800000) {	/* normal in half precision */
		u = abs - 0x38000000;
		u += 0xfff + (u >> 13 & 1);
		return (uint16_t)(sign | u >> 13);
	}
	if (abs < 0x33000000)		/* below 2^-25 */
		return (uint16_t)sign;
	exp = (int)(abs >> 23);
	man = (abs & 0x7fffff) | 0x800000;
	shift = 126 - exp;		/* man * 2^(exp-150) in units of 2^-24 */
	u = man >> shift;
	man &= (1u << shift) - 1;
	if (man > 1u << (shift - 1) ||
	    (man == 1u << (shift - 1) && (u & 1)))
		u++;
	return (uint16_t)(sign | u);
}
