/* SPDX-License-Identifier: MIT */
/* tokenizer.json of a folder, or, by the first byte, another of its files. */
#include "folder.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const char *const names[] = {
		"tokenizer.json", "tokenizer_config.json", "config.json",
		"model.safetensors.index.json",
	};
	static const char plain[] = "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},"
	    "\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}";
	size_t which;
	char path[200];

	if (n == 0)
		return 0;
	which = data[0] >= '0' && data[0] <= '3' ? data[0] - '0' : 0;
	n -= data[0] != '{';
	data += data[0] != '{';
	folder_model();
	folder_put("tokenizer.json", plain, sizeof plain - 1);
	folder_put(names[which], data, n);
	folder_convert();
	if (which > 0) {
		(void)snprintf(path, sizeof path, "%s/%s", folder(),
		    names[which]);
		MUST(unlink(path) == 0);
	}
	return 0;
}
