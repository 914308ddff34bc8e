/* SPDX-License-Identifier: MIT */
/* tokenizer.model of a folder. */
#include "folder.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static bool made;

	if (!made)
		folder_model();
	made = true;
	folder_put("tokenizer.model", data, n);
	folder_convert();
	return 0;
}
