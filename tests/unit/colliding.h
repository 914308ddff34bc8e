/* SPDX-License-Identifier: MIT */
/* Names that hash_text() does not tell apart. */
#include "../../lib/base/base.h"

#define COLLIDING (HASH_PROBES + 1)

/* So many names of 16 letters. What the first eight make of the hash, the others
   undo: of eight bytes that do, one in 65536 are letters. */
static void
colliding(uint64_t seed, char (*name)[16])
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNO"
	    "PQRSTUVWXYZ_0123456789";
	uint64_t state = 1, want = 0, h, k;
	size_t n = 0, i;
	char s[16] = "--------________";

	while (n < COLLIDING) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		for (i = 0; i < 8; i++)
			s[i] = letters[state >> (16 + 6 * i) & 63];
		h = hash_bytes(HASH_START ^ seed, s, 8);
		if (n == 0) {
			memcpy(&k, s + 8, 8);
			want = h ^ k;
		}
		k = h ^ want;
		memcpy(s + 8, &k, 8);
		for (i = 8; i < 16 && memchr(letters, s[i], 64) != NULL; i++)
			;
		if (i == 16)
			memcpy(name[n++], s, sizeof s);
	}
}
