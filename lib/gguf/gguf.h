/* SPDX-License-Identifier: MIT */
/* What the files of lib/gguf share. */
#ifndef PICO_GGUF_H
#define PICO_GGUF_H

#include "../base/base.h"

/* The name of a type id that was once in use and was removed from the format,
   else NULL. */
const char *type_removed(uint32_t id);

#endif
