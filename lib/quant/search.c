/* SPDX-License-Identifier: MIT */
/* The searches for any machine. */
#include "search.h"

const struct search search_plain[] = SEARCHES("scalar");
