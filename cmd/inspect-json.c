/* SPDX-License-Identifier: MIT */
/* The header as one JSON object. */
#include "inspect.h"

#include <inttypes.h>
#include <string.h>

static void
json_kv(const struct pico_kv *kv)
{
	(void)fputs("{\"key\":", stdout);
	json_str(kv->key);
	printf(",\"type\":\"%s\"", pico_kv_type_name(kv->type));
	if (kv->type == PICO_KV_ARR) {
		printf(",\"elem\":\"%s\",\"n\":%" PRIu64,
		    pico_kv_type_name(kv->elem), kv->n);
		if (!view.all && kv->n > SHORT_ARRAY)
			printf(",\"shown\":%d", SHORT_ARRAY);
	}
	(void)fputs(",\"value\":", stdout);
	put_value(kv, view.all);
	printf(",\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", kv->offset,
	    kv->bytes);
}

static void
json_tensor(const struct pico_tensor *t)
{
	uint32_t d;

	(void)fputs("{\"name\":", stdout);
	json_str(t->name);
	printf(",\"type\":\"%s\",\"type_id\":%" PRIu32 ",\"dims\":[",
	    pico_type(t->type)->name, t->type);
	for (d = 0; d < t->n_dims; d++)
		printf("%s%" PRIu64, d > 0 ? "," : "", t->dims[d]);
	printf("],\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"shard\":%d}",
	    t->offset, t->bytes, t->shard);
}

static void
json_file(struct pico_gguf_info info)
{
	(void)fputs("{\"path\":", stdout);
	json_str(str_of(info.path));
	printf(",\"size\":%" PRIu64 ",\"version\":%" PRIu32 ",\"alignment\":%"
	    PRIu32 ",\"kv_count\":%" PRIu64 ",\"tensor_count\":%" PRIu64
	    ",\"data_offset\":", info.file_size, info.version, info.alignment,
	    info.n_kv, info.n_tensors);
	if (info.data_offset > 0)
		printf("%" PRIu64 "}", info.data_offset);
	else
		(void)fputs("null}", stdout);
}

/* One object; `error` is why it is not all, or NULL. */
void
list_json(const struct pico_gguf *g, const char *error)
{
	struct pico_gguf_info info = pico_gguf_info(g, 0);
	const char *sep = "";
	size_t i;
	int s;

	printf("{\"version\":%" PRIu32 ",\"alignment\":%" PRIu32
	    ",\n\"files\":[", info.version, info.alignment);
	for (s = 0; s < pico_gguf_n_shards(g); s++) {
		(void)fputs(s > 0 ? ",\n" : "\n", stdout);
		json_file(pico_gguf_info(g, s));
	}
	(void)fputs("],\n\"kv\":[", stdout);
	for (i = 0; i < pico_gguf_n_kv(g); i++) {
		if (!is_shown(pico_gguf_kv(g, i)))
			continue;
		printf("%s\n", sep);
		json_kv(pico_gguf_kv(g, i));
		sep = ",";
	}
	(void)fputs("],\n\"tensors\":[", stdout);
	for (i = 0; i < pico_gguf_n_tensors(g); i++) {
		(void)fputs(i > 0 ? ",\n" : "\n", stdout);
		json_tensor(pico_gguf_tensor(g, i));
	}
	(void)putchar(']');
	if (error != NULL) {
		(void)fputs(",\n\"error\":", stdout);
		json_str(str_of(error));
	}
	(void)fputs("}\n", stdout);
}
