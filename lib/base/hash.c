/* SPDX-License-Identifier: MIT */
/* Checksums, hashes of models, identities of files: FNV-1a on 64-bit words. */
#include "base.h"

#define PRIME 0x100000001b3u

uint64_t
hash_bytes(uint64_t h, const void *p, size_t n)
{
	const uint8_t *b = p;

	for (; n >= 8; n -= 8, b += 8) {
		h = (h ^ get_u64(b)) * PRIME;
		h ^= h >> 32;	/* high bits must reach the low ones */
	}
	for (; n > 0; n--)
		h = (h ^ *b++) * PRIME;
	return h;
}

uint32_t
hash_text(uint64_t seed, const char *p, size_t n)
{
	uint64_t h = hash_bytes(HASH_START ^ seed, p, n);

	return (uint32_t)((h ^ h >> 32) * 0x9e3779b97f4a7c15u >> 32);
}
