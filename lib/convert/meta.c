/* SPDX-License-Identifier: MIT */
/* The keys of the file to be, in order. */
#include <float.h>
#include <inttypes.h>

#include "convert.h"

/* A new key; '@' at its start is the name of the architecture. */
static struct meta_key *
add(struct meta *m, const char *key, uint32_t type, struct pico_err *err)
{
	struct meta_key *k;
	size_t i;
	int n;

	if (mem_grow(&m->key, &m->cap, m->n + 1, sizeof *m->key, "keys",
	    err) < 0)
		return NULL;
	k = &m->key[m->n];
	*k = (struct meta_key){ .type = type };
	n = snprintf(k->key, sizeof k->key, "%s%s", *key == '@' ? m->arch : "",
	    key + (*key == '@'));
	if (n < 0 || (size_t)n >= sizeof k->key) {
		(void)fail(err, "key '%s' is too long", show(key,
		    strlen(key)));
		return NULL;
	}
	for (i = 0; i < m->n; i++)
		if (strcmp(m->key[i].key, k->key) == 0) {
			(void)fail(err, "key '%s' would be there twice",
			    k->key);
			return NULL;
		}
	m->n++;
	return k;
}

int
meta_whole(struct meta *m, const char *key, uint64_t v, struct pico_err *err)
{
	struct meta_key *k = add(m, key, PICO_KV_U32, err);

	if (k == NULL)
		return -1;
	if (v > UINT32_MAX)
		return fail(err, "key '%s': %" PRIu64 " is too large", k->key,
		    v);
	k->whole = (int64_t)v;
	return 0;
}

int
meta_bool(struct meta *m, const char *key, bool v, struct pico_err *err)
{
	struct meta_key *k = add(m, key, PICO_KV_BOOL, err);

	if (k == NULL)
		return -1;
	k->whole = v;
	return 0;
}

int
meta_real(struct meta *m, const char *key, double v, struct pico_err *err)
{
	struct meta_key *k = add(m, key, PICO_KV_F32, err);

	if (k == NULL)
		return -1;
	/* none of them can be negative; in 32 bits, some are none or infinite */
	if (!(v >= 0 && v <= (double)FLT_MAX) || (v > 0 && (float)v == 0))
		return fail(err, "key '%s' would be %g, should be 0 or of %g "
		    "to %g", k->key, v, (double)FLT_TRUE_MIN, (double)FLT_MAX);
	k->real = v;
	return 0;
}

int
meta_str(struct meta *m, const char *key, struct pico_str v,
    struct pico_err *err)
{
	struct meta_key *k = add(m, key, PICO_KV_STR, err);

	if (k == NULL)
		return -1;
	k->str = v;
	return 0;
}

int
meta_array(struct meta *m, const char *key, uint32_t elem, const void *v,
    uint64_t n, struct pico_err *err)
{
	struct meta_key *k = add(m, key, PICO_KV_ARR, err);

	if (k == NULL)
		return -1;
	k->elem = elem;
	k->array = v;
	k->n = n;
	return 0;
}

int
meta_write(const struct meta *m, struct pico_writer *w, struct pico_err *err)
{
	const struct meta_key *k;
	size_t i;
	int r = 0;

	for (i = 0; i < m->n && r == 0; i++) {
		k = &m->key[i];
		if (k->type == PICO_KV_F32)
			r = pico_writer_real(w, k->key, k->type, k->real, err);
		else if (k->type == PICO_KV_STR)
			r = pico_writer_str(w, k->key, k->str, err);
		else if (k->type != PICO_KV_ARR)
			r = pico_writer_int(w, k->key, k->type, k->whole, err);
		else if (k->elem == PICO_KV_STR)
			r = pico_writer_strs(w, k->key, k->n, k->array, err);
		else
			r = pico_writer_array(w, k->key, k->elem, k->n,
			    k->array, err);
	}
	return r;
}

void
meta_list(const struct meta *m, FILE *out)
{
	const struct meta_key *k;
	char text[200];
	size_t i;

	for (i = 0; i < m->n; i++) {
		k = &m->key[i];
		(void)fprintf(out, "%s\t%s\t", k->key,
		    pico_kv_type_name(k->type));
		if (k->type == PICO_KV_ARR)
			(void)fprintf(out, "%" PRIu64 " %s\n", k->n,
			    pico_kv_type_name(k->elem));
		else if (k->type == PICO_KV_F32)
			(void)fprintf(out, "%.9g\n", (float)k->real);
		else if (k->type == PICO_KV_BOOL)
			(void)fprintf(out, "%s\n", k->whole ? "true" :
			    "false");
		else if (k->type != PICO_KV_STR)
			(void)fprintf(out, "%" PRId64 "\n", k->whole);
		else
			(void)fprintf(out, "%s%s\n", text,
			    pico_escape(text, sizeof text, k->str.p, k->str.n)
			    >= sizeof text ? "..." : "");
	}
}
