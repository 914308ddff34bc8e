/* SPDX-License-Identifier: MIT */
/* What the files of lib/gguf share. */
#ifndef PICO_GGUF_H
#define PICO_GGUF_H

#include "../base/base.h"

/* Ids of the tensor types in files. */
enum {
	TYPE_F32 = 0, TYPE_F16 = 1, TYPE_Q4_0 = 2, TYPE_Q4_1 = 3,
	TYPE_Q5_0 = 6, TYPE_Q5_1 = 7, TYPE_Q8_0 = 8, TYPE_Q8_1 = 9,
	TYPE_Q2_K = 10, TYPE_Q3_K = 11, TYPE_Q4_K = 12, TYPE_Q5_K = 13,
	TYPE_Q6_K = 14, TYPE_Q8_K = 15, TYPE_IQ2_XXS = 16, TYPE_IQ2_XS = 17,
	TYPE_IQ3_XXS = 18, TYPE_IQ1_S = 19, TYPE_IQ4_NL = 20, TYPE_IQ3_S = 21,
	TYPE_IQ2_S = 22, TYPE_IQ4_XS = 23, TYPE_I8 = 24, TYPE_I16 = 25,
	TYPE_I32 = 26, TYPE_I64 = 27, TYPE_F64 = 28, TYPE_IQ1_M = 29,
	TYPE_BF16 = 30, TYPE_TQ1_0 = 34, TYPE_TQ2_0 = 35, TYPE_MXFP4 = 39,
	TYPE_NVFP4 = 40, TYPE_Q1_0 = 41, TYPE_Q2_0 = 42
};

#define GGUF_ALIGNMENT 32	/* unless the file says otherwise */
#define GGUF_KEY_MAX 65535	/* bytes of a key */
#define GGUF_NAME_MAX 64	/* of a tensor's name */

/* Bytes of a value; 0 for strings and arrays. type < PICO_KV_N. */
unsigned kv_type_size(uint32_t type);

/* The name of a type id that was once in use and was removed from the format,
   else NULL. */
const char *type_removed(uint32_t id);

/* The mapped bytes of the first file, and where its keys end, as they were when it
   was opened. */
const uint8_t *gguf_bytes(const struct pico_gguf *g);
uint64_t gguf_keys_end(const struct pico_gguf *g);

/* The keys of a file to be, as those of one that was read: borrowed until the
   writer changes. */
size_t writer_n_keys(const struct pico_writer *w);
struct pico_kv writer_key(const struct pico_writer *w, size_t i);
/* As of the last call that needed it. */
uint64_t writer_alignment(const struct pico_writer *w);
/* They as they would be in the file, with room for the 24 bytes before them: *n
   bytes that the caller frees. */
int writer_image(struct pico_writer *w, uint8_t **image, uint64_t *n,
    struct pico_err *err);

#endif
