/* SPDX-License-Identifier: MIT */
/* A file of weights: a header in front of the bytes has its length put in. */
#include "folder.h"
#include "../../lib/convert/convert.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static uint8_t buf[70000];
	struct pico_err err = {0};
	struct st_set s = {0};
	uint64_t header = 0, room;
	size_t i;
	int r;

	if (n > 65536)
		return 0;
	/* as it is, or what ends at the last '}' as a header */
	memcpy(buf + 8, data, n);
	for (i = 0; i < n; i++)
		if (data[i] == '}')
			header = i + 1;
	memcpy(buf, &header, 8);
	if (n > 0 && data[0] == '{')
		folder_put("model.safetensors", buf, n + 8);
	else
		folder_put("model.safetensors", data, n);
	r = st_open(&s, folder(), &err);
	fuzz_check(r < 0, &err);
	for (i = 0; i < s.n && r == 0; i++) {
		room = s.shard[0].map.n;
		MUST(s.tensor[i].data >= s.shard[0].map.p + 8);
		MUST(s.tensor[i].end - s.tensor[i].begin <= room - (uint64_t)
		    (s.tensor[i].data - s.shard[0].map.p));
		MUST(st_find(&s, s.tensor[i].name) == &s.tensor[i]);
	}
	st_close(&s);
	return 0;
}
